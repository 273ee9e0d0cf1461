"""A blocking client, for scripts and workers without asyncio: the names of `arcp_client`.

::

    from arcp_client.sync import Client

    with Client("ws://127.0.0.1:7777/arcp", token=TOKEN) as client:
        print(client.submit("code-refactor", {"path": "src/"}).result().value)

    your thread ─▶ Client, Job ─▶ Portal ─▶ loop thread: arcp_client.Client
         ▲                                                  │
         └────────── result, error, batch of events ◀───────┘

The methods of `Client`, `Job`, `JobHandle`, `JobView`, `EventIterator` and `Registration` block.
`Portal` runs the loop thread, which clients may share. Every other name is the same object as in
`arcp_client`. No other part of the package imports this one.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

import arcp_client

if TYPE_CHECKING:
    from arcp_client import (
        AgentDeclaration,
        AgentInfo,
        ArcpError,
        Batch,
        Buffer,
        CheckpointStore,
        Choice,
        ClientInfo,
        Closed,
        Connecting,
        Connector,
        Credential,
        Event,
        Gap,
        JobContext,
        JobMessage,
        JobSummary,
        Lease,
        LeaseConstraints,
        Limits,
        LinkState,
        Live,
        MemoryEventLog,
        MemoryStore,
        Observation,
        OpenQuestion,
        Order,
        Provision,
        Provisioner,
        Reconnect,
        Reconnecting,
        Result,
        Runtime,
        RuntimeInfo,
        SessionInfo,
        SqliteEventLog,
        SqliteStore,
        Stats,
        StdioConnector,
        TakenAnswer,
        Timeouts,
        Transport,
        Verdict,
        WebSocketConnector,
        __version__,
        errors,
        events,
        rx,
        testing,
    )
    from arcp_client.sync.client import Client
    from arcp_client.sync.event_methods import Registration
    from arcp_client.sync.iterators import EventIterator
    from arcp_client.sync.job import Job, JobHandle, JobView
    from arcp_client.sync.portal import Portal

_HOME_OF = {
    "Client": "client",
    "EventIterator": "iterators",
    "Job": "job",
    "JobHandle": "job",
    "JobView": "job",
    "Portal": "portal",
    "Registration": "event_methods",
}

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
    "Portal",
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
    """Import a public name on first use."""
    if name in _HOME_OF:
        module = importlib.import_module(f".{_HOME_OF[name]}", __name__)
        value: Any = getattr(module, name)
    elif name in __all__:
        value = getattr(arcp_client, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
