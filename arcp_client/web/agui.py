"""The former path of `arcp_client.web.exports.agui`; imports from here keep working."""

from __future__ import annotations

from arcp_client.web.exports.agui import Run, ag_ui

__all__ = ["Run", "ag_ui"]
