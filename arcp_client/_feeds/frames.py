"""Encodes values as server-sent events, and decodes the positions that browsers send back.

The format is that of the HTML standard, "Server-sent events". The data of a frame is one line of
JSON, in which JSON escapes every line break. The id of a frame, if it has one, is a position in a
job feed; it consists of letters, digits and a few marks, so that it fits a header of HTTP.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from arcp_client import _digits as digits
from arcp_client import transcripts
from arcp_client.events import Event, Log, Metric, Progress, ResultChunk, Status, Thought, envelope

__all__ = [
    "CONTINUE",
    "KEEPALIVE",
    "RETRY",
    "SSE_HEADERS",
    "Position",
    "batch",
    "decoded",
    "encoded",
    "entry",
    "exact",
    "frame",
    "id_of",
    "mark_of",
    "numbered",
    "plain",
    "position",
    "unmasked",
]

SSE_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Type": "text/event-stream; charset=utf-8",
        "Cache-Control": "no-store",
        "X-Accel-Buffering": "no",  # nginx would buffer the events
    }
)
"""The headers of a response of server-sent events."""
RETRY = b"retry: 1000\n\n"
"""Tells a browser to wait one second before it reconnects."""
KEEPALIVE = b":\n\n"
"""A comment. It keeps proxies from closing an idle stream, and detects a lost connection."""

CONTINUE = b": continue after the last id\nretry: 100\n\n"
"""Precedes the end of a stream that a browser continues with its next request."""

_MARK = r"~?[0-9A-Za-z_.:-]{1,80}"
_POSITION = re.compile(rf"({_MARK})-([0-9]{{1,15}})", re.ASCII)


class Position(NamedTuple):
    """How far a page has read a `JobFeed`.

    Attributes:
        mark: identifies the last event: its id, which is the same in every session, or the epoch of
            the feed, which begins with ``~``, if the event has no id that fits a header.
        n: the number of the last event.
    """

    mark: str
    n: int

    def __str__(self) -> str:
        return f"{self.mark}-{self.n}"


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


class _EventId(msgspec.Struct):
    id: str | None = None


class _EntryId(msgspec.Struct):
    event: _EventId


_ENTRY_ID = msgspec.json.Decoder(_EntryId)
_ENVELOPE_ID = msgspec.json.Decoder(_EventId)
_ID = re.compile(_MARK.removeprefix("~?"), re.ASCII)


def mark_of(entry: bytes) -> str | None:
    """The id of the event of an entry; ``None`` if it has none that fits a header of HTTP."""
    try:
        found = _ENTRY_ID.decode(entry).event.id
    except ValueError:  # a lone surrogate
        return None
    return found if found and _ID.fullmatch(found) else None


def id_of(envelope: bytes) -> str:
    """The id in an envelope; empty if it has none."""
    try:
        return _ENVELOPE_ID.decode(envelope).id or ""
    except ValueError:  # a lone surrogate
        return ""


def plain(event: Event, scrubber: transcripts.Scrubber) -> bytes:
    """An event as JSON; secrets are masked as in a transcript."""
    flat = unmasked(event, scrubber)
    if flat is not None:
        return flat
    line = transcripts.encode(transcripts.entry(event, 0.0), scrubber)
    try:
        return bytes(msgspec.json.decode(line, type=_EventLine).event)
    except ValueError:  # a lone surrogate again
        return digits.dumps(digits.loads(line)["event"], ascii=True).encode()


def unmasked(event: Event, scrubber: transcripts.Scrubber) -> bytes | None:
    """An event as `plain` encodes it, if it is certain that nothing in it is masked.

    ``None`` for others, for events with JSON values of the peer, and for those with numbers or
    strings that need care.
    """
    return _flat(event, scrubber) if type(event) in _TEXTS else None


_TEXTS: Mapping[type[Event], Callable[[Any], tuple[str | None, ...]]] = MappingProxyType(
    {
        Log: attrgetter("id", "level", "message"),
        Thought: attrgetter("id", "text"),
        Status: attrgetter("id", "phase", "message"),
        Metric: attrgetter("id", "name", "unit"),
        Progress: attrgetter("id", "units", "message"),
        ResultChunk: attrgetter("id", "result_id", "data", "encoding"),
    }
)
"""The strings of the events that a job sends most, which contain no JSON values of the peer."""


def _flat(event: Any, scrubber: transcripts.Scrubber) -> bytes | None:
    ids = (event.session_id, event.job_id or "", event.trace_id or "")
    if not scrubber.is_clean("\n".join(filter(None, _TEXTS[type(event)](event))), ids):
        return None
    numbered = type(event) in (Progress, Metric)
    if numbered and digits.has_odd_numbers(envelope(event)):
        return None
    fields = msgspec.structs.asdict(event)
    if fields.get("dimensions") is not None:
        return None
    del fields["_frame"]
    try:
        return msgspec.json.encode(fields)
    except (ValueError, OverflowError):  # a lone surrogate, or an integer of more than 64 bits
        return None


def entry(at: int, event: bytes) -> bytes:
    """One event as a JSON object, with the time of its receipt in milliseconds."""
    return b'{"at":%d,"event":%b}' % (at, event)


def frame(kind: str, data: bytes, *, id: Position | None = None) -> bytes:
    """One server-sent event; ``data`` must be one line."""
    head = f"id: {id}\nevent: {kind}\ndata: " if id is not None else f"event: {kind}\ndata: "
    return b"%b%b\n\n" % (head.encode(), data)


def batch(entries: Sequence[bytes], last: Position) -> bytes:
    """A frame with several events, with their numbers; ``last`` is the position of the last one."""
    return frame("events", numbered(entries, last.n), id=last)


def numbered(entries: Sequence[bytes], last: int) -> bytes:
    """Several events as a JSON list, with their numbers; ``last`` is that of the last one."""
    first = last - len(entries) + 1
    made = (b'{"n":%d,%b' % (n, entry[1:]) for n, entry in enumerate(entries, first))
    return b"[%b]" % b",".join(made)
