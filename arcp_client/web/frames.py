"""Values in, the bytes of server-sent events out, and positions back from what browsers send.

The format is that of the HTML standard, "Server-sent events". A frame's data is one line of JSON,
and its id, where it has one, is a position: the epoch of a feed and the number of its last event.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from arcp_client import Event, transcripts
from arcp_client.transcripts import digits

__all__ = [
    "BEAT",
    "RETRY",
    "Position",
    "batch",
    "decoded",
    "encoded",
    "entry",
    "frame",
    "plain",
    "position",
]

RETRY = b"retry: 1000\n\n"
"""How long a browser waits before it connects again, in milliseconds."""
BEAT = b":\n\n"
"""A comment: it keeps proxies from closing a quiet stream, and shows whether anybody is there."""

_POSITION = re.compile(r"([0-9a-z]{1,32})-([0-9]{1,15})")


class Position(NamedTuple):
    """Up to where somebody has read a feed: its epoch, and the number of the last event."""

    epoch: str
    n: int

    def __str__(self) -> str:
        return f"{self.epoch}-{self.n}"


def position(text: str | None) -> Position | None:
    """The position that a browser names; ``None`` if it names none that could ever be one."""
    found = _POSITION.fullmatch(text) if text else None
    return Position(found[1], int(found[2])) if found is not None else None


def encoded(value: Any) -> bytes:
    """Any JSON value as one line; what JSON cannot hold in it becomes a text, as in transcripts."""
    try:
        return msgspec.json.encode(value)
    except (ValueError, OverflowError, TypeError, RecursionError):  # half a character, for one
        line = transcripts.encode(transcripts.OtherLine(kind="", extra={"value": value}))
        return digits.dumps(digits.loads(line)["value"], ascii=True).encode()


def decoded(data: bytes) -> Any:
    """What `encoded` and `plain` made a line of, with the digits of its numbers."""
    return digits.loads(data)


class _Line(msgspec.Struct):
    event: msgspec.Raw


def plain(event: Event, scrubber: transcripts.Scrubber) -> bytes:
    """An event as JSON, with its secrets masked as in a transcript."""
    line = transcripts.encode(transcripts.entry(event, 0.0), scrubber)
    try:
        return bytes(msgspec.json.decode(line, type=_Line).event)
    except ValueError:  # half a character again
        return digits.dumps(digits.loads(line)["event"], ascii=True).encode()


def entry(n: int, at: int, event: bytes) -> bytes:
    """One event of a batch: its number, when the server got it in milliseconds, and itself."""
    return b'{"n":%d,"at":%d,"event":%b}' % (n, at, event)


def frame(kind: str, data: bytes, *, id: Position | None = None) -> bytes:
    """One server-sent event. ``data`` is one line."""
    head = f"id: {id}\nevent: {kind}\ndata: " if id is not None else f"event: {kind}\ndata: "
    return b"%b%b\n\n" % (head.encode(), data)


def batch(entries: Sequence[bytes], last: Position) -> bytes:
    """A frame of events, ``last`` being the position behind them."""
    return frame("events", b"[%b]" % b",".join(entries), id=last)
