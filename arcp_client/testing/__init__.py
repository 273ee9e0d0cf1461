"""Tools for tests: injected faults, scripted runtimes of every dialect, and virtual time."""

from __future__ import annotations

from arcp_client.testing.clock import VirtualClock, VirtualTimeLoop
from arcp_client.testing.faulty import (
    Chance,
    Cut,
    Delay,
    Drop,
    FaultyConnector,
    FaultyTransport,
    FrameFault,
    Reorder,
    Repeat,
)
from arcp_client.testing.proxy import Fault, FaultyProxy, port_of
from arcp_client.testing.replayed import ReplayedRuntime
from arcp_client.testing.scripted import ScriptedRuntime

__all__ = [
    "Chance",
    "Cut",
    "Delay",
    "Drop",
    "Fault",
    "FaultyConnector",
    "FaultyProxy",
    "FaultyTransport",
    "FrameFault",
    "Reorder",
    "Repeat",
    "ReplayedRuntime",
    "ScriptedRuntime",
    "VirtualClock",
    "VirtualTimeLoop",
    "port_of",
]
