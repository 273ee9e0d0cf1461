"""Converts the events of a job to a run of AG-UI, for front ends that use that protocol.

Every run follows the rules of the Agent User Interaction Protocol (https://docs.ag-ui.com): it
starts with RUN_STARTED, ends with RUN_FINISHED or RUN_ERROR, and every message, call and step that
it starts also ends. The fields of an event have ``int`` and ``float``. Its ``model_dump_json()``,
which ``EventEncoder`` uses, writes numbers with the digits that the runtime sent.

=====================  ===========================================================================
event of the job       events of the run
=====================  ===========================================================================
`Status`               STEP_FINISHED for the phase before, STEP_STARTED for this one; STATE_DELTA
`Log`                  a text message of the role ``developer``, named after the level
`Thought`              a reasoning span with one message
`ToolCall`             TOOL_CALL_START, TOOL_CALL_ARGS, TOOL_CALL_END
`ToolResult`           TOOL_CALL_RESULT
`Progress`, `Metric`   STATE_DELTA of ``/progress`` and ``/metrics``
`ResultChunk`          a text message of the assistant, in pieces; CUSTOM for bytes
`Completed`            a message with the result, if it is a text in one piece; RUN_FINISHED
`Failed`               RUN_ERROR; for a cancelled job RUN_FINISHED with the outcome ``cancelled``
`Gap` and all others   CUSTOM ``arcp.gap``, ``arcp.artifact_ref`` …, RAW for unknown kinds
=====================  ===========================================================================
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from typing import Any, TypeVar

try:
    from ag_ui.core import (
        PROTOCOL_VERSION,
        BaseEvent,
        CustomEvent,
        RawEvent,
        ReasoningEndEvent,
        ReasoningMessageContentEvent,
        ReasoningMessageEndEvent,
        ReasoningMessageStartEvent,
        ReasoningStartEvent,
        RunErrorEvent,
        RunFinishedEvent,
        RunStartedEvent,
        StateDeltaEvent,
        StateSnapshotEvent,
        StepFinishedEvent,
        StepStartedEvent,
        TextMessageContentEvent,
        TextMessageEndEvent,
        TextMessageStartEvent,
        ToolCallArgsEvent,
        ToolCallEndEvent,
        ToolCallResultEvent,
        ToolCallStartEvent,
    )
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "ag_ui":
        raise
    raise ModuleNotFoundError(
        "arcp_client.web.ag_ui needs the extra ag-ui: pip install 'arcp-client[ag-ui]'",
        name=missing.name,
    ) from missing
from ag_ui.core.events import RunFinishedCancelledOutcome, RunFinishedSuccessOutcome
from pydantic import TypeAdapter

from arcp_client import ArcpError, Event, JobHandle, events
from arcp_client import _digits as digits
from arcp_client._feeds import frames
from arcp_client.transcripts import Scrubber
from arcp_client.web.exports.exact_numbers import make_event

__all__ = ["Run", "ag_ui"]

_CALLS = 1024
_METRICS = 256
_TEXTS = 16
_EVENT: TypeAdapter[Event] = TypeAdapter(Event)

B = TypeVar("B", bound=BaseEvent)


async def ag_ui(
    job: JobHandle, *, thread_id: str | None = None, run_id: str | None = None
) -> AsyncIterator[BaseEvent]:
    """Yield the events of a job, from the first one on, as a run of AG-UI.

    The last event is RUN_FINISHED or RUN_ERROR. If the job is lost or the client is closed, it is
    RUN_ERROR. Secrets are masked as in transcripts.

    ``ag_ui.encoder.EventEncoder`` encodes the events as server-sent events.

    Args:
        job: the job.
        thread_id: the id of the conversation; the trace id of the job by default.
        run_id: the id of the run; the id of the job by default.
    """
    run = Run(thread_id or job.trace_id or job.id, run_id or job.id)
    for made in run.begin(job):
        yield made
    values = [credential.value for credential in job.credentials.values()]
    scrubber = Scrubber(values)
    try:
        async for event in job:
            if isinstance(event, events.Status):  # it may rotate a credential (§9.8)
                found = [each.value for each in job.credentials.values()]
                new = [value for value in found if value not in values]
                if new:
                    values += new
                    scrubber = Scrubber(values)
            for made in run.apply(*_masked(event, scrubber)):
                yield made
    except ArcpError as error:
        for made in run.fail(scrubber.text(str(error)), type(error).__name__):
            yield made


def _masked(event: Event, scrubber: Scrubber) -> tuple[Event, dict[str, Any]]:
    """The event with its secrets masked, and its fields with the digits of their numbers."""
    fields = _well_formed(frames.decoded(frames.plain(event, scrubber)))
    values = digits.plain(fields)
    try:
        return _EVENT.validate_python(values), fields
    except ValueError:  # the mask does not fit the type of its field
        unknown = events.Unknown(
            kind=event.kind, id=event.id, ts=event.ts, job_id=event.job_id, body=values
        )
        return unknown, {"body": fields}


def _well_formed(value: Any) -> Any:
    """The value with a replacement for lone surrogates, which AG-UI's classes refuse."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, list):
        return [_well_formed(each) for each in value]
    if isinstance(value, dict):
        return {_well_formed(name): _well_formed(each) for name, each in value.items()}
    return value


class Run:
    """The state of one run, with the open messages, calls and step, which must be ended.

    Args:
        thread_id: the id of the conversation.
        run_id: the id of the run.

    Attributes:
        over: whether RUN_FINISHED or RUN_ERROR was yielded.
    """

    def __init__(self, thread_id: str, run_id: str) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._count = 0
        self._step: str | None = None
        self._texts: dict[str, str] = {}
        self._streamed = False
        self._calls: OrderedDict[str, str] = OrderedDict()
        self._metrics: set[str] = set()
        self._at: int | None = None
        self._fields: dict[str, Any] = {}
        self.over = False

    def begin(self, job: JobHandle) -> Iterator[BaseEvent]:
        """The events that start the run."""
        yield RunStartedEvent(
            thread_id=self._thread_id, run_id=self._run_id, protocol_version=PROTOCOL_VERSION
        )
        yield StateSnapshotEvent(
            snapshot={
                "job_id": job.id,
                "agent": job.agent,
                "status": "running",
                "phase": None,
                "message": None,
                "progress": None,
                "metrics": {},
            }
        )

    def apply(self, event: Event, fields: dict[str, Any] | None = None) -> Iterator[BaseEvent]:
        """The events of the run for the next event of the job; none after the end.

        Args:
            event: the event.
            fields: its fields with the digits of their numbers; those of the event by default.
        """
        if self.over:
            return
        self._fields = event.to_dict() if fields is None else fields
        self._count += 1
        self._at = int(event.ts.timestamp() * 1000) if event.ts is not None else None
        yield from self._of(event)

    def fail(self, message: str, code: str) -> Iterator[BaseEvent]:
        """The events that end the run of a job whose end is unknown."""
        if self.over:
            return
        self._at = None
        yield from self._closed()
        yield self._event(RunErrorEvent, message=message, code=code)

    # ------------------------------------------------------------------

    def _event(self, kind: type[B], **fields: Any) -> B:
        if kind is RunErrorEvent or kind is RunFinishedEvent:
            self.over = True
        return make_event(kind, {"timestamp": self._at, **fields})

    def _id(self, name: str = "") -> str:
        return f"{self._run_id}:{name or self._count}"

    def _of(self, event: Event) -> Iterator[BaseEvent]:
        match event:
            case events.Log(message=text, level=level):
                yield from self._text(text, role="developer", name=level)
            case events.Thought(text=text):
                yield from self._thought(text)
            case events.Status():
                yield from self._status(event)
            case events.ToolCall():
                yield from self._call(event)
            case events.ToolResult():
                yield from self._answer(event)
            case events.Progress():
                yield self._state(progress=self._body(event))
            case events.Metric():
                yield self._metric(event)
            case events.ResultChunk():
                yield from self._chunk(event)
            case events.Completed():
                yield from self._completed(event)
            case events.Failed():
                yield from self._failed(event)
            case events.Unknown():
                yield self._event(RawEvent, event=self._body(event), source="arcp")
            case _:
                yield self._custom(event)

    def _body(self, event: Event) -> dict[str, Any]:
        """The fields of the event that are not those of its envelope."""
        if isinstance(event, events.Unknown):
            return {"kind": event.kind, "body": self._fields.get("body")}
        return {name: value for name, value in self._fields.items() if name not in _ENVELOPE}

    def _custom(self, event: Event) -> BaseEvent:
        return self._event(CustomEvent, name=f"arcp.{event.kind}", value=self._body(event))

    def _state(self, **values: Any) -> BaseEvent:
        # "add" replaces what is there (RFC 6902, 4.1).
        delta = [
            {"op": "add", "path": f"/{name}", "value": value} for name, value in values.items()
        ]
        return self._event(StateDeltaEvent, delta=delta)

    def _text(self, text: str, *, role: str, name: str | None = None) -> Iterator[BaseEvent]:
        message = self._id()
        yield self._event(TextMessageStartEvent, message_id=message, role=role, name=name)
        yield self._event(TextMessageContentEvent, message_id=message, delta=text)
        yield self._event(TextMessageEndEvent, message_id=message)

    def _thought(self, text: str) -> Iterator[BaseEvent]:
        span, message = self._id(f"{self._count}s"), self._id()
        yield self._event(ReasoningStartEvent, message_id=span)
        yield self._event(ReasoningMessageStartEvent, message_id=message)
        yield self._event(ReasoningMessageContentEvent, message_id=message, delta=text)
        yield self._event(ReasoningMessageEndEvent, message_id=message)
        yield self._event(ReasoningEndEvent, message_id=span)

    def _status(self, event: events.Status) -> Iterator[BaseEvent]:
        if event.phase != self._step:
            yield from self._step_ended()
            if event.phase:
                self._step = event.phase
                yield self._event(StepStartedEvent, step_name=event.phase)
        yield self._state(phase=event.phase or None, message=event.message)

    def _step_ended(self) -> Iterator[BaseEvent]:
        if self._step is not None:
            yield self._event(StepFinishedEvent, step_name=self._step)
            self._step = None

    def _call(self, event: events.ToolCall) -> Iterator[BaseEvent]:
        # An agent may use an id twice; AG-UI needs a different id for each call.
        call = self._id(f"call:{self._count}")
        before = self._calls.pop(event.call_id, None)
        if before is not None:
            yield self._unanswered(before)
        self._calls[event.call_id] = call
        yield self._event(ToolCallStartEvent, tool_call_id=call, tool_call_name=event.tool)
        args = _json(self._fields.get("args"))
        yield self._event(ToolCallArgsEvent, tool_call_id=call, delta=args)
        yield self._event(ToolCallEndEvent, tool_call_id=call)
        if len(self._calls) > _CALLS:
            yield self._unanswered(self._calls.popitem(last=False)[1])

    def _answer(self, event: events.ToolResult) -> Iterator[BaseEvent]:
        call = self._calls.pop(event.call_id, None)
        if call is None:  # the run has no such call
            yield self._custom(event)
            return
        error = self._fields.get("error")
        outcome = self._fields.get("result") if error is None else {"error": error}
        yield self._event(
            ToolCallResultEvent,
            message_id=self._id(),
            tool_call_id=call,
            content=outcome if isinstance(outcome, str) else _json(outcome),
            role="tool",
        )

    def _unanswered(self, call: str) -> BaseEvent:
        """A result for a call without one, which a front end would otherwise try to answer."""
        return self._event(
            ToolCallResultEvent,
            message_id=f"{call}:none",
            tool_call_id=call,
            content=_json({"error": {"code": "NO_RESULT", "message": "no result was reported"}}),
            role="tool",
        )

    def _metric(self, event: events.Metric) -> BaseEvent:
        if event.name not in self._metrics and len(self._metrics) >= _METRICS:
            return self._custom(event)
        self._metrics.add(event.name)
        key = event.name.replace("~", "~0").replace("/", "~1")
        value = {name: self._fields.get(name) for name in ("value", "unit", "dimensions")}
        return self._state(**{f"metrics/{key}": value})

    def _chunk(self, event: events.ResultChunk) -> Iterator[BaseEvent]:
        self._streamed = True
        if event.encoding != "utf8":
            yield self._custom(event)
            return
        message = self._texts.get(event.result_id)
        if message is None:
            if len(self._texts) >= _TEXTS:
                oldest = self._texts.pop(next(iter(self._texts)))
                yield self._event(TextMessageEndEvent, message_id=oldest)
            message = self._texts[event.result_id] = self._id()
            yield self._event(TextMessageStartEvent, message_id=message, role="assistant")
        yield self._event(TextMessageContentEvent, message_id=message, delta=event.data)
        if not event.more:
            yield self._event(TextMessageEndEvent, message_id=message)
            del self._texts[event.result_id]

    def _completed(self, event: events.Completed) -> Iterator[BaseEvent]:
        yield from self._closed()
        if isinstance(event.value, str) and event.value and not self._streamed:
            yield from self._text(event.value, role="assistant")
        yield self._state(status="success")
        yield self._event(
            RunFinishedEvent,
            thread_id=self._thread_id,
            run_id=self._run_id,
            result=self._fields.get("value"),
            outcome=RunFinishedSuccessOutcome(),
        )

    def _failed(self, event: events.Failed) -> Iterator[BaseEvent]:
        yield from self._closed()
        yield self._state(status=event.status)
        if event.status == "cancelled":
            yield self._event(
                RunFinishedEvent,
                thread_id=self._thread_id,
                run_id=self._run_id,
                outcome=RunFinishedCancelledOutcome(),
            )
        else:
            message = event.message or f"the job ended with {event.code}"
            yield self._event(RunErrorEvent, message=message, code=event.code)

    def _closed(self) -> Iterator[BaseEvent]:
        """The events that end the open messages, calls and the step."""
        for message in self._texts.values():
            yield self._event(TextMessageEndEvent, message_id=message)
        self._texts.clear()
        while self._calls:
            yield self._unanswered(self._calls.popitem(last=False)[1])
        yield from self._step_ended()


_ENVELOPE = frozenset(
    {"seq", "id", "kind", "session_id", "job_id", "ts", "trace_id", "redelivered"}
)


def _json(value: Any) -> str:
    return frames.exact(value).decode()
