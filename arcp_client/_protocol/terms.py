"""What the last welcome agreed on (§6.2): written by the session, read by all its parts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import msgspec

from arcp_client._wire.codec import ControlFrame
from arcp_client._wire.dialect import DIALECTS, Dialect
from arcp_client._wire.ids import parse_time
from arcp_client._wire.replies import Welcome
from arcp_client.models import SessionInfo

__all__ = ["Terms"]


class Terms(msgspec.Struct):
    """The terms of the present session.

    Attributes:
        session_id: the session's id, empty before the first welcome.
        info: as the welcome has it.
        dialect: how the runtime speaks.
        welcomed_at: the time of the welcome, by the runtime's clock, where it says so.
        live: a link is up and greeted on: requests may go out.
        lines: the present link sends frames as lines.
    """

    session_id: str = ""
    info: SessionInfo | None = None
    dialect: Dialect = DIALECTS["unknown"]
    welcomed_at: datetime | None = None
    live: bool = False
    lines: bool = False

    @property
    def longest(self) -> int | None:
        """Bytes of the longest frame that the runtime takes over this link, if that is known."""
        spoken = self.dialect
        return spoken.max_line if self.lines else spoken.max_frame

    def agree(self, welcome: Welcome, spoken: Dialect | None, frame: ControlFrame) -> None:
        """Take over what a welcome says; ``spoken`` overrules the dialect that it is written in."""
        self.session_id = welcome.info.id
        self.dialect = spoken or welcome.dialect
        self.info = replace(welcome.info, jobs_run_on=not self.dialect.session_ends_jobs)
        self.welcomed_at = parse_time(frame.payload.get("accepted_at"))
        self.live = True

    def offer(self, feature: str) -> bool:
        """Whether both sides offered a feature."""
        return self.info is not None and feature in self.info.features
