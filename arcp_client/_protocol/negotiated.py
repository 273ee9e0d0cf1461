"""Holds the terms that the last welcome agreed on (§6.2)."""

from __future__ import annotations

from datetime import datetime

import msgspec

from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.ids import parse_time
from arcp_client._wire.replies import Welcome
from arcp_client.models import SessionInfo

__all__ = ["Negotiated"]


class Negotiated(msgspec.Struct):
    """The terms of the current session.

    Attributes:
        session_id: the session's id, empty before the first welcome.
        info: the session as described by the welcome.
        welcomed_at: the time of the welcome by the runtime's clock, if the welcome states it.
        live: the welcome of the current link has arrived, so requests may be sent.
        lines: the current link sends each frame as a line.
    """

    session_id: str = ""
    info: SessionInfo | None = None
    welcomed_at: datetime | None = None
    live: bool = False
    lines: bool = False

    def agree(self, welcome: Welcome, frame: ControlFrame) -> None:
        """Take over the terms of a welcome."""
        self.session_id = welcome.info.id
        self.info = welcome.info
        self.welcomed_at = parse_time(frame.payload.get("accepted_at"))
        self.live = True

    def offers(self, feature: str) -> bool:
        """Whether both sides offered a feature."""
        return self.info is not None and feature in self.info.features
