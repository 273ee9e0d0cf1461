"""A run follows the rules of AG-UI for any job, and has all events of the job."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest
from ag_ui.core import BaseEvent, Event, EventType
from ag_ui.encoder import EventEncoder
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from arcp_client import Client, JobContext, Runtime, errors, events
from arcp_client import Event as ArcpEvent
from arcp_client._wire.build import terminal_event, to_event
from arcp_client._wire.codec import ControlFrame, EventFrame, decode
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Emit, Finish
from arcp_client.transcripts import Scrubber
from arcp_client.web import ag_ui
from arcp_client.web.exports import masking
from arcp_client.web.exports.agui import InterruptId, Run
from arcp_client.web.exports.masking import masked
from tests.exact_numbers import MORE_NUMBERS, ExactConnector, digits
from tests.unit.web.kit import SOON, Gates, agents

ANY: TypeAdapter[Any] = TypeAdapter(Event)

STARTS = {
    EventType.TEXT_MESSAGE_START: ("text", "message_id"),
    EventType.TOOL_CALL_START: ("call", "tool_call_id"),
    EventType.STEP_STARTED: ("step", "step_name"),
    EventType.REASONING_START: ("span", "message_id"),
    EventType.REASONING_MESSAGE_START: ("reasoning", "message_id"),
}
INSIDE = {
    EventType.TEXT_MESSAGE_CONTENT: ("text", "message_id"),
    EventType.TOOL_CALL_ARGS: ("call", "tool_call_id"),
    EventType.REASONING_MESSAGE_CONTENT: ("reasoning", "message_id"),
}
ENDS = {
    EventType.TEXT_MESSAGE_END: ("text", "message_id"),
    EventType.TOOL_CALL_END: ("call", "tool_call_id"),
    EventType.STEP_FINISHED: ("step", "step_name"),
    EventType.REASONING_END: ("span", "message_id"),
    EventType.REASONING_MESSAGE_END: ("reasoning", "message_id"),
}
LAST = (EventType.RUN_FINISHED, EventType.RUN_ERROR)


def verify(run: list[BaseEvent], *, over: bool = True) -> None:
    """The rules of the protocol for one run, as its own client verifies them, and stricter ones."""
    assert run[0].type == EventType.RUN_STARTED
    opened: set[tuple[str, str]] = set()
    used: set[tuple[str, str]] = set()
    calls: list[str] = []
    answered: list[str] = []
    state: dict[str, Any] | None = None
    for n, event in enumerate(run):
        ANY.validate_json(event.model_dump_json(by_alias=True))
        kind = EventType(event.type)
        if kind in STARTS:
            name, field = STARTS[kind]
            key = (name, getattr(event, field))
            assert key not in opened, "started twice"
            assert name == "step" or key not in used, "an id is used twice"
            opened.add(key)
            used.add(key)
            if name == "call":
                calls.append(key[1])
        elif kind in INSIDE or kind in ENDS:
            name, field = (INSIDE | ENDS)[kind]
            key = (name, getattr(event, field))
            assert key in opened, f"{kind} of what was not started"
            if kind in ENDS:
                opened.remove(key)
        elif kind == EventType.TOOL_CALL_RESULT:
            assert event.tool_call_id in calls  # type: ignore[attr-defined]
            assert ("call", event.tool_call_id) not in opened  # type: ignore[attr-defined]
            answered.append(event.tool_call_id)  # type: ignore[attr-defined]
            key = ("result", event.message_id)  # type: ignore[attr-defined]
            assert key not in used
            used.add(key)
        elif kind == EventType.STATE_SNAPSHOT:
            state = dict(event.snapshot)  # type: ignore[attr-defined]
        elif kind == EventType.STATE_DELTA:
            assert state is not None
            for operation in event.delta:  # type: ignore[attr-defined]
                assert operation.op == "add"
                steps = operation.path.split("/")[1:]
                assert len(steps) in (1, 2)
                holder = state if len(steps) == 1 else state[steps[0]]
                assert isinstance(holder, dict)
                holder[steps[-1]] = operation.value
        elif kind == EventType.RUN_STARTED:
            assert n == 0
        if kind in LAST:
            assert n == len(run) - 1, "something follows the end"
            assert not opened, "something was not ended"
            assert sorted(answered) == sorted(calls), "a call looks as if it waited for an answer"
    assert (run[-1].type in LAST) is over


TEXT = st.text(max_size=20)
IDS = st.sampled_from(["", "1", "2", "call~/1"])
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=5,
)
GIVEN: st.SearchStrategy[ArcpEvent] = st.one_of(
    st.builds(events.Log, message=TEXT, level=TEXT),
    st.builds(events.Thought, text=TEXT),
    st.builds(
        events.Status, phase=st.sampled_from(["", "a", "b", "a/b"]), message=st.none() | TEXT
    ),
    st.builds(events.ToolCall, tool=TEXT, args=PLAIN, call_id=IDS),
    st.builds(events.ToolResult, call_id=IDS, result=PLAIN, error=st.none() | PLAIN),
    st.builds(events.Progress, current=st.integers(), total=st.none() | st.integers()),
    st.builds(events.Metric, name=TEXT, value=st.floats() | st.integers(), unit=st.none() | TEXT),
    st.builds(
        events.ResultChunk,
        result_id=IDS,
        data=TEXT,
        encoding=st.sampled_from(["utf8", "base64"]),
        more=st.booleans(),
    ),
    st.builds(events.Gap, first=st.integers(0, 9), last=st.none() | st.integers(0, 9)),
    st.builds(events.ArtifactRef, uri=TEXT, content_type=TEXT),
    st.builds(events.Delegate, child_job_id=TEXT, agent=TEXT),
    st.builds(events.Unknown, kind=TEXT, body=PLAIN),
    st.builds(events.Completed, value=PLAIN),
    st.builds(
        events.Failed,
        status=st.sampled_from(["error", "cancelled", "timed_out"]),
        code=TEXT,
        message=TEXT,
    ),
)


class Job:
    """As much of a job as the beginning of a run tells."""

    id = "job_1"
    agent = "a@1"


def run_of(given: list[ArcpEvent], *, lost: bool = False) -> list[BaseEvent]:
    run = Run("thread", "run")
    made = [*run.begin(Job())]  # type: ignore[arg-type]
    for event in given:
        made += run.apply(event)
    if lost:
        made += run.fail("the job is not known any more", "JobLost")
    return made


@given(st.lists(GIVEN, max_size=30))
def test_a_run_follows_the_rules_of_ag_ui_for_any_events(given: list[ArcpEvent]) -> None:
    verify(run_of(given), over=any(event.terminal for event in given))


@given(st.lists(GIVEN, max_size=30))
def test_a_run_that_is_cut_off_follows_them_too(given: list[ArcpEvent]) -> None:
    verify(run_of(given, lost=True))


QUESTION = st.builds(events.Question, question_id=IDS, text=TEXT, schema=st.none() | st.just({}))


@given(st.lists(GIVEN | QUESTION, max_size=30))
def test_a_question_ends_a_run_and_the_next_one_goes_on(given: list[ArcpEvent]) -> None:
    """Each of the runs follows the rules, and together they have all calls and their results."""
    run = Run("thread", "run")
    runs = [[*run.begin(Job())]]  # type: ignore[arg-type]
    for event in given:
        made = [*run.apply(event)]
        runs[-1] += made
        if isinstance(event, events.Question) and made:
            assert made[-1].outcome.type == "interrupt"  # type: ignore[attr-defined]
            runs.append([*run.begin(Job())])  # type: ignore[arg-type]
    runs[-1] += run.fail("lost", "JobLost")
    whole: list[BaseEvent] = []
    for each in runs:
        kinds_of = kinds(each)
        assert kinds_of[0] == "RUN_STARTED"
        assert kinds_of[-1] in ("RUN_FINISHED", "RUN_ERROR")
        assert len([kind for kind in kinds_of if kind in ("RUN_FINISHED", "RUN_ERROR")]) == 1
        state = each[1].snapshot  # type: ignore[attr-defined]
        assert set(state) >= {"job_id", "phase", "metrics"}
        # As one run, without what ends and begins the ones between.
        whole += each if each is runs[-1] else each[:-1]
    begun = [event for event in whole if event.type != EventType.RUN_STARTED]
    verify([whole[0], *begun])


async def test_a_run_after_a_question_has_what_follows_it(client: Client) -> None:
    job = await client.submit("asks")
    first = await collected(job)
    [asked] = first[-1].outcome.interrupts  # type: ignore[attr-defined]
    known = asked.metadata["arcp"]
    assert known["job_id"] == job.id
    await job.answer(known["question_id"], 5)
    async with asyncio.timeout(SOON):
        then = [e async for e in ag_ui(job, after=known["question_id"], run_id="r2")]
    verify(then)
    assert then[0].run_id == "r2"  # type: ignore[attr-defined]
    assert then[1].snapshot["phase"] == "asking"  # type: ignore[attr-defined]
    assert then[-1].result == 5  # type: ignore[attr-defined]
    with pytest.raises(LookupError, match="q_none"):
        [e async for e in ag_ui(job, after="q_none")]


@pytest.mark.parametrize("text", ["", "x", "e30", "WyJhIl0", "\udcff", "[" * 9])
def test_the_id_of_an_interrupt_is_checked(text: str) -> None:
    assert InterruptId.parse(text) is None
    assert InterruptId.parse(str(InterruptId("j:1", "q", "é"))) == InterruptId("j:1", "q", "é")


def test_calls_beyond_the_limit_get_a_result() -> None:
    calls: list[ArcpEvent] = [events.ToolCall(tool="t", call_id=f"{n}") for n in range(1500)]
    run = run_of([*calls, events.Completed()])
    verify(run)
    texts: list[ArcpEvent] = [events.ResultChunk(result_id=f"{n}") for n in range(50)]
    verify(run_of([*texts, events.Completed()]))


def kinds(run: list[BaseEvent]) -> list[str]:
    return [EventType(event.type).value for event in run]


async def collected(job: Any) -> list[BaseEvent]:
    async with asyncio.timeout(SOON):
        return [event async for event in ag_ui(job)]


async def test_the_events_of_a_run_have_the_order_of_the_job(client: Client) -> None:
    job = await client.submit(
        "emit",
        [
            ["status", {"phase": "reading"}],
            ["tool_call", {"tool": "read", "args": {"path": "x"}, "call_id": "1"}],
            ["tool_result", {"call_id": "1", "result": {"lines": 3}}],
            ["thought", {"text": "three lines"}],
            ["status", {"phase": "writing"}],
            ["progress", {"current": 1, "total": 2}],
            ["log", {"level": "warn", "message": "almost"}],
        ],
    )
    run = await collected(job)
    verify(run)
    assert kinds(run) == [
        "RUN_STARTED", "STATE_SNAPSHOT",
        "STEP_STARTED", "STATE_DELTA",
        "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
        "REASONING_START", "REASONING_MESSAGE_START", "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END", "REASONING_END",
        "STEP_FINISHED", "STEP_STARTED", "STATE_DELTA",
        "STATE_DELTA",
        "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END",
        "STEP_FINISHED", "STATE_DELTA", "RUN_FINISHED",
    ]  # fmt: skip
    said = {EventType(event.type).value: event.model_dump(by_alias=True) for event in run}
    assert said["RUN_STARTED"]["runId"] == job.id
    assert said["TOOL_CALL_START"]["toolCallName"] == "read"
    assert json.loads(said["TOOL_CALL_ARGS"]["delta"]) == {"path": "x"}
    assert json.loads(said["TOOL_CALL_RESULT"]["content"]) == {"lines": 3}
    assert said["TEXT_MESSAGE_CONTENT"]["delta"] == "almost"
    assert said["RUN_FINISHED"]["outcome"] == {"type": "success"}


async def test_a_streamed_result_is_one_message_of_the_assistant(client: Client) -> None:
    run = await collected(await client.submit("text", ["one ", "two ", "three"]))
    verify(run)
    starts = [event for event in run if event.type == EventType.TEXT_MESSAGE_START]
    assert [event.role for event in starts] == ["assistant"]  # type: ignore[attr-defined]
    parts = [
        event.delta  # type: ignore[attr-defined]
        for event in run
        if event.type == EventType.TEXT_MESSAGE_CONTENT
    ]
    assert "".join(parts) == "one two three"


async def test_a_result_that_is_a_text_is_a_message_and_the_result(client: Client) -> None:
    run = await collected(await client.submit("echo", "the answer"))
    verify(run)
    assert run[-1].result == "the answer"  # type: ignore[attr-defined]
    assert "the answer" in [getattr(event, "delta", None) for event in run]


async def test_a_failure_is_an_error_and_a_cancel_is_an_outcome(
    client: Client, gates: Gates
) -> None:
    run = await collected(await client.submit("fail"))
    verify(run)
    assert (run[-1].type, run[-1].code) == (EventType.RUN_ERROR, "INTERNAL_ERROR")  # type: ignore[attr-defined]
    job = await client.submit("gated", "never")
    await job.cancel()
    run = await collected(job)
    verify(run)
    assert run[-1].outcome.type == "cancelled"  # type: ignore[attr-defined]


async def test_closing_the_client_ends_the_run_with_an_error(url: str, gates: Gates) -> None:
    async with Client(url, token="t") as client:
        job = await client.submit("gated", "never")
        told: list[BaseEvent] = []

        async def follow() -> None:
            told.extend([event async for event in ag_ui(job)])

        following = asyncio.create_task(follow())
        await client.ping()
    async with asyncio.timeout(SOON):
        await following
    verify(told)
    assert told[-1].code == "ClientClosed"  # type: ignore[attr-defined]
    assert issubclass(errors.ClientClosed, errors.ArcpError)


async def test_secrets_are_masked(client: Client) -> None:
    secret = "hunter2-hunter2"
    job = await client.submit(
        "emit",
        [
            ["log", {"level": "info", "message": f"password={secret}"}],
            ["tool_call", {"tool": "t", "call_id": "1", "args": {"api_key": secret}}],
            ["tool_result", {"call_id": "1", "result": f"Bearer {secret}"}],
            ["x-vendor.odd", {"client_secret": secret}],
        ],
    )
    run = await collected(job)
    verify(run)
    encoder = EventEncoder()
    shown = "".join(encoder.encode(event) for event in run)
    assert secret not in shown
    assert shown.count("\n\n") == len(run)


async def test_a_lone_surrogate_is_replaced() -> None:
    event = masked(events.Log(message="a \ud800 b", level="info"), Scrubber())
    [start, content, end] = list(Run("t", "r").apply(*event))
    assert content.delta == "a ? b"  # type: ignore[attr-defined]
    assert [start.message_id] == [end.message_id]  # type: ignore[attr-defined]


async def test_the_names_of_the_conversation_can_be_chosen() -> None:
    async with Runtime() as runtime, Client(runtime) as client:
        agents(runtime, Gates())
        job = await client.submit("echo", 1)
        first = await anext(ag_ui(job, thread_id="t", run_id="r"))
    assert (first.thread_id, first.run_id) == ("t", "r")  # type: ignore[attr-defined]


@pytest.mark.parametrize("missing", ["ag_ui", "ag_ui.core"])
def test_without_the_extra_there_is_an_instruction(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import arcp_client.web as web\n"
        "try:\n    web.ag_ui\nexcept ModuleNotFoundError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'arcp-client[ag-ui]'" in done.stdout


async def test_a_status_without_a_new_credential_makes_no_new_scrubber(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Scrubber] = []

    class Counted(Scrubber):
        def __init__(self, *given: Any) -> None:
            made.append(self)
            super().__init__(*given)

    monkeypatch.setattr(masking, "Scrubber", Counted)
    async with Runtime() as runtime:

        @runtime.agent("phases")
        async def phases(input: Any, job: JobContext) -> None:
            for n in range(20):
                await job.status(f"phase {n}")

        async with Client(runtime) as client:
            run = [event async for event in ag_ui(await client.submit("phases"))]
    assert sum(event.type == EventType.STEP_STARTED for event in run) == 20
    assert len(made) == 1


NUMBER = r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?"


def received(payload: str, kind: str = "job.event") -> ArcpEvent:
    """The event of a frame with this payload."""
    data = (
        f'{{"arcp":"1.1","id":"e","type":"{kind}","session_id":"s","job_id":"j","event_seq":1,'
        f'"payload":{payload}}}'
    ).encode()
    frame = decode(data)
    if isinstance(frame, ControlFrame):
        return terminal_event(frame, data)
    assert isinstance(frame, EventFrame)
    return to_event(frame, data)


def encoded(run: Run, event: ArcpEvent) -> str:
    """What a front end receives for an event."""
    return "".join(EventEncoder().encode(made) for made in run.apply(*masked(event, Scrubber())))


@given(st.lists(st.from_regex(NUMBER, fullmatch=True), min_size=1, max_size=3))
@example(list(MORE_NUMBERS))
def test_numbers_have_the_digits_of_the_frame(numbers: list[str]) -> None:
    values = f"[{','.join(numbers)}]"
    ts = '"ts":"2026-01-01T12:15:15.5Z"'
    run = Run("t", "r")
    quoted = json.dumps(f'{{"n":{values}}}')
    call = f'{{"tool":"t","call_id":"1","args":{{"n":{values}}}}}'
    assert f'"delta":{quoted}' in encoded(
        run, received(f'{{"kind":"tool_call",{ts},"body":{call}}}')
    )
    answer = f'{{"call_id":"1","result":{{"n":{values}}}}}'
    answered = received(f'{{"kind":"tool_result",{ts},"body":{answer}}}')
    assert f'"content":{quoted}' in encoded(run, answered)
    assert f'"result":{{"n":{values}}}' in encoded(run, answered)  # no call is open any more
    other = received(f'{{"kind":"x-vendor.note",{ts},"body":{{"n":{values}}}}}')
    assert f'"body":{{"n":{values}}}' in encoded(run, other)
    for number in numbers:
        body = f'{{"name":"m","value":{number},"dimensions":{{"n":{number}}}}}'
        metric = encoded(run, received(f'{{"kind":"metric",{ts},"body":{body}}}'))
        assert f'"value":{number},' in metric
        assert f'"dimensions":{{"n":{number}}}' in metric
        body = f'{{"current":{number},"total":{number}}}'
        progress = encoded(run, received(f'{{"kind":"progress",{ts},"body":{body}}}'))
        assert f'"current":{number},"total":{number},' in progress
    result = received(f'{{"final_status":"success","result":{{"n":{values}}}}}', "job.result")
    assert f'"result":{{"n":{values}}}' in encoded(run, result)


def test_programs_read_numbers_as_int_and_float() -> None:
    run = Run("t", "r")
    body = '{"kind":"x-vendor.note","body":[-0,1.50,1e22,12345678901234567890]}'
    event, fields = masked(received(body), Scrubber())
    [made] = run.apply(event, fields)
    read = made.event["body"]  # type: ignore[attr-defined]
    assert read == [0, 1.5, 1e22, 12345678901234567890]
    assert [type(each) for each in read] == [int, float, float, int]
    assert json.loads(made.model_dump_json(by_alias=True, indent=2))["event"]["body"] == read
    assert "event" not in json.loads(made.model_dump_json(exclude={"event"}))


async def test_numbers_that_no_float_can_hold_end_no_run() -> None:
    """The frame is unreadable, as for every other consumer: the run has a gap in its place."""
    script = [Emit("x-vendor.note", {"n": digits("1e400")}), Finish(None)]
    async with (
        ScriptedRuntime(agents={"sums": script}) as runtime,
        Client(ExactConnector(runtime), token="t") as client,
    ):
        run = await collected(await client.submit("sums", None))
    verify(run)
    assert [event.name for event in run if event.type == EventType.CUSTOM] == ["arcp.gap"]  # type: ignore[attr-defined]
