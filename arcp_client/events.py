"""The typed events that a session delivers to handlers, iterators and Observables.

Every event is an immutable value that can be hashed, pickled and copied, and used as a field of a
pydantic model. ``match`` it by class and by field::

    match event:
        case events.ToolCall(tool=tool):
            print("calls", tool)
        case events.Progress(current=n, total=t):
            print(n, "of", t)

An event of a *kind* that this package does not know arrives as `Unknown`. `Event.raw` has also the
fields that a class does not have. A `Gap` reports events that cannot be delivered: no event is
dropped silently.
"""

from __future__ import annotations

import json
import math
import operator
import reprlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec
from pydantic_core import core_schema

from arcp_client._html import table
from arcp_client.models import Choice

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

__all__ = [
    "KINDS",
    "Answered",
    "ArtifactRef",
    "Completed",
    "Consumed",
    "Delegate",
    "Event",
    "Expired",
    "Failed",
    "Gap",
    "Log",
    "Metric",
    "Progress",
    "Question",
    "ResultChunk",
    "Returned",
    "Sent",
    "Status",
    "Thought",
    "ToolCall",
    "ToolResult",
    "Unknown",
    "Withdrawn",
]

# gc=False: an event holds only immutable values and JSON values, so it is never part of a cycle,
# and 50,000 waiting events do not trigger the garbage collector.


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One event of a session (§8.1).

    Attributes:
        seq: position in the session's sequence (§8.3); ``None`` if the runtime sent no number.
        id: the envelope's id.
        kind: the kind on the wire; ``"result"``, ``"error"`` and ``"gap"`` for `Completed`,
            `Failed` and `Gap`.
        session_id: the session that received it.
        job_id: the job it belongs to, ``None`` for an event of the session itself.
        ts: when the agent emitted it, by the runtime's clock.
        trace_id: W3C trace id, 32 hexadecimal digits (§11).
        redelivered: whether a handler may have got the event before this process was restarted.
    """

    seq: int | None = None
    id: str = ""
    kind: str = ""
    session_id: str = ""
    job_id: str | None = None
    ts: datetime | None = None
    trace_id: str | None = None
    redelivered: bool = False
    _frame: bytes = b""

    terminal: ClassVar[bool] = False
    """True on the classes that end a job, `Completed` and `Failed`."""

    @property
    def size(self) -> int:
        """Bytes of the envelope as received."""
        return len(self._frame)

    @property
    def raw(self) -> dict[str, Any]:
        """The whole envelope as received, decoded at each call; empty for a `Gap`.

        Secret values are masked.
        """
        if not self._frame:
            return {}
        try:
            decoded = msgspec.json.decode(self._frame)
        except ValueError:  # fields that this package does not read may hold invalid JSON
            text = self._frame.decode("utf-8-sig", "replace")
            decoded = json.loads(text, parse_int=_number, parse_float=_number)
        return decoded if isinstance(decoded, dict) else {}

    def __hash__(self) -> int:  # fields may hold lists and dicts, which are not hashable
        return hash((type(self), self.seq, self.id, self.session_id, self.job_id))

    def __repr__(self) -> str:
        shown = [f"kind={self.kind!r:.80}"] if _FIXED.get(type(self)) != self.kind else []
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if name not in _QUIET and value is not None and (value or name not in _USUAL):
                shown.append(f"{name}={_short(value)}")
        return f"{type(self).__name__}({', '.join(shown)})"

    def _repr_html_(self) -> str:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        number = "" if self.seq is None else f" {self.seq}"
        rows = [
            (name, str(value) if isinstance(value, datetime) else value)
            for name, value in fields.items()
            if name not in ("seq", "redelivered", "_frame") and value not in (None, "")
        ]
        return table(f"{type(self).__name__}{number}", rows)

    def to_dict(self) -> dict[str, Any]:
        """The event's fields as JSON-ready values, for logs, files and responses.

        If a value is nested too deeply, a string replaces its deepest levels.
        """
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        del fields["_frame"]
        try:
            plain: dict[str, Any] = msgspec.to_builtins(fields)
        except RecursionError:  # the stack is deeper here than where the frame was decoded
            plain = msgspec.to_builtins({name: _cut(value) for name, value in fields.items()})
        return plain

    @classmethod
    def __get_pydantic_core_schema__(
        cls, _source: Any, _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate,
            ref=f"{cls.__module__}.{cls.__qualname__}:{id(cls)}",
            serialization=core_schema.plain_serializer_function_ser_schema(
                lambda event: event.to_dict(), return_schema=core_schema.dict_schema()
            ),
        )

    @classmethod
    def _validate(cls, value: Any) -> Event:
        """Return an event, made from its `to_dict` form if necessary."""
        if isinstance(value, cls):
            return value
        if not isinstance(value, dict):
            raise ValueError(f"expected {cls.__name__} or its dict")
        kind = value.get("kind")
        actual: type[Event] = cls
        if cls is Event:
            # `body` means `Unknown`, also with a known kind whose class rejected the body.
            known = KINDS.get(kind) if isinstance(kind, str) and "body" not in value else None
            actual = known or Unknown
        fixed = _FIXED.get(actual)
        if fixed and kind not in (None, fixed):
            raise ValueError(f"expected kind {fixed!r}")
        fields = {name: value[name] for name in actual.__struct_fields__ if name in value}
        fields.pop("_frame", None)
        try:
            return msgspec.convert(fields, actual, strict=False)
        except (ValueError, RecursionError) as error:
            raise ValueError(str(error)) from error

    @classmethod
    def __get_pydantic_json_schema__(
        cls, _schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        whole = handler.mode == "serialization"
        if cls is not Event:
            return _json_schema(cls, whole)
        classes: list[type[Event]] = [*KINDS.values(), Unknown]
        return {
            "title": "Event",
            "description": "One event of a session; `kind` selects its class.",
            "anyOf": [_json_schema(each, whole) for each in classes],
        }


_QUIET = frozenset({"kind", "session_id", "trace_id", "_frame"})
_USUAL = frozenset({"id", "redelivered"})
"""Fields that a repr omits when they are empty or false."""
_DEEPEST = 200

_repr = reprlib.Repr()
_repr.maxlevel = 3
_repr.maxdict = _repr.maxlist = 4
_repr.maxstring = _repr.maxlong = _repr.maxother = 80


_frame_of = operator.attrgetter("_frame")


def sizes(events: Iterable[Event]) -> Iterator[int]:
    """The `Event.size` of each event, for callers that process every event."""
    return map(len, map(_frame_of, events))


def envelope(event: Event) -> bytes:
    """The envelope as received, secret values masked; empty for a `Gap`."""
    return _frame_of(event)  # type: ignore[no-any-return]


def _number(text: str) -> int | float | str:
    """Convert a number of the raw envelope, or keep a string that Python cannot represent."""
    try:
        return int(text)
    except ValueError:
        value = float(text)
    return text if math.isinf(value) else value


def _cut(value: Any, depth: int = 0) -> Any:
    if not isinstance(value, dict | list):
        return value
    if depth >= _DEEPEST:
        return "(nested too deeply)"
    if isinstance(value, list):
        return [_cut(each, depth + 1) for each in value]
    return {name: _cut(each, depth + 1) for name, each in value.items()}


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, datetime) else _repr.repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _json_schema(cls: type[Event], whole: bool) -> dict[str, Any]:
    """The JSON schema of `Event.to_dict` for one class; with ``whole`` every field is required."""
    _, found = msgspec.json.schema_components((cls,))
    schema: dict[str, Any] = found[cls.__name__]
    properties = schema["properties"]
    del properties["_frame"]
    if "options" in properties:
        properties["options"]["items"] = found[Choice.__name__]
    for name in properties.keys() & {"ts", "completed_at", "expires_at", "at", "lease_expires_at"}:
        if "anyOf" in properties[name]:  # `Consumed.at` is a number
            properties[name]["anyOf"][0]["format"] = "date-time"
    if cls in _FIXED:
        properties["kind"]["const"] = _FIXED[cls]
    schema["required"] = sorted(properties) if whole else []
    return schema


class Log(Event, frozen=True, kw_only=True, gc=False):
    """A log line of the agent. ``level`` is in lower case."""

    kind: str = "log"
    level: str = "info"
    message: str = ""


class Thought(Event, frozen=True, kw_only=True, gc=False):
    """A piece of the agent's reasoning."""

    kind: str = "thought"
    text: str = ""


class ToolCall(Event, frozen=True, kw_only=True, gc=False):
    """The agent calls a tool. ``call_id`` pairs it with its `ToolResult`."""

    kind: str = "tool_call"
    tool: str = ""
    args: Any = None
    call_id: str = ""


class ToolResult(Event, frozen=True, kw_only=True, gc=False):
    """The outcome of a tool call: ``result``, or ``error`` with ``code`` and ``message``."""

    kind: str = "tool_result"
    call_id: str = ""
    result: Any = None
    error: Any = None


class Status(Event, frozen=True, kw_only=True, gc=False):
    """A new phase of the job, or of the runtime."""

    kind: str = "status"
    phase: str = ""
    message: str | None = None


class Metric(Event, frozen=True, kw_only=True, gc=False):
    """A measurement. A ``cost.*`` metric is charged to the budget in its currency (§9.6)."""

    kind: str = "metric"
    name: str = ""
    value: int | float = 0
    unit: str | None = None
    dimensions: dict[str, Any] | None = None


class ArtifactRef(Event, frozen=True, kw_only=True, gc=False):
    """A reference to an artifact of the agent. ``byte_size`` is in bytes."""

    kind: str = "artifact_ref"
    uri: str = ""
    content_type: str = ""
    byte_size: int | None = None
    sha256: str | None = None


class Delegate(Event, frozen=True, kw_only=True, gc=False):
    """The agent hands part of its lease to another agent (§10)."""

    kind: str = "delegate"
    child_job_id: str | None = None
    delegate_id: str | None = None
    agent: str | None = None


class Progress(Event, frozen=True, kw_only=True, gc=False):
    """The job's progress, in ``units``. Without ``total`` the end is not known (§8.2.1)."""

    kind: str = "progress"
    current: int | float = 0
    total: int | float | None = None
    units: str | None = None
    message: str | None = None


class ResultChunk(Event, frozen=True, kw_only=True, gc=False):
    """A chunk of a streamed result (§8.4), as received; ``chunk_seq`` counts from 0.

    ``job.chunks()`` and ``job.result()`` assemble the chunks.
    """

    kind: str = "result_chunk"
    result_id: str = ""
    chunk_seq: int = 0
    data: str = ""
    encoding: str = "utf8"
    more: bool = True


class Question(Event, frozen=True, kw_only=True, gc=False):
    """The agent asks, and waits for an answer: ``await job.answer(event.question_id, value)``.

    It is followed by exactly one of `Answered`, `Expired` and `Withdrawn` with the same id, unless
    the job was interrupted. See the page "Extensions of the protocol".

    Attributes:
        question_id: identifies the question.
        text: the question, for people.
        schema: the JSON Schema that an answer must fit.
        options: the answers to choose from; empty if any value that fits the schema is allowed.
        to: the principals that may answer; empty: the principal that submitted the job.
        expires_at: from this time on, no answer is taken.
        has_default: whether ``default`` holds if no answer comes.
        default: the default.
        lease_paused: whether the question stops the clock of the job's lease.
    """

    kind: str = "x-vendor.arcp-client.question"
    question_id: str = ""
    text: str = ""
    schema: Any = None
    options: list[Choice] = []
    to: list[str] = []
    expires_at: datetime | None = None
    has_default: bool = False
    default: Any = None
    lease_paused: bool = False


class Answered(Event, frozen=True, kw_only=True, gc=False):
    """A question was answered; the agent continues with ``value``.

    Attributes:
        question_id: the question.
        value: the answer that was taken.
        by: the principal that answered.
        client: the name and version of the client that sent the answer.
        at: when the runtime took the answer.
        lease_expires_at: the new end of the lease, if the question had stopped its clock.
    """

    kind: str = "x-vendor.arcp-client.answered"
    question_id: str = ""
    value: Any = None
    by: str = ""
    client: str = ""
    at: datetime | None = None
    lease_expires_at: datetime | None = None


class Expired(Event, frozen=True, kw_only=True, gc=False):
    """A question was not answered in time. If ``defaulted``, its default ``value`` holds.

    Attributes:
        question_id: the question.
        defaulted: whether the question had a default.
        value: the default.
        lease_expires_at: the new end of the lease, if the question had stopped its clock.
    """

    kind: str = "x-vendor.arcp-client.expired"
    question_id: str = ""
    defaulted: bool = False
    value: Any = None
    lease_expires_at: datetime | None = None


class Withdrawn(Event, frozen=True, kw_only=True, gc=False):
    """A question needs no answer any more.

    Attributes:
        question_id: the question.
        reason: ``job_ended``; ``agent`` if the agent stopped waiting; ``not_negotiated`` if no
            client that may answer supports questions.
        lease_expires_at: the new end of the lease, if the question had stopped its clock.
    """

    kind: str = "x-vendor.arcp-client.withdrawn"
    question_id: str = ""
    reason: str = ""
    lease_expires_at: datetime | None = None


class Sent(Event, frozen=True, kw_only=True, gc=False):
    """A client sent the agent a message; exactly one of `Consumed` and `Returned` follows.

    Attributes:
        message_id: identifies the message.
        mode: ``steer`` asks the agent to look at it soon, ``queue`` when it is ready.
        value: the message.
        by: the principal that sent it.
        client: the name and version of its client.
    """

    kind: str = "x-vendor.arcp-client.sent"
    message_id: str = ""
    mode: str = "queue"
    value: Any = None
    by: str = ""
    client: str = ""


class Consumed(Event, frozen=True, kw_only=True, gc=False):
    """The agent took a message.

    Attributes:
        message_id: the message.
        at: how many messages the agent has taken, this one included.
    """

    kind: str = "x-vendor.arcp-client.consumed"
    message_id: str = ""
    at: int = 0


class Returned(Event, frozen=True, kw_only=True, gc=False):
    """The job ended, and its agent has not taken the message ``message_id``."""

    kind: str = "x-vendor.arcp-client.returned"
    message_id: str = ""


class Unknown(Event, frozen=True, kw_only=True, gc=False):
    """An event of a kind without a class, or with a body that does not fit its class."""

    body: Any = None


class Completed(Event, frozen=True, kw_only=True, gc=False):
    """The job succeeded. A chunked result has ``result_id`` in place of ``value``.

    Attributes:
        value: the inline result.
        result_id: the id of the result's chunks.
        result_size: the size in bytes that the runtime states.
        summary: text for people.
        completed_at: time of completion, by the runtime's clock.
    """

    terminal: ClassVar[bool] = True

    kind: str = "result"
    value: Any = None
    result_id: str | None = None
    result_size: int | None = None
    summary: str | None = None
    completed_at: datetime | None = None


class Failed(Event, frozen=True, kw_only=True, gc=False):
    """The job ended without success (§7.3, §12).

    Attributes:
        status: the job's final status.
        code: the error code.
        message: the runtime's text.
        retryable: whether a new submit may succeed, as the runtime states.
        details: further data from the runtime.
    """

    terminal: ClassVar[bool] = True

    kind: str = "error"
    status: Literal["error", "cancelled", "timed_out"] = "error"
    code: str = "INTERNAL_ERROR"
    message: str = ""
    retryable: bool = False
    details: Any = None


class Gap(Event, frozen=True, kw_only=True, gc=False):
    """Events that cannot be delivered: ``first`` to ``last`` of the session's sequence.

    Attributes:
        first: the first missing number.
        last: the last missing number; ``None`` if it cannot be known.
        reason: ``lost`` by the runtime · ``unknown_end``: a new session replaced the old one ·
            ``not_retained``: the iterator began late, and the client no longer kept these events ·
            ``overflow``: the iterator was left full and unread, so its queue was dropped ·
            ``undecodable``: received, but not readable.
    """

    kind: str = "gap"
    first: int = 0
    last: int | None = None
    reason: Literal["lost", "unknown_end", "not_retained", "overflow", "undecodable"] = "lost"


KINDS: dict[str, type[Event]] = {
    cls().kind: cls
    for cls in (
        Log,
        Thought,
        ToolCall,
        ToolResult,
        Status,
        Metric,
        ArtifactRef,
        Delegate,
        Progress,
        ResultChunk,
        Question,
        Answered,
        Expired,
        Withdrawn,
        Sent,
        Consumed,
        Returned,
        Completed,
        Failed,
        Gap,
    )
}
"""Event class by kind; any other kind is `Unknown`."""

_FIXED = {cls: kind for kind, cls in KINDS.items()}
