"""The typed shapes of ``job.event`` frames (§8.2), with which a frame is decoded in a single pass.

The public events are in `arcp_client.events`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from arcp_client._wire import names

MAX_SEQ = 2**63 - 1

Seq = Annotated[int, msgspec.Meta(ge=1, le=MAX_SEQ)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MAX_SEQ)]
Number = int | float
Moment = Annotated[datetime, msgspec.Meta(tz=True)]
"""A timestamp with a zone. The tolerant decoder takes one without a zone and reads it as UTC."""


class _Body(msgspec.Struct, gc=False):
    """Base of event bodies, in the specification's form. Fields without a default are required."""


class LogBody(_Body, gc=False):
    level: str = "info"
    message: str = ""


class ThoughtBody(_Body, gc=False):
    text: str = ""


class ToolCallBody(_Body, gc=False):
    tool: str = ""
    args: Any = None
    call_id: str = ""


class ToolResultBody(_Body, gc=False):
    call_id: str = ""
    result: Any = None
    error: Any = None


class StatusBody(_Body, gc=False):
    phase: str = ""
    message: str | None = None


class MetricBody(_Body, gc=False):
    name: str = ""
    value: Number = 0
    unit: str | None = None
    dimensions: dict[str, Any] | None = None


class ArtifactBody(_Body, gc=False):
    uri: str = ""
    content_type: str = ""
    byte_size: int | None = None
    sha256: str | None = None


class DelegateBody(_Body, gc=False):
    child_job_id: str | None = None
    delegate_id: str | None = None
    agent: str | None = None


class ProgressBody(_Body, gc=False):
    current: Number = 0
    total: Number | None = None
    units: str | None = None
    message: str | None = None


class ChunkBody(_Body, gc=False):
    result_id: str
    chunk_seq: Count
    data: str
    encoding: str = "utf8"
    more: bool = True


class QuestionBody(_Body, gc=False):
    question_id: str = ""
    text: str = ""
    schema: Any = None
    options: list[dict[str, Any]] | None = None
    to: list[str] | None = None
    expires_at: datetime | None = None
    has_default: bool = False
    default: Any = None
    lease_paused: bool = False


class AnsweredBody(_Body, gc=False):
    question_id: str = ""
    value: Any = None
    by: str = ""
    client: str = ""
    at: datetime | None = None
    lease_expires_at: datetime | None = None


class ExpiredBody(_Body, gc=False):
    question_id: str = ""
    defaulted: bool = False
    value: Any = None
    lease_expires_at: datetime | None = None


class WithdrawnBody(_Body, gc=False):
    question_id: str = ""
    reason: str = ""
    lease_expires_at: datetime | None = None


class SentBody(_Body, gc=False):
    message_id: str = ""
    mode: str = "queue"
    value: Any = None
    by: str = ""
    client: str = ""


class ConsumedBody(_Body, gc=False):
    message_id: str = ""
    at: int = 0


class ReturnedBody(_Body, gc=False):
    message_id: str = ""


class _Payload(msgspec.Struct, tag_field="kind", gc=False):
    ts: Moment | None = None


class LogPayload(_Payload, tag="log", kw_only=True, gc=False):
    body: LogBody


class ThoughtPayload(_Payload, tag="thought", kw_only=True, gc=False):
    body: ThoughtBody


class ToolCallPayload(_Payload, tag="tool_call", kw_only=True, gc=False):
    body: ToolCallBody


class ToolResultPayload(_Payload, tag="tool_result", kw_only=True, gc=False):
    body: ToolResultBody


class StatusPayload(_Payload, tag="status", kw_only=True, gc=False):
    body: StatusBody


class MetricPayload(_Payload, tag="metric", kw_only=True, gc=False):
    body: MetricBody


class ArtifactPayload(_Payload, tag="artifact_ref", kw_only=True, gc=False):
    body: ArtifactBody


class DelegatePayload(_Payload, tag="delegate", kw_only=True, gc=False):
    body: DelegateBody


class ProgressPayload(_Payload, tag="progress", kw_only=True, gc=False):
    body: ProgressBody


class ChunkPayload(_Payload, tag="result_chunk", kw_only=True, gc=False):
    body: ChunkBody


class QuestionPayload(_Payload, tag=names.QUESTION, kw_only=True, gc=False):
    body: QuestionBody


class AnsweredPayload(_Payload, tag=names.ANSWERED, kw_only=True, gc=False):
    body: AnsweredBody


class ExpiredPayload(_Payload, tag=names.EXPIRED, kw_only=True, gc=False):
    body: ExpiredBody


class WithdrawnPayload(_Payload, tag=names.WITHDRAWN, kw_only=True, gc=False):
    body: WithdrawnBody


class SentPayload(_Payload, tag=names.SENT, kw_only=True, gc=False):
    body: SentBody


class ConsumedPayload(_Payload, tag=names.CONSUMED, kw_only=True, gc=False):
    body: ConsumedBody


class ReturnedPayload(_Payload, tag=names.RETURNED, kw_only=True, gc=False):
    body: ReturnedBody


class LoosePayload(msgspec.Struct, gc=False):
    """The payload of an event whose kind has no class, or whose body does not fit its class."""

    kind: str
    ts: datetime | None
    body: Any

    def __repr__(self) -> str:  # the body is unchecked and may hold secrets
        return f"LoosePayload(kind={self.kind[:80]!r})"


KnownPayload = (
    LogPayload
    | ThoughtPayload
    | ToolCallPayload
    | ToolResultPayload
    | StatusPayload
    | MetricPayload
    | ArtifactPayload
    | DelegatePayload
    | ProgressPayload
    | ChunkPayload
    | QuestionPayload
    | AnsweredPayload
    | ExpiredPayload
    | WithdrawnPayload
    | SentPayload
    | ConsumedPayload
    | ReturnedPayload
)


class TypedEvent(msgspec.Struct, tag_field="type", tag="job.event", kw_only=True, gc=False):
    """A ``job.event`` frame of a known kind, as the hot path decodes it."""

    payload: KnownPayload
    event_seq: Seq | None = None
    id: str = ""
    session_id: str = ""
    job_id: str | None = None
    trace_id: str | None = None


class LooseEvent(msgspec.Struct, kw_only=True, gc=False):
    payload: LoosePayload
    event_seq: int | None = None
    id: str = ""
    session_id: str = ""
    job_id: str | None = None
    trace_id: str | None = None


KINDS: frozenset[str] = frozenset(
    {
        "log",
        "thought",
        "tool_call",
        "tool_result",
        "status",
        "metric",
        "artifact_ref",
        "delegate",
        "progress",
        "result_chunk",
        names.QUESTION,
        names.ANSWERED,
        names.EXPIRED,
        names.WITHDRAWN,
        names.SENT,
        names.CONSUMED,
        names.RETURNED,
    }
)
"""The kinds of §8.2, and those of the extensions. Other kinds are legal and delivered unchanged."""

EventFrame = TypedEvent | LooseEvent
