"""Decodes the JSON of frames, and encodes frames as JSON.

A ``job.event`` of a known kind is decoded in one typed pass (msgspec). Tolerant readers decode all
other messages and keep unknown fields. Bytes that cannot be decoded become a `BadFrame`: `decode`
raises for no input.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from decimal import Decimal
from typing import Any

import msgspec

from arcp_client._log_fields import log_fields
from arcp_client._wire import names
from arcp_client._wire.bodies import (
    KINDS,
    MAX_SEQ,
    EventFrame,
    KnownPayload,
    LooseEvent,
    LoosePayload,
    Seq,
    StatusBody,
    StatusPayload,
    TypedEvent,
)
from arcp_client._wire.halves import whole_texts
from arcp_client._wire.ids import nanoseconds, parse_time
from arcp_client._wire.json_faults import fault_of
from arcp_client._wire.unreadable import head_of, header_of, unreadable
from arcp_client.errors import RemoteProtocolError
from arcp_client.events import Event

__all__ = [
    "BadFrame",
    "ControlFrame",
    "EventFrame",
    "Frame",
    "decode",
    "decode_control",
    "decode_event",
    "encode",
    "fingerprint",
    "head_of",
    "instant",
    "parse",
    "snapshot",
    "to_json",
]

_log = logging.getLogger("arcp_client.wire")


class ControlFrame(msgspec.Struct, kw_only=True, gc=False):
    """Any frame other than ``job.event``; ``messages`` and ``replies`` read its payload."""

    type: str
    id: str = ""
    session_id: str = ""
    job_id: str | None = None
    event_seq: Seq | None = None
    trace_id: str | None = None
    correlation_id: str | None = None
    extensions: Any = None
    payload: dict[str, Any] = {}

    def __repr__(self) -> str:  # payloads hold tokens and credentials
        return f"ControlFrame(type={self.type[:80]!r}, id={self.id[:80]!r})"


class BadFrame(msgspec.Struct, kw_only=True):  # gc-tracked: errors refer back
    """A frame that could not be decoded. ``event_seq`` is set if it could be read."""

    error: RemoteProtocolError
    event_seq: int | None = None
    id: str = ""
    session_id: str = ""
    job_id: str | None = None


Frame = EventFrame | ControlFrame | BadFrame


decode_event = msgspec.json.Decoder(TypedEvent).decode
"""The hot path of `decode`: raises ValueError or RecursionError for frames other than events
(§8.2).
"""
_control = msgspec.json.Decoder(ControlFrame).decode
_encode = msgspec.json.Encoder(decimal_format="number").encode


def decode(data: bytes) -> Frame:
    """Decode one frame. Never raises, whatever the bytes hold."""
    try:
        return decode_event(data)
    except (ValueError, RecursionError):
        return decode_control(data)


def decode_control(data: bytes) -> Frame:
    """Like `decode`, but faster for control frames than for events."""
    try:
        frame = _control(data)
    except (ValueError, RecursionError):
        return _tolerant(data)
    return _loose(frame, data) if frame.type == names.EVENT else frame


def fingerprint(frame: EventFrame) -> str | None:
    """Return a value that identifies an event within its job, independent of its envelope.

    ``None`` if the event has no timestamp: equal events may then be distinct.
    """
    payload = frame.payload
    if payload.ts is None:
        return None
    try:
        content = _encode(payload)
    except (TypeError, ValueError, RecursionError):  # only the tolerant decoder accepts this value
        try:
            content = _dumps(payload).encode("ascii")
        except ValueError:
            return None
    return hashlib.blake2b(content, digest_size=16).hexdigest()


class _Timed(msgspec.Struct):
    ts: Any = None


class _Envelope(msgspec.Struct):
    payload: _Timed


_timed = msgspec.json.Decoder(_Envelope).decode


def instant(data: bytes) -> int | None:
    """Return the timestamp of an event in nanoseconds since 1970; ``None`` if it has none."""
    try:
        return nanoseconds(_timed(data).payload.ts)
    except (ValueError, RecursionError):  # only the tolerant decoder accepts this frame
        frame = decode_control(data)
        if isinstance(frame, ControlFrame | BadFrame):
            return None
        return nanoseconds(frame.payload.ts)


def parse(data: bytes) -> Any:
    """Parse any JSON value, lone surrogates and a byte order mark included.

    Raises:
        ValueError: the bytes are not JSON in UTF-8, or hold a number that is out of range.
        RecursionError: the value is nested too deeply.
    """
    return _DECODER.decode(data.decode("utf-8-sig"))


def _tolerant(data: bytes) -> Frame:
    """Decode frames that the typed decoder rejects: lone surrogates, huge numbers, nulls."""
    try:
        raw = parse(data)
    except (ValueError, RecursionError) as error:
        return _bad(data, f"not JSON: {_reason(error)}" if data else "empty", header_of(data))
    if not isinstance(raw, dict):
        return _bad(data, f"a frame is a JSON object, this is {_json_name(raw)}", {})
    if not isinstance(raw.get("type"), str):
        return _bad(data, "the frame has no type", raw)
    seq = raw.get("event_seq")
    if seq is not None and not _is_seq(seq):
        return _bad(data, "event_seq is not a positive 63-bit integer", raw)
    payload = raw.get("payload")
    if payload is None:
        payload = {}
    if not isinstance(payload, dict):
        return _bad(data, f"payload is {_json_name(payload)}, not an object", raw)
    frame = ControlFrame(
        type=names.text_of(raw["type"]) or "",
        id=names.text_of(raw.get("id")) or "",
        session_id=names.text_of(raw.get("session_id")) or "",
        job_id=names.text_of(raw.get("job_id")),
        event_seq=seq,
        trace_id=names.text_of(raw.get("trace_id")),
        correlation_id=names.text_of(raw.get("correlation_id")),
        payload=payload,
    )
    if frame.type == names.RESULT:
        frame.payload = whole_texts(payload)
    return _loose(frame, data) if frame.type == names.EVENT else frame


def _loose(frame: ControlFrame, data: bytes) -> Frame:
    """Decode an event of an unknown kind, or one whose values do not fit the class of its kind."""
    payload = frame.payload
    kind = names.text_of(payload.get("kind"))
    header: dict[str, Any] = dict(
        event_seq=frame.event_seq,
        id=frame.id,
        session_id=frame.session_id,
        job_id=frame.job_id,
    )
    if not kind:
        return _bad(data, "the event has no kind", header)
    body = payload.get("body")
    moment = parse_time(payload.get("ts"))
    if kind in KINDS:
        typed = _convert(kind, body)
        if typed is not None:
            typed.ts = moment
            return TypedEvent(payload=typed, trace_id=frame.trace_id, **header)
        _log.warning(
            "the body of a %s event does not fit its kind, delivered raw",
            kind,
            extra=log_fields(session=frame.session_id, job=frame.job_id, seq=frame.event_seq),
        )
    loose = LoosePayload(kind, moment, body)
    return LooseEvent(payload=loose, trace_id=frame.trace_id, **header)


def _convert(kind: str, body: Any) -> KnownPayload | None:
    """Convert a body to the payload of its kind. Nulls count as absent; numbers may be strings."""
    if body is None:
        body = {}
    if not isinstance(body, dict):
        return None
    tidy = {name: value for name, value in body.items() if value is not None}
    try:
        payload: KnownPayload = msgspec.convert(
            {"kind": kind, "body": tidy}, KnownPayload, strict=False
        )
    except (ValueError, RecursionError):
        if kind != "status" or body.get("phase") != names.CREDENTIAL_ROTATED:
            return None
        # Never delivered raw: the body holds a secret.
        return StatusPayload(body=StatusBody(names.CREDENTIAL_ROTATED))
    return payload


def _bad(data: bytes, why: str, header: Mapping[str, Any]) -> BadFrame:
    error = unreadable(f"unreadable frame ({why}), {len(data)} bytes", data)
    seq = header.get("event_seq")
    return BadFrame(
        error=error,
        event_seq=seq if _is_seq(seq) else None,
        id=names.text_of(header.get("id")) or "",
        session_id=names.text_of(header.get("session_id")) or "",
        job_id=names.text_of(header.get("job_id")),
    )


def _is_seq(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MAX_SEQ


# ------------------------------------------------------------------------------ pieces


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("number out of range")
    return value


# json.loads and json.dumps make such an object at each call, which takes longer than its work.
_DECODER = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return str(error).partition("\n")[0][:80]


def _json_name(value: Any) -> str:
    names = {list: "an array", dict: "an object", str: "a string", bool: "a boolean"}
    return "null" if value is None else names.get(type(value), "a number")


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
    extensions: Mapping[str, Any] | None = None,
) -> bytes:
    """Encode one envelope (§5). Absent fields are left out, never sent as null.

    Raises:
        ValueError: JSON cannot represent the payload (see `snapshot`).
    """
    envelope: dict[str, Any] = {"arcp": names.PROTOCOL, "id": id, "type": kind}
    if session_id is not None:
        envelope["session_id"] = session_id
    if trace_id is not None:
        envelope["trace_id"] = trace_id
    if job_id is not None:
        envelope["job_id"] = job_id
    if event_seq is not None:
        envelope["event_seq"] = event_seq
    if extensions is not None:
        envelope["extensions"] = extensions
    envelope["payload"] = payload
    return to_json(envelope)


def to_json(value: Any) -> bytes:
    """Encode a value that this package has built. For values from users, use `snapshot`.

    Raises:
        ValueError: JSON cannot represent the value.
    """
    try:
        data = _encode(value)
    except UnicodeEncodeError:  # a lone surrogate: legal in JSON as an escape
        return _dumps(value).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON value: {error}") from error
    if b"null" in data or b"NaN" in data or b"Infinity" in data:
        _refuse_non_finite(value)  # the encoder writes null for a float, NaN for a Decimal
    return data


def _refuse_non_finite(root: Any) -> None:
    left = [root]
    while left:
        value = left.pop()
        if isinstance(value, Mapping):
            left.extend(value.values())
        elif isinstance(value, list | tuple):
            left.extend(value)
        elif isinstance(value, Decimal):
            if not value.is_finite():
                raise ValueError(f"not a JSON value: {value} is no number that JSON knows")
        elif isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"not a JSON value: {value} is no number that JSON knows")


def snapshot(value: Any) -> msgspec.Raw:
    """Encode a user's value as JSON bytes; later changes to the value have no effect.

    Accepts JSON values, mappings, dataclasses, structs, pydantic models, datetimes, UUIDs, enums
    and decimals. A `msgspec.Raw` is taken as JSON: its numbers keep their digits. The output is
    ASCII on one line, so that any peer can read it.

    Raises:
        ValueError: NaN, infinity, a cycle, or a type without a JSON form. Bytes and sets have no
            JSON form, because their encoding and their order would be guesses. The message has the
            path and the type, such as ``$.a[3]: set has no form in JSON``.
    """
    if isinstance(value, msgspec.Raw):
        return _verbatim(bytes(value))
    return msgspec.Raw(_dumps(value).encode("ascii"))


_STRING_OR_SPACE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[ \t\r\n]+')
_BEYOND_ASCII = re.compile(r"[^\x00-\x7f]")


def _verbatim(data: bytes) -> msgspec.Raw:
    """Return JSON unchanged except for white space between its tokens."""
    try:
        parse(data)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not a JSON value: {_reason(error)}") from error
    text = _STRING_OR_SPACE.sub(_string_only, data.decode("utf-8-sig"))
    return msgspec.Raw(_BEYOND_ASCII.sub(_escaped, text).encode("ascii"))


def _string_only(found: re.Match[str]) -> str:
    return found[0] if found[0][0] == '"' else ""


def _escaped(found: re.Match[str]) -> str:
    return json.dumps(found[0])[1:-1]


def _dumps(value: Any) -> str:
    try:
        return _ENCODER.encode(value)
    except (TypeError, ValueError, RecursionError, OverflowError) as error:
        raise ValueError(
            f"not a JSON value: {fault_of(value, _plain) or _reason(error)}"
        ) from error


def _plain(value: Any) -> Any:
    """Convert one level of a value that the ``json`` module cannot encode."""
    if isinstance(value, Decimal):
        return _number(value)
    if isinstance(value, Event):
        return value.to_dict()
    if isinstance(value, msgspec.Raw):
        return parse(bytes(value))
    if isinstance(value, Mapping):
        return dict(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if isinstance(value, bytes | bytearray | memoryview | set | frozenset):
        raise TypeError(f"{type(value).__name__} has no form in JSON")
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    return msgspec.to_builtins(value, builtin_types=(bytes, bytearray, memoryview, Decimal))


_ENCODER = json.JSONEncoder(separators=(",", ":"), allow_nan=False, default=_plain)


def _number(value: Decimal) -> int | float:
    if not value.is_finite():
        raise ValueError(f"{value} is no number that JSON knows")
    whole = abs(value) < 10**30 and value == value.to_integral_value()
    return int(value) if whole else float(value)
