"""Bytes in, frames out, and back: the only place that reads or writes JSON.

The hot path is one typed pass (msgspec) over a ``job.event`` of a known kind. Everything else,
and everything odd, goes through tolerant readers that keep what they do not know. Whatever
cannot be read becomes a `BadFrame`; nothing here raises for what a peer sent.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from ..errors import RemoteProtocolError
from . import dialect
from .bodies import (
    KINDS,
    MAX_SEQ,
    EventFrame,
    KnownPayload,
    LooseEvent,
    LoosePayload,
    Seq,
    TypedEvent,
)
from .ids import parse_time

__all__ = [
    "BadFrame",
    "ControlFrame",
    "EventFrame",
    "Frame",
    "decode",
    "decode_control",
    "encode",
    "head_of",
    "snapshot",
]

_log = logging.getLogger("arcp_client.wire")

_HEAD = 120


class ControlFrame(msgspec.Struct, kw_only=True, gc=False):
    """Any frame that is no ``job.event``; its payload is read by ``messages``."""

    type: str
    id: str = ""
    session_id: str = ""
    job_id: str | None = None
    event_seq: Seq | None = None
    trace_id: str | None = None
    correlation_id: str | None = None
    payload: dict[str, Any] = {}


class BadFrame(msgspec.Struct, kw_only=True, gc=False):
    """A frame that could not be read; ``event_seq`` is set where at least that could be."""

    error: RemoteProtocolError
    event_seq: int | None = None
    id: str = ""
    session_id: str = ""
    job_id: str | None = None


Frame = EventFrame | ControlFrame | BadFrame


class _Header(msgspec.Struct, kw_only=True, gc=False):
    """What can be read of a frame without reading its payload."""

    type: str = ""
    id: Any = None
    session_id: Any = None
    job_id: Any = None
    event_seq: Seq | None = None
    payload: msgspec.Raw = msgspec.Raw()


_typed = msgspec.json.Decoder(TypedEvent).decode
_control = msgspec.json.Decoder(ControlFrame).decode
_header = msgspec.json.Decoder(_Header).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


def decode(data: bytes) -> Frame:
    """One frame from its bytes. Never raises for what the bytes hold."""
    try:
        return _typed(data)
    except (ValueError, RecursionError):
        return decode_control(data)


def decode_control(data: bytes) -> Frame:
    """Like `decode`, for a reader that expects control frames rather than events."""
    try:
        frame = _control(data)
    except (ValueError, RecursionError):
        return _tolerant(data)
    return _loose(frame, data) if frame.type == dialect.EVENT else frame


def _tolerant(data: bytes) -> Frame:
    """Frames with values that the typed readers refuse: lone surrogates, huge numbers, nulls."""
    try:
        raw = json.loads(data, parse_constant=_no_constant, parse_float=_finite)
    except (ValueError, RecursionError, UnicodeDecodeError) as error:
        return _bad(data, f"not JSON: {_reason(error)}")
    if not isinstance(raw, dict):
        return _bad(data, f"a frame is a JSON object, this is {_json_name(raw)}")
    if not isinstance(raw.get("type"), str):
        return _bad(data, "the frame has no type")
    seq = raw.get("event_seq")
    if seq is not None and (type(seq) is not int or not 1 <= seq <= MAX_SEQ):
        return _bad(data, "event_seq is not a positive 63-bit integer")
    payload = raw.get("payload")
    if payload is None:
        payload = {}
    if not isinstance(payload, dict):
        return _bad(data, f"payload is {_json_name(payload)}, not an object")
    frame = ControlFrame(
        type=raw["type"],
        id=_text(raw.get("id")) or "",
        session_id=_text(raw.get("session_id")) or "",
        job_id=_text(raw.get("job_id")),
        event_seq=seq,
        trace_id=_text(raw.get("trace_id")),
        correlation_id=_text(raw.get("correlation_id")),
        payload=payload,
    )
    return _loose(frame, data) if frame.type == dialect.EVENT else frame


def _loose(frame: ControlFrame, data: bytes) -> Frame:
    """An event of an unknown kind, or of a known one with values its class does not take."""
    payload = frame.payload
    kind = payload.get("kind")
    if not isinstance(kind, str) or not kind:
        return _bad(data, "the event has no kind")
    body = payload.get("body")
    moment = parse_time(payload.get("ts"))
    values: dict[str, Any] = dict(
        event_seq=frame.event_seq,
        id=frame.id,
        session_id=frame.session_id,
        job_id=frame.job_id,
        trace_id=frame.trace_id,
    )
    if kind in KINDS:
        # Nulls in optional places and a ts that is no timestamp are the usual reasons.
        tidy = {k: v for k, v in body.items() if v is not None} if isinstance(body, dict) else {}
        try:
            typed = msgspec.convert({"kind": kind, "body": tidy}, KnownPayload, strict=False)
        except (msgspec.ValidationError, UnicodeError):
            _log.warning("the body of a %s event does not fit its kind, delivered raw", kind)
        else:
            typed.ts = moment
            return TypedEvent(payload=typed, **values)
    return LooseEvent(payload=LoosePayload(kind, moment, body), **values)


def _bad(data: bytes, why: str) -> BadFrame:
    error = RemoteProtocolError(
        f"unreadable frame ({why}), {len(data)} bytes", size=len(data), head=head_of(data)
    )
    try:
        header = _header(data)
    except (ValueError, RecursionError):
        return BadFrame(error=error)
    return BadFrame(
        error=error,
        event_seq=header.event_seq,
        id=_text(header.id) or "",
        session_id=_text(header.session_id) or "",
        job_id=_text(header.job_id),
    )


def head_of(data: bytes) -> str:
    """The first characters of a frame for a log line, with control characters escaped.

    Empty for frames that may carry a secret: a head must never show a token or a credential.
    """
    start = bytes(data[:_HEAD])
    if any(word in data for word in (b"token", b"credential", b'"value"', b'"auth"')):
        return "<withheld: may hold a secret>"
    return start.decode("utf-8", "backslashreplace").encode("unicode_escape").decode("ascii")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).partition("\n")[0][:80]


def _json_name(value: Any) -> str:
    names = {list: "an array", dict: "an object", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


# ------------------------------------------------------------------------------ encoding


def encode(
    kind: str,
    payload: Mapping[str, Any],
    *,
    id: str,
    session_id: str | None = None,
    job_id: str | None = None,
    trace_id: str | None = None,
    event_seq: int | None = None,
) -> bytes:
    """One envelope as bytes (§5): absent fields are left out, never sent as null.

    Raises:
        ValueError: the payload holds what JSON cannot (see `snapshot`).
    """
    envelope: dict[str, Any] = {"arcp": dialect.PROTOCOL, "id": id, "type": kind}
    if session_id is not None:
        envelope["session_id"] = session_id
    if trace_id is not None:
        envelope["trace_id"] = trace_id
    if job_id is not None:
        envelope["job_id"] = job_id
    if event_seq is not None:
        envelope["event_seq"] = event_seq
    envelope["payload"] = payload
    try:
        return _encode(envelope)
    except UnicodeEncodeError:  # a lone surrogate: legal in JSON as an escape
        return json.dumps(envelope, separators=(",", ":"), default=_plain).encode()
    except (TypeError, RecursionError) as error:
        raise ValueError(f"not a JSON value: {error}") from error


def snapshot(value: Any) -> msgspec.Raw:
    """A user's value as JSON bytes, taken now: later changes to it do not matter.

    Takes what JSON can hold, and dataclasses, pydantic models, datetimes and decimals. ASCII
    only, so that any peer can read it.

    Raises:
        ValueError: NaN, infinity, a cycle, or a type that JSON cannot hold; says which.
    """
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False, default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON value: {error}") from error
    return msgspec.Raw(text.encode("ascii"))


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return float(value)
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    return msgspec.to_builtins(value)
