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
`Question`             RUN_FINISHED with the outcome ``interrupt``; another run continues from there
`Gap` and all others   CUSTOM ``arcp.gap``, ``arcp.artifact_ref`` …, RAW for unknown kinds
=====================  ===========================================================================
"""

from __future__ import annotations

import base64
import copy
import json
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

try:
    from ag_ui.core import (
        PROTOCOL_VERSION,
        BaseEvent,
        CustomEvent,
        Interrupt,
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
from ag_ui.core.events import (
    RunFinishedCancelledOutcome,
    RunFinishedInterruptOutcome,
    RunFinishedSuccessOutcome,
)

from arcp_client import ArcpError, Event, JobHandle, events
from arcp_client import _digits as digits
from arcp_client._feeds import frames
from arcp_client.web.exports.exact_numbers import make_event
from arcp_client.web.exports.masking import Masking

__all__ = ["INDEPENDENT", "InterruptId", "Run", "ag_ui"]

INDEPENDENT = frozenset({events.Log, events.Thought})
"""Events whose events of the run depend only on their number: they change no state of the run."""
_CALLS = 1024
_METRICS = 256
_TEXTS = 16

B = TypeVar("B", bound=BaseEvent)


class InterruptId(NamedTuple):
    """What the id of an interrupt says, so that any process can continue the run.

    Attributes:
        job_id: the job whose agent asks.
        question_id: the question.
        prefix: the beginning of the ids of the run's messages.
    """

    job_id: str
    question_id: str
    prefix: str

    def __str__(self) -> str:
        return base64.urlsafe_b64encode(json.dumps(list(self)).encode()).decode().rstrip("=")

    @classmethod
    def parse(cls, text: str) -> InterruptId | None:
        """The content of an id; ``None`` if it is not one."""
        try:
            found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        except (ValueError, RecursionError):
            return None
        if isinstance(found, list) and len(found) == 3 and all(isinstance(x, str) for x in found):
            return cls(*found)
        return None


async def ag_ui(
    job: JobHandle,
    *,
    thread_id: str | None = None,
    run_id: str | None = None,
    after: str | None = None,
) -> AsyncIterator[BaseEvent]:
    """Yield the events of a job, from the first one on, as a run of AG-UI.

    The last event is RUN_FINISHED or RUN_ERROR. If the job is lost or the client is closed, it is
    RUN_ERROR. Secrets are masked as in transcripts.

    A question of the agent ends the run with the outcome ``interrupt``; the job continues. To
    continue after ``await job.answer(question_id, value)``, make another run with ``after``.

    ``ag_ui.encoder.EventEncoder`` encodes the events as server-sent events. `add_ag_ui_routes`
    serves a front end, with reconnects and answers.

    Args:
        job: the job.
        thread_id: the id of the conversation; the trace id of the job by default.
        run_id: the id of the run; the id of the job by default.
        after: the run begins after this question, by its id; by default with the first event.
    """
    run = Run(thread_id or job.trace_id or job.id, run_id or job.id, prefix=job.id)
    begun = after is None
    if begun:
        for made in run.begin(job):
            yield made
    masking = Masking(job)
    try:
        async for event in job:
            for made in run.apply(*masking(event)):
                if begun:
                    yield made
            if not begun and isinstance(event, events.Question):
                begun = event.question_id == after
                for made in run.begin(job):
                    if begun:
                        yield made
            elif begun and run.over:
                return
        if not begun:
            raise LookupError(f"the job has not asked the question {after}")
    except ArcpError as error:
        if not begun:
            raise
        for made in run.fail(masking.scrubber.text(str(error)), type(error).__name__):
            yield made


class Run:
    """The state of the runs of one job, with the open messages, calls and step.

    A question ends a run; `begin` begins the next one, with the same ids and state.

    Args:
        thread_id: the id of the conversation.
        run_id: the id of the run.
        prefix: the beginning of the ids of messages, which no other job of the conversation has.
            The number of the job's event follows it, from 1, after a colon.

    Attributes:
        over: whether RUN_FINISHED or RUN_ERROR was yielded.
        state: the state that the front end has; not to be changed.
    """

    def __init__(self, thread_id: str, run_id: str, *, prefix: str | None = None) -> None:
        self._thread_id = thread_id
        self._run_id = run_id
        self._prefix = prefix or run_id
        self._count = 0
        self._job_id = ""
        self._paused_step: str | None = None
        self._texts: dict[str, str] = {}
        self._streamed = False
        self._calls: OrderedDict[str, str] = OrderedDict()
        self._ts: datetime | None = None
        self._fields: dict[str, Any] = {}
        self._step: str | None = None
        self.state: dict[str, Any] = {
            "job_id": None,
            "agent": None,
            "status": "running",
            "phase": None,
            "message": None,
            "progress": None,
            "metrics": {},
        }
        self.over = False

    def begin(self, job: JobHandle) -> Iterator[BaseEvent]:
        """The events that start the run."""
        self.over = False
        self._job_id = job.id
        self.state |= {"job_id": job.id, "agent": job.agent}
        yield RunStartedEvent(
            thread_id=self._thread_id, run_id=self._run_id, protocol_version=PROTOCOL_VERSION
        )
        yield self.snapshot()
        if self._paused_step is not None:
            self._step, self._paused_step = self._paused_step, None
            yield self._event(StepStartedEvent, step_name=self._step)

    def snapshot(self) -> BaseEvent:
        """STATE_SNAPSHOT with the present state."""
        return make_event(StateSnapshotEvent, {"snapshot": copy.deepcopy(self.state)})

    def reopened(self) -> Iterator[BaseEvent]:
        """The events that begin what is open now, for a front end that has only a snapshot."""
        if self._step is not None:
            yield self._event(StepStartedEvent, step_name=self._step)
        for message in self._texts.values():
            yield self._event(TextMessageStartEvent, message_id=message, role="assistant")

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
        self._ts = event.ts
        yield from self._of(event)

    def skip(self, event: Event) -> None:
        """Count the next event of the job, one of `INDEPENDENT`, without its events of the run."""
        self._count += 1
        self._ts = event.ts

    def independent(self, n: int, event: Event, fields: dict[str, Any]) -> Iterator[BaseEvent]:
        """What `apply` yields for the n-th event of the job, one of `INDEPENDENT`, at any time."""
        alone = Run(self._thread_id, self._run_id, prefix=self._prefix)
        alone._count = n - 1
        return alone.apply(event, fields)

    def message(self, n: int, event: Event) -> dict[str, Any]:
        """The message that a front end makes of the events of `independent`."""
        found = f"{self._prefix}:{n}"
        if isinstance(event, events.Log):
            named = {"id": found, "role": "developer", "name": event.level}
            return {**named, "content": event.message}
        assert isinstance(event, events.Thought)
        return {"id": found, "role": "reasoning", "content": event.text}

    def fail(self, message: str, code: str) -> Iterator[BaseEvent]:
        """The events that end the run of a job whose end is unknown."""
        if self.over:
            return
        self._ts = None
        yield from self._closed()
        yield self._event(RunErrorEvent, message=message, code=code)

    # ------------------------------------------------------------------

    def _event(self, kind: type[B], **fields: Any) -> B:
        if kind is RunErrorEvent or kind is RunFinishedEvent:
            self.over = True
        at = None if self._ts is None else int(self._ts.timestamp() * 1000)
        return make_event(kind, {"timestamp": at, **fields})

    def _id(self, of: str = "") -> str:
        return f"{self._prefix}:{self._count}{of}"

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
                yield self._state({"progress": self._body(event)})
            case events.Metric():
                yield self._metric(event)
            case events.ResultChunk():
                yield from self._chunk(event)
            case events.Completed():
                yield from self._completed(event)
            case events.Failed():
                yield from self._failed(event)
            case events.Question():
                yield from self._question(event)
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

    def _state(self, values: dict[str, Any], *, inside: str = "") -> BaseEvent:
        # "add" replaces what is there (RFC 6902, 4.1).
        (self.state[inside] if inside else self.state).update(values)
        delta = [
            {"op": "add", "path": f"{'/' + inside if inside else ''}/{_key(name)}", "value": value}
            for name, value in values.items()
        ]
        return self._event(StateDeltaEvent, delta=delta)

    def _text(self, text: str, *, role: str, name: str | None = None) -> Iterator[BaseEvent]:
        message = self._id()
        yield self._event(TextMessageStartEvent, message_id=message, role=role, name=name)
        yield self._event(TextMessageContentEvent, message_id=message, delta=text)
        yield self._event(TextMessageEndEvent, message_id=message)

    def _thought(self, text: str) -> Iterator[BaseEvent]:
        span, message = self._id(":span"), self._id()
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
        yield self._state({"phase": event.phase or None, "message": event.message})

    def _step_ended(self) -> Iterator[BaseEvent]:
        if self._step is not None:
            yield self._event(StepFinishedEvent, step_name=self._step)
            self._step = None

    def _call(self, event: events.ToolCall) -> Iterator[BaseEvent]:
        # An agent may use an id twice; AG-UI needs a different id for each call.
        call = self._id(":call")
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
            message_id=f"{call}:none:{self._count}",
            tool_call_id=call,
            content=_json({"error": {"code": "NO_RESULT", "message": "no result was reported"}}),
            role="tool",
        )

    def _metric(self, event: events.Metric) -> BaseEvent:
        metrics = self.state["metrics"]
        if event.name not in metrics and len(metrics) >= _METRICS:
            return self._custom(event)
        value = {name: self._fields.get(name) for name in ("value", "unit", "dimensions")}
        return self._state({event.name: value}, inside="metrics")

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
        yield self._state({"status": "success"})
        yield self._event(
            RunFinishedEvent,
            thread_id=self._thread_id,
            run_id=self._run_id,
            result=self._fields.get("value"),
            outcome=RunFinishedSuccessOutcome(),
        )

    def _failed(self, event: events.Failed) -> Iterator[BaseEvent]:
        yield from self._closed()
        yield self._state({"status": event.status})
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

    def _question(self, event: events.Question) -> Iterator[BaseEvent]:
        # Calls stay open: their results belong to the run that continues.
        yield from self._texts_ended()
        self._paused_step = self._step
        yield from self._step_ended()
        choices = self._fields.get("options")
        details: dict[str, Any] = {
            "job_id": self._job_id, "question_id": event.question_id, "to": event.to,
        }  # fmt: skip
        if event.options:
            details["options"] = choices
        if event.has_default:
            details["default"] = self._fields.get("default")
        expires = event.expires_at
        interrupt = Interrupt(
            id=str(InterruptId(self._job_id, event.question_id, self._prefix)),
            reason="input_required",
            message=event.text,
            response_schema=event.schema if isinstance(event.schema, dict) else None,
            expires_at=None if expires is None else expires.isoformat().replace("+00:00", "Z"),
            metadata={"arcp": digits.plain(details)},
        )
        yield self._event(
            RunFinishedEvent,
            thread_id=self._thread_id,
            run_id=self._run_id,
            outcome=RunFinishedInterruptOutcome(interrupts=[interrupt]),
        )

    def _closed(self) -> Iterator[BaseEvent]:
        """The events that end the open messages, calls and the step."""
        yield from self._texts_ended()
        while self._calls:
            yield self._unanswered(self._calls.popitem(last=False)[1])
        yield from self._step_ended()

    def _texts_ended(self) -> Iterator[BaseEvent]:
        for message in self._texts.values():
            yield self._event(TextMessageEndEvent, message_id=message)
        self._texts.clear()


_ENVELOPE = frozenset(
    {"seq", "id", "kind", "session_id", "job_id", "ts", "trace_id", "redelivered"}
)


def _key(name: str) -> str:
    """A name as a part of a JSON pointer (RFC 6901)."""
    return name.replace("~", "~0").replace("/", "~1")


def _json(value: Any) -> str:
    return frames.exact(value).decode()
