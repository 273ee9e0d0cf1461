"""Names the formats in which commands write their data to stdout."""

from __future__ import annotations

import enum

__all__ = ["Output"]


class Output(enum.StrEnum):
    """A format of stdout."""

    TEXT = "text"
    JSON = "json"
    JSONL = "jsonl"
