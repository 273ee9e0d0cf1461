"""Encodes values as server-sent events, and decodes the positions that browsers send back.

The format is that of the HTML standard, "Server-sent events". The data of a frame is one line of
JSON. The id of a frame, if it has one, is a position in a job feed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from arcp_client import Event, transcripts
from arcp_client import _digits as digits

__all__ = [
    "KEEPALIVE",
    "RETRY",
    "Position",
    "batch",
    "decoded",
    "encoded",
    "entry",
    "exact",
    "frame",
    "plain",
    "position",
]

RETRY = b"retry: 1000\n\n"
"""Tells a browser to wait one second before it reconnects."""
KEEPALIVE = b":\n\n"
"""A comment. It keeps proxies from closing an idle stream, and detects a lost connection."""

_POSITION = re.compile(r"([0-9a-z]{1,32})-([0-9]{1,15})")


class Position(NamedTuple):
    """How far a page has read a `JobFeed`: the feed's epoch, and the number of the last event."""

    epoch: str
    n: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.n}"


def position(text: str | None) -> Position | None:
    """The position in a text from a browser; ``None`` if the text is not a position."""
    found = _POSITION.fullmatch(text) if text else None
    return Position(found[1], int(found[2])) if found is not None else None


def encoded(value: Any) -> bytes:
    """A JSON value as one line. What JSON cannot represent becomes a text, as in transcripts."""
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError, TypeError, RecursionError):  # for example a lone surrogate
        return exact(value)


def exact(value: Any) -> bytes:
    """As `encoded`, with the digits of the numbers of `decoded`."""
    line = transcripts.encode(transcripts.OtherLine(kind="", extra={"value": value}))
    return digits.dumps(digits.loads(line)["value"], ascii=True).encode()


def decoded(data: bytes) -> Any:
    """The value of a line of `encoded` or `plain`, with the digits of its numbers."""
    return digits.loads(data)


class _EventLine(msgspec.Struct):
    event: msgspec.Raw


def plain(event: Event, scrubber: transcripts.Scrubber) -> bytes:
    """An event as JSON; secrets are masked as in a transcript."""
    line = transcripts.encode(transcripts.entry(event, 0.0), scrubber)
    try:
        return bytes(msgspec.json.decode(line, type=_EventLine).event)
    except ValueError:  # a lone surrogate again
        return digits.dumps(digits.loads(line)["event"], ascii=True).encode()


def entry(n: int, at: int, event: bytes) -> bytes:
    """One event of a batch, with its number and the time of its receipt in milliseconds."""
    return b'{"n":%d,"at":%d,"event":%b}' % (n, at, event)


def frame(kind: str, data: bytes, *, id: Position | None = None) -> bytes:
    """One server-sent event; ``data`` must be one line."""
    head = f"id: {id}\nevent: {kind}\ndata: " if id is not None else f"event: {kind}\ndata: "
    return b"%b%b\n\n" % (head.encode(), data)


def batch(entries: Sequence[bytes], last: Position) -> bytes:
    """A frame with several events; ``last`` is the position of the last one."""
    return frame("events", b"[%b]" % b",".join(entries), id=last)
