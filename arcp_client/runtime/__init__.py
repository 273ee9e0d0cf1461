"""An embeddable ARCP runtime: registers agent functions and serves clients (§6–§12)."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from arcp_client.runtime._agents.child import Child
from arcp_client.runtime._agents.tool import Tool
from arcp_client.runtime._connection.authentication import Authentication
from arcp_client.runtime._dialogue.inbox import JobInbox, Steering
from arcp_client.runtime._jobs.outcomes import Cancellation
from arcp_client.runtime._leases.credentials import Provision, Provisioner
from arcp_client.runtime._log.event_log import EventLog, MemoryEventLog
from arcp_client.runtime._log.sqlite import SqliteEventLog
from arcp_client.runtime._webhooks.endpoint import Webhook
from arcp_client.runtime.app import Runtime
from arcp_client.runtime.context import JobContext
from arcp_client.runtime.limits import Limits, Observation, Policy
from arcp_client.runtime.serving import Server

if TYPE_CHECKING:
    from arcp_client.runtime._log.postgres import PostgresEventLog as PostgresEventLog

__all__ = [
    "Authentication",
    "Cancellation",
    "Child",
    "EventLog",
    "JobContext",
    "JobInbox",
    "Limits",
    "MemoryEventLog",
    "Observation",
    "Policy",
    "Provision",
    "Provisioner",
    "Runtime",
    "Server",
    "SqliteEventLog",
    "Steering",
    "Tool",
    "Webhook",
]


def __getattr__(name: str) -> Any:
    """Import the event log for PostgreSQL on first use: it needs the extra ``postgres``."""
    if name != "PostgresEventLog":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module("arcp_client.runtime._log.postgres").PostgresEventLog
