"""The former path of `arcp_client.acp.services.terminals`; imports from here keep working."""

from __future__ import annotations

from arcp_client.acp.services.terminals import LocalTerminals, Terminals

__all__ = ["LocalTerminals", "Terminals"]
