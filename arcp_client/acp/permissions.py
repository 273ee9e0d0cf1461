"""The former path of `arcp_client.acp.services.permissions`; imports from here keep working."""

from __future__ import annotations

from arcp_client.acp.services.permissions import (
    ASK,
    Answer,
    Ask,
    PermissionRequest,
    Policy,
    allow_list,
    decide,
    deny,
)

__all__ = ["ASK", "Answer", "Ask", "PermissionRequest", "Policy", "allow_list", "decide", "deny"]
