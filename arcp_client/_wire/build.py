"""Builds public events from frames, with one small function for each kind."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal

from arcp_client._wire import bodies, names
from arcp_client._wire.bodies import EventFrame
from arcp_client._wire.codec import ControlFrame, parse
from arcp_client._wire.ids import parse_time
from arcp_client._wire.replies import read_choices
from arcp_client.events import (
    Answered,
    ArtifactRef,
    Completed,
    Consumed,
    Delegate,
    Event,
    Expired,
    Failed,
    Log,
    Metric,
    Progress,
    Question,
    ResultChunk,
    Returned,
    Sent,
    Status,
    Thought,
    ToolCall,
    ToolResult,
    Unknown,
    Withdrawn,
)

__all__ = ["BUILDERS", "MASK", "rotated_credential", "terminal_event", "to_event"]

MASK = "**********"


def to_event(frame: EventFrame, data: bytes, redelivered: bool = False) -> Event:
    """Build the public event from an event frame and the bytes that it was decoded from."""
    return BUILDERS[type(frame.payload)](frame, data, redelivered)


def _log(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Log(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        level=b.level.lower(),
        message=b.message,
    )


def _thought(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Thought(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        text=b.text,
    )


def _tool_call(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return ToolCall(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        tool=b.tool,
        args=b.args,
        call_id=b.call_id,
    )


def _tool_result(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return ToolResult(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        call_id=b.call_id,
        result=b.result,
        error=b.error,
    )


def _metric(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Metric(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        name=b.name,
        value=b.value,
        unit=b.unit,
        dimensions=b.dimensions,
    )


def _artifact(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return ArtifactRef(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        uri=b.uri,
        content_type=b.content_type,
        byte_size=b.byte_size,
        sha256=b.sha256,
    )


def _delegate(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Delegate(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        child_job_id=b.child_job_id,
        delegate_id=b.delegate_id,
        agent=b.agent,
    )


def _progress(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Progress(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        current=b.current,
        total=b.total,
        units=b.units,
        message=b.message,
    )


def _chunk(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return ResultChunk(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        result_id=b.result_id,
        chunk_seq=b.chunk_seq,
        data=b.data,
        encoding=b.encoding,
        more=b.more,
    )


def _status(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    if b.phase == names.CREDENTIAL_ROTATED:
        data = _masked(data)
    return Status(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        phase=b.phase,
        message=b.message,
    )


def _question(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Question(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        question_id=b.question_id,
        text=b.text,
        schema=b.schema,
        options=list(read_choices(b.options)),
        to=b.to or [],
        expires_at=b.expires_at,
        has_default=b.has_default,
        default=b.default,
        lease_paused=b.lease_paused,
    )


def _answered(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Answered(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        question_id=b.question_id,
        value=b.value,
        by=b.by,
        client=b.client,
        at=b.at,
        lease_expires_at=b.lease_expires_at,
    )


def _expired(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Expired(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        question_id=b.question_id,
        defaulted=b.defaulted,
        value=b.value,
        lease_expires_at=b.lease_expires_at,
    )


def _withdrawn(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Withdrawn(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        question_id=b.question_id,
        reason=b.reason,
        lease_expires_at=b.lease_expires_at,
    )


def _sent(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Sent(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        message_id=b.message_id,
        mode=b.mode,
        value=b.value,
        by=b.by,
        client=b.client,
    )


def _consumed(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Consumed(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        message_id=b.message_id,
        at=b.at,
    )


def _returned(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    b = p.body
    return Returned(
        seq=f.event_seq,
        id=f.id,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        message_id=b.message_id,
    )


def _loose(f: Any, data: bytes, again: bool) -> Event:
    p = f.payload
    body = p.body
    if isinstance(body, dict) and body.get("phase") == names.CREDENTIAL_ROTATED:
        data = _masked(data)
        body = _hide(body)
    return Unknown(
        seq=f.event_seq,
        id=f.id,
        kind=p.kind,
        session_id=f.session_id,
        job_id=f.job_id,
        ts=p.ts,
        trace_id=f.trace_id,
        redelivered=again,
        _frame=data,
        body=body,
    )


BUILDERS: Final[dict[type, Callable[[Any, bytes, bool], Event]]] = {
    bodies.LogPayload: _log,
    bodies.ThoughtPayload: _thought,
    bodies.ToolCallPayload: _tool_call,
    bodies.ToolResultPayload: _tool_result,
    bodies.StatusPayload: _status,
    bodies.MetricPayload: _metric,
    bodies.ArtifactPayload: _artifact,
    bodies.DelegatePayload: _delegate,
    bodies.ProgressPayload: _progress,
    bodies.ChunkPayload: _chunk,
    bodies.QuestionPayload: _question,
    bodies.AnsweredPayload: _answered,
    bodies.ExpiredPayload: _expired,
    bodies.WithdrawnPayload: _withdrawn,
    bodies.SentPayload: _sent,
    bodies.ConsumedPayload: _consumed,
    bodies.ReturnedPayload: _returned,
    bodies.LoosePayload: _loose,
}
"""Payload type to the function that builds the event; hot paths call that function directly."""


# ------------------------------------------------------------------------------- terminals


def terminal_event(frame: ControlFrame, data: bytes, redelivered: bool = False) -> Event:
    """Build `Completed` or `Failed` from a ``job.result`` or ``job.error`` frame.

    A ``job.result`` whose ``final_status`` is not success becomes a `Failed`: some runtimes report
    cancelled and timed-out jobs that way.
    """
    payload = frame.payload
    status = names.status_of(payload.get("final_status"))
    completed_at = parse_time(payload.get("completed_at"))
    common: dict[str, Any] = dict(
        seq=frame.event_seq,
        id=frame.id,
        session_id=frame.session_id,
        job_id=frame.job_id or names.text_of(payload.get("job_id")),
        trace_id=frame.trace_id,
        ts=completed_at,
        redelivered=redelivered,
        _frame=data,
    )
    if frame.type == names.RESULT and status in ("", names.SUCCESS):
        return Completed(
            **common,
            value=names.present(payload, names.RESULT_NAMES),
            result_id=names.text_of(payload.get("result_id")),
            result_size=_size(payload.get("result_size")),
            summary=names.text_of(payload.get("summary")),
            completed_at=completed_at,
        )
    named = names.text_of(payload.get("code"))
    code = named or _CODE_OF_STATUS.get(status, names.INTERNAL_ERROR)
    retryable = payload.get("retryable")
    return Failed(
        **common,
        status=_failed_status(status, code),
        code=code,
        message=names.first_text(payload, ("message", "summary")) or _message(status),
        # Whether a retry can help follows only from a code that the runtime sent.
        retryable=retryable if isinstance(retryable, bool) else named in names.RETRYABLE_BY_DEFAULT,
        details=names.first(payload, names.DETAILS_NAMES),
    )


_CODE_OF_STATUS = {
    names.STATUS_CANCELLED: names.CODE_CANCELLED,
    names.TIMED_OUT: names.TIMEOUT,
}


def _failed_status(status: str, code: str) -> Literal["error", "cancelled", "timed_out"]:
    if status == "cancelled" or (not status and code == names.CODE_CANCELLED):
        return "cancelled"
    if status == "timed_out" or (not status and code == names.TIMEOUT):
        return "timed_out"
    return "error"


def _message(status: str) -> str:
    return "" if not status or status in names.ENDED else f"the job ended as {status[:80]!r}"


def _size(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if type(value) is int and value >= 0 else None


# ----------------------------------------------------------------- rotated credentials (§9.8)


def rotated_credential(data: bytes) -> tuple[str, str] | None:
    """Return the id and the new value of a ``credential_rotated`` status frame."""
    try:
        body = parse(data)["payload"]["body"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return None
    for place in _places(body):
        name = names.first_text(place, names.ROTATED_ID_NAMES)
        value = names.first_text(place, names.ROTATED_VALUE_NAMES)
        if name and value:
            return name, value
    return None


def _places(value: Any, depth: int = 4) -> Iterator[dict[str, Any]]:
    """Yield the objects inside a value, outer ones first."""
    if isinstance(value, dict):
        yield value
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    for item in inner if depth else ():
        yield from _places(item, depth - 1)


_SECRET = re.compile(r"value|token|secret|passw|key", re.IGNORECASE)


def _masked(data: bytes) -> bytes:
    """Return the frame with every credential value in its body masked."""
    try:
        envelope = parse(data)
        envelope["payload"]["body"] = _hide(envelope["payload"]["body"])
        return json.dumps(envelope, separators=(",", ":")).encode("ascii")
    except (ValueError, RecursionError, LookupError, TypeError):
        return b""  # dropping the raw frame is safer than keeping one with a secret


def _hide(value: Any, depth: int = 8) -> Any:
    if not isinstance(value, dict | list):
        return value
    if not depth:
        return MASK
    if isinstance(value, list):
        return [_hide(item, depth - 1) for item in value]
    return {
        name: MASK if _SECRET.search(name) and item is not None else _hide(item, depth - 1)
        for name, item in value.items()
    }
