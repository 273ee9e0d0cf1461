"""Tools for tests: faults, scripted runtimes of every dialect, virtual time, conformance kits."""

from __future__ import annotations

from arcp_client.testing.clock import VirtualClock, VirtualTimeLoop
from arcp_client.testing.event_log_checks import EVENT_LOG_CHECKS, EventLogCase, check_event_log
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
from arcp_client.testing.store_checks import STORE_CHECKS, StoreCase, check_store
from arcp_client.testing.transport_checks import TRANSPORT_CHECKS, TransportCase, check_transport

__all__ = [
    "EVENT_LOG_CHECKS",
    "STORE_CHECKS",
    "TRANSPORT_CHECKS",
    "Chance",
    "Cut",
    "Delay",
    "Drop",
    "EventLogCase",
    "Fault",
    "FaultyConnector",
    "FaultyProxy",
    "FaultyTransport",
    "FrameFault",
    "Reorder",
    "Repeat",
    "ReplayedRuntime",
    "ScriptedRuntime",
    "StoreCase",
    "TransportCase",
    "VirtualClock",
    "VirtualTimeLoop",
    "check_event_log",
    "check_store",
    "check_transport",
    "port_of",
]
