"""What the last welcome agreed on (§6.2): written by the session, read by all its parts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from .._wire.dialect import DIALECTS, Dialect
from ..models import SessionInfo

__all__ = ["Terms"]


@dataclass(slots=True)
class Terms:
    """The terms of the present session.

    Attributes:
        session_id: the session's id, empty before the first welcome.
        info: as the welcome has it.
        dialect: how the runtime speaks.
        welcomed_at: the time of the welcome, by the runtime's clock, where it says so.
        live: a link is up and greeted on: requests may go out.
    """

    session_id: str = ""
    info: SessionInfo | None = None
    dialect: Dialect = DIALECTS["unknown"]
    welcomed_at: datetime | None = None
    live: bool = False

    def offer(self, feature: str) -> bool:
        """Whether both sides offered a feature."""
        return self.info is not None and feature in self.info.features
