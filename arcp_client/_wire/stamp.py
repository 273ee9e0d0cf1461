"""Encodes each event once, and adds the envelope of each session (§8.1, §8.3).

An event has another session id and number in each session that sees it. Everything else is encoded
when the event is emitted; the envelope is added when it is sent.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
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
    "EventIds",
    "Record",
    "canonical",
    "event_payload",
    "job_part",
    "payload_bytes",
    "timestamp",
]

_encode = msgspec.json.Encoder(decimal_format="number").encode

_FRAME = (
    b'{"arcp":"' + names.PROTOCOL.encode() + b'","id":"%b","type":"%b","session_id":"%b"%b,'
    b'"event_seq":%d,"payload":%b}'
)

ENVELOPE = 250
"""About how many bytes a frame has beside its payload."""

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_HALF = 2**40


class Record(msgspec.Struct, frozen=True, gc=False):
    """One event, result or error of a job, without the session it is sent in.

    Attributes:
        id: the envelope's id, the same in every session.
        type: the message type.
        job: the part of the envelope that names the job, from `job_part`.
        payload: the payload as JSON.
        at: the loop's time when it was emitted.
        needs: the feature without which a session does not get it (§6.2).
        job_id: its job.
        index: its place in the job, from 0.
        size: about how many bytes its frame has.
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
        """Whether it ends its job."""
        return self.type != _EVENT

    def frame(self, session: bytes, seq: int) -> bytes:
        """The whole frame for one session."""
        return _FRAME % (self.id, self.type, session, self.job, seq, self.payload)


_EVENT = names.EVENT.encode()


def job_part(job_id: str, trace_id: str) -> bytes:
    """The fields that all frames of a job share. Both ids are this package's own or checked."""
    return f',"trace_id":"{trace_id}","job_id":"{job_id}"'.encode("ascii")


def event_payload(kind: str, body: Mapping[str, Any]) -> bytes:
    """The payload of a ``job.event``, stamped with the present moment.

    Raises:
        ValueError: the body holds what JSON cannot.
    """
    payload = {"kind": kind, "ts": timestamp(), "body": body}
    if _FLAT.issuperset(map(type, body.values())):
        try:
            data = _encode(payload)
        except (OverflowError, UnicodeEncodeError):
            pass
        else:
            if b"null" not in data:  # which NaN would have become
                return data
    try:
        return payload_bytes(payload)
    except ValueError:
        snapshot(body)  # raises the same, with a path that begins at what the agent gave
        raise


def payload_bytes(payload: Mapping[str, Any]) -> bytes:
    """Any payload as JSON, by the rules of `codec.snapshot`.

    Raises:
        ValueError: it holds what JSON cannot: NaN, bytes, a set, a cycle.
    """
    if _plain(payload):
        try:
            return _encode(payload)
        except (OverflowError, RecursionError, UnicodeEncodeError):
            pass  # huge integers, deep nesting, lone surrogates
    return bytes(snapshot(payload))


def _plain(payload: Mapping[str, Any]) -> bool:
    """Whether the fast encoder, which guesses a form for bytes and NaN, has nothing to guess."""
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
            if len(left) > _MANY:  # also the end of a cycle
                return False
            left.extend(value)
        elif kind is float:
            if value - value != 0.0:  # infinite or no number
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
    """Mints envelope ids: ULIDs, rising within one process, several times faster than one by one.

    Forty of the eighty random bits stay for a millisecond's ids, the other forty are counted up
    from a random start; ids of two processes meet no sooner than random ones would in practice.
    """

    def __init__(self) -> None:
        self._prefix = ""
        self._until = 0
        self._count = 0

    def next(self) -> bytes:
        """A fresh id."""
        moment = time.time_ns()
        if moment >= self._until:
            self._prefix = new_id()[:18]
            self._count = int.from_bytes(os.urandom(4), "big")
            self._until = moment - moment % 1_000_000 + 1_000_000
        self._count = count = (self._count + 1) % _HALF
        return (
            self._prefix
            + _PAIRS[count >> 30]
            + _PAIRS[count >> 20 & 1023]
            + _PAIRS[count >> 10 & 1023]
            + _PAIRS[count & 1023]
        ).encode("ascii")


_now: tuple[int, str] = (0, "")


def timestamp() -> str:
    """Like `ids.now_text`, formatted once a millisecond."""
    global _now
    moment = time.time_ns() // 1_000_000
    known, text = _now
    if moment != known:
        text = time_text(datetime.fromtimestamp(moment / 1000, UTC))
        _now = (moment, text)
    return text


def canonical(value: Any) -> bytes:
    """A JSON value as bytes that do not depend on the order of its keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
