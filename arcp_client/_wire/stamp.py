"""Encodes each event of a runtime once, for all sessions that receive it (§8.1, §8.3).

The session id and ``event_seq`` of an event differ from session to session. They are added when the
event is sent; everything else is encoded when the agent emits the event.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from types import NoneType
from typing import Any

import msgspec

from arcp_client._wire import names
from arcp_client._wire.codec import snapshot
from arcp_client._wire.ids import new_id, time_text

__all__ = [
    "ENVELOPE",
    "FRAME",
    "EventIds",
    "Record",
    "canonical",
    "event_payload",
    "job_part",
    "payload_bytes",
    "timestamp",
]

_encode = msgspec.json.Encoder(decimal_format="number").encode

FRAME = (
    b'{"arcp":"' + names.PROTOCOL.encode() + b'","id":"%b","type":"%b","session_id":"%b"%b,'
    b'"event_seq":%d,"payload":%b}'
)
"""A whole frame: id, type, session, `job_part`, number and payload."""

ENVELOPE = 250
"""Approximate size of an envelope without its payload, in bytes."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple((a + b).encode("ascii") for a in _ALPHABET for b in _ALPHABET)
_LOW = 2**20 - 1


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event, result or error of a job, without the fields of the session that receives it.

    Attributes:
        id: the envelope's id, the same in every session.
        type: the message type.
        job: the part of the envelope that names the job, from `job_part`.
        payload: the payload as JSON.
        at: the loop's time at which it was emitted.
        needs: the feature that a session must have negotiated to receive it (§6.2).
        job_id: its job.
        index: its position in the job, from 0.
        size: the approximate size of its frame, in bytes.
    """

    id: bytes
    type: bytes
    job: bytes
    payload: bytes
    at: float = 0.0
    needs: str | None = None
    job_id: str = ""
    index: int = 0
    size: int = 0

    @property
    def terminal(self) -> bool:
        """Whether this record ends its job."""
        return self.type != _EVENT


_EVENT = names.EVENT.encode()


def job_part(job_id: str, trace_id: str) -> bytes:
    """Encode the fields that all frames of a job share. Both ids must be valid already."""
    return f',"trace_id":"{trace_id}","job_id":"{job_id}"'.encode("ascii")


def event_payload(kind: str, body: Mapping[str, Any]) -> bytes:
    """Encode the payload of a ``job.event``, with the current time as its timestamp.

    Raises:
        ValueError: JSON cannot represent the body.
    """
    payload = {"kind": kind, "ts": timestamp(), "body": body}
    kinds = set(map(type, body.values()))
    if kinds <= _FLAT:
        try:
            data = _encode(payload)
        except (OverflowError, UnicodeEncodeError):
            pass
        else:
            if float not in kinds or b"null" not in data:  # NaN would have been encoded as null
                return data
    try:
        return payload_bytes(payload)
    except ValueError:
        snapshot(body)  # raises the same error, with a path relative to the agent's value
        raise


def payload_bytes(payload: Mapping[str, Any] | Sequence[Any]) -> bytes:
    """Encode any payload or part of one, by the rules of `codec.snapshot`.

    Raises:
        ValueError: JSON cannot represent the payload: NaN, bytes, a set, a cycle.
    """
    if _plain(payload):
        try:
            return _encode(payload)
        except (OverflowError, RecursionError, UnicodeEncodeError):
            pass  # huge integers, deep nesting, lone surrogates
    return bytes(snapshot(payload))


def _plain(payload: Mapping[str, Any] | Sequence[Any]) -> bool:
    """Whether the fast encoder, which guesses a form for bytes and NaN, encodes this exactly."""
    left: list[Any] = [payload]
    for value in left:
        kind = type(value)
        if kind is dict:
            for key in value:
                if type(key) is not str:
                    return False
            if len(left) > _MANY:
                return False
            left.extend(value.values())
        elif kind is list or kind is tuple:
            if len(left) > _MANY:  # also stops at a cycle
                return False
            left.extend(value)
        elif kind is float:
            if value - value != 0.0:  # infinite or NaN
                return False
        elif kind is Decimal:
            if not value.is_finite():
                return False
        elif kind not in _SCALARS:
            return False
    return True


_SCALARS = frozenset({str, int, bool, NoneType, msgspec.Raw})
_FLAT = frozenset({str, int, bool, NoneType, float})
_MANY = 10_000


class EventIds:
    """Generates envelope ids: ULIDs that increase within a process, faster than one at a time.

    Of the 80 random bits, 40 stay constant for 17 minutes; the other 40 count up from a random
    start. In practice, collisions between processes are no likelier than with random ids.
    """

    def __init__(self) -> None:
        self._era = -1  # the time in units of 2**20 milliseconds
        self._first = b""  # the digits of the era
        self._constant = b""  # the digits of the constant random bits
        self._prefix = b""
        self._head = b""  # the prefix and the higher half of the count
        self._until = 0
        self._count = 0

    def next(self) -> bytes:
        """Return a new id."""
        moment = time.time_ns()
        self._count += 1
        if moment >= self._until:
            self._tick(moment // 1_000_000)
        elif not self._count & _LOW:
            self._carry()
        count = self._count
        return self._head + _PAIRS[count >> 10 & 1023] + _PAIRS[count & 1023]

    def _tick(self, moment: int) -> None:
        """Begin a millisecond."""
        if moment >> 20 != self._era:
            self._begin(moment >> 20)
        self._until = (moment + 1) * 1_000_000
        low = _PAIRS[moment >> 10 & 1023] + _PAIRS[moment & 1023]
        self._prefix = self._first + low + self._constant
        self._carry()

    def _begin(self, era: int) -> None:
        self._era = era
        self._first = _PAIRS[era >> 20] + _PAIRS[era >> 10 & 1023] + _PAIRS[era & 1023]
        self._constant = new_id()[10:18].encode("ascii")
        self._count = int.from_bytes(os.urandom(4), "big")

    def _carry(self) -> None:
        high = self._count >> 20
        self._head = self._prefix + _PAIRS[high >> 10] + _PAIRS[high & 1023]


_now: tuple[int, str] = (0, "")


def timestamp() -> str:
    """Like `ids.now_text`, but formatted only once a millisecond."""
    global _now
    moment = time.time_ns() // 1_000_000
    known, text = _now
    if moment != known:
        text = time_text(datetime.fromtimestamp(moment / 1000, UTC))
        _now = (moment, text)
    return text


def canonical(value: Any) -> bytes:
    """Encode a JSON value independent of the order of its keys."""
    return _CANONICAL.encode(value).encode()


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
