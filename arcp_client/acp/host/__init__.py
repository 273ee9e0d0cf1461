"""Serves ACP agents from a `Runtime`: each job is one prompt to an agent, or a conversation."""

from __future__ import annotations

from arcp_client.acp.host.jobs import AgentFunction, host
from arcp_client.acp.host.leases import lease_policy

__all__ = ["AgentFunction", "host", "lease_policy"]
