"""The other end, to embed: functions in, a runtime that clients connect to out (§6–§12)."""

from __future__ import annotations

from arcp_client.runtime.app import Runtime
from arcp_client.runtime.auth import Authentication
from arcp_client.runtime.context import JobContext
from arcp_client.runtime.credentials import Provision, Provisioner
from arcp_client.runtime.delegation import Child
from arcp_client.runtime.limits import Limits, Observation, Policy
from arcp_client.runtime.log import EventLog, MemoryEventLog
from arcp_client.runtime.outcomes import Cancellation
from arcp_client.runtime.serving import Server
from arcp_client.runtime.sqlite import SqliteEventLog
from arcp_client.runtime.tools import Tool

__all__ = [
    "Authentication",
    "Cancellation",
    "Child",
    "EventLog",
    "JobContext",
    "Limits",
    "MemoryEventLog",
    "Observation",
    "Policy",
    "Provision",
    "Provisioner",
    "Runtime",
    "Server",
    "SqliteEventLog",
    "Tool",
]
