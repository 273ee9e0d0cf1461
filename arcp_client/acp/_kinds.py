"""The kinds of the events that hosted ACP agents emit beside those of ARCP."""

from __future__ import annotations

__all__ = ["OTHER", "PERMISSION", "REPLY", "SESSION", "TURN"]

SESSION = "x-vendor.acp.session"
"""The kind of the event that names the ACP session, for ``input.session`` of a later job."""

OTHER = "x-vendor.acp.update"
"""The kind of the event that carries, unchanged, an update for which ARCP has no event."""

TURN = "x-vendor.acp.turn"
"""The kind of the events at the beginning and the end of each turn of a conversation."""

PERMISSION = "x-vendor.acp.permission"
"""The kind of the event before the question of a permission: its tool call and its options."""

REPLY = "x-vendor.acp.reply"
"""The kind of the event that answers a message with a ``call``."""
