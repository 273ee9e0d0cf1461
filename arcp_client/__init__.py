"""Follow long-running AI agents over the Agent Runtime Control Protocol (ARCP v1.1).

::

    socket ─▶ transports ─▶ _wire.decode ─▶ _protocol.Session ─▶ _dispatch: fan-out
                                                │    ▲             │ a lane each
    socket ◀─ transports ◀─ _wire.encode ◀──────┘    │             ▼
                                                 watermark ◀── handler · async for · Observable

1. The reader never awaits user code.
2. The session puts events in order, and each registration keeps the order with one Rx operator.
3. An event is *processed* when its handler has returned, or when the iterator's next item is
   requested. Only processed events are acknowledged.
4. Events are not dropped silently: an event that cannot be delivered is reported by a `Gap`, an
   error or a log line.

In docstrings, S1, D6 and the like are rules in ``docs/explanation/rules.md``; § is a section of the
specification.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from arcp_client.version import __version__

if TYPE_CHECKING:
    from arcp_client import errors, events, rx, testing
    from arcp_client._dispatch.registration import Registration
    from arcp_client._dispatch.streams import EventIterator
    from arcp_client.client import Client
    from arcp_client.errors import ArcpError
    from arcp_client.events import Event, Gap
    from arcp_client.job import Job, JobHandle, JobView
    from arcp_client.models import (
        AgentDeclaration,
        AgentInfo,
        Choice,
        ClientInfo,
        Credential,
        JobMessage,
        JobSummary,
        Lease,
        LeaseConstraints,
        OpenQuestion,
        Result,
        RuntimeInfo,
        SessionInfo,
        Stats,
        TakenAnswer,
        Verdict,
    )
    from arcp_client.policy import Batch, Buffer, Order, Reconnect, Timeouts
    from arcp_client.runtime import (
        JobContext,
        Limits,
        MemoryEventLog,
        Observation,
        Provision,
        Provisioner,
        Runtime,
        SqliteEventLog,
    )
    from arcp_client.state import Closed, Connecting, LinkState, Live, Reconnecting
    from arcp_client.stores import CheckpointStore, MemoryStore, SqliteStore
    from arcp_client.transports.base import Connector, Transport
    from arcp_client.transports.stdio import StdioConnector
    from arcp_client.transports.websocket import WebSocketConnector

_HOMES = {
    "client": ("Client",),
    "errors": ("ArcpError",),
    "events": ("Event", "Gap"),
    "job": ("Job", "JobHandle", "JobView"),
    "_dispatch.registration": ("Registration",),
    "_dispatch.streams": ("EventIterator",),
    "models": (
        "AgentDeclaration",
        "AgentInfo",
        "Choice",
        "ClientInfo",
        "Credential",
        "JobMessage",
        "JobSummary",
        "Lease",
        "LeaseConstraints",
        "OpenQuestion",
        "Result",
        "RuntimeInfo",
        "SessionInfo",
        "Stats",
        "TakenAnswer",
        "Verdict",
    ),
    "policy": ("Batch", "Buffer", "Order", "Reconnect", "Timeouts"),
    "runtime": (
        "JobContext",
        "Limits",
        "MemoryEventLog",
        "Observation",
        "Provision",
        "Provisioner",
        "Runtime",
        "SqliteEventLog",
    ),
    "state": ("Closed", "Connecting", "LinkState", "Live", "Reconnecting"),
    "stores": ("CheckpointStore", "MemoryStore", "SqliteStore"),
    "transports.base": ("Connector", "Transport"),
    "transports.stdio": ("StdioConnector",),
    "transports.websocket": ("WebSocketConnector",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}
_MODULES = ("errors", "events", "rx", "testing")

__all__ = [
    "AgentDeclaration",
    "AgentInfo",
    "ArcpError",
    "Batch",
    "Buffer",
    "CheckpointStore",
    "Choice",
    "Client",
    "ClientInfo",
    "Closed",
    "Connecting",
    "Connector",
    "Credential",
    "Event",
    "EventIterator",
    "Gap",
    "Job",
    "JobContext",
    "JobHandle",
    "JobMessage",
    "JobSummary",
    "JobView",
    "Lease",
    "LeaseConstraints",
    "Limits",
    "LinkState",
    "Live",
    "MemoryEventLog",
    "MemoryStore",
    "Observation",
    "OpenQuestion",
    "Order",
    "Provision",
    "Provisioner",
    "Reconnect",
    "Reconnecting",
    "Registration",
    "Result",
    "Runtime",
    "RuntimeInfo",
    "SessionInfo",
    "SqliteEventLog",
    "SqliteStore",
    "Stats",
    "StdioConnector",
    "TakenAnswer",
    "Timeouts",
    "Transport",
    "Verdict",
    "WebSocketConnector",
    "__version__",
    "errors",
    "events",
    "rx",
    "testing",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that a client does not import the runtime."""
    if name in _MODULES:
        value: Any = importlib.import_module(f".{name}", __name__)
    elif name in _HOME_OF:
        value = getattr(importlib.import_module(f".{_HOME_OF[name]}", __name__), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
