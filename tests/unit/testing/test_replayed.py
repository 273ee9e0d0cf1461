"""What was recorded happens again: for any client, in the same order, at the recorded distances."""

from __future__ import annotations

import asyncio
import contextlib
import io
import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client import Client, JobContext, Runtime, errors, events
from arcp_client.errors import JobFailed
from arcp_client.testing import ReplayedRuntime, VirtualTimeLoop
from arcp_client.transcripts import (
    EndLine,
    EventLine,
    Header,
    JobLine,
    Line,
    Reader,
    Recording,
    Writer,
    encode,
    read,
    write,
)
from tests.exact_numbers import MORE_NUMBERS, ExactConnector


def said(found: list[events.Event]) -> list[tuple[str, dict[str, Any]]]:
    """What events say, without what is each runtime's own."""
    own = events.Event.__struct_fields__
    plain = []
    for event in found:
        told = event.to_dict()
        told.pop("result_id", None)
        told.pop("completed_at", None)
        plain.append((event.kind, {k: v for k, v in told.items() if k not in own}))
    return plain


async def recorded(runtime: Runtime, path: Path, agent: str, **submit: Any) -> list[events.Event]:
    """Record one job."""
    found: list[events.Event] = []
    async with runtime, Client(runtime) as client:
        job = await client.submit(agent, **submit)
        with Writer(path) as writer:
            recording = Recording(writer)
            recording.began(job)
            async for event in job:
                found.append(event)
                recording.event(event, job_id=job.id)
            try:
                await job.result()
            except errors.ArcpError as error:
                recording.ended(job, error)
            else:
                recording.ended(job)
            recording.end()
    return found


def one_of_each() -> Runtime:
    runtime = Runtime()

    @runtime.agent("all-kinds", version="1.2.3")
    async def agent(input: Any, job: JobContext) -> Any:
        await job.log("m", "warn")
        await job.thought("t")
        call = await job.tool_call("search", {"a": [1]})
        await job.tool_result(call, {"hits": 3})
        await job.tool_result(call, error={"code": "X", "message": "m"})
        await job.status("busy", "m")
        await job.metric("cost.model", 0.25, "USD", {"d": "x"})
        await job.metric("sources", 3)
        await job.artifact("file:///x", "text/plain", 3, "ab")
        await job.progress(1, total=3, units="u")
        await job.emit("x-vendor.acme.scored", {"score": 1})
        return {"done": True}

    @runtime.agent("chunks")
    async def chunks(input: Any, job: JobContext) -> Any:
        await job.chunk("one ")
        await job.chunk("two", more=False)

    @runtime.agent("binary")
    async def binary(input: Any, job: JobContext) -> Any:
        await job.chunk(b"\0\xff")
        await job.chunk(b"\1", more=False)

    @runtime.agent("refuses")
    async def refuses(input: Any, job: JobContext) -> Any:
        raise JobFailed("no", code="X_CODE", retryable=True, details={"a": 1})

    @runtime.agent("waits")
    async def waits(input: Any, job: JobContext) -> Any:
        await job.status("waiting")
        await asyncio.Event().wait()

    return runtime


async def followed(path: Path, **options: Any) -> tuple[list[events.Event], Any]:
    """Play it, and watch the first job like anybody."""
    async with ReplayedRuntime(path, speed=None, **options) as runtime:
        await runtime.played()
        (job_id,) = runtime.jobs.values()
        async with Client(runtime) as client:
            view = await client.watch(job_id, history=True)
            found = [event async for event in view]
            try:
                return found, (await view.result()).value
            except errors.ArcpError as error:
                return found, error


@pytest.mark.parametrize("agent", ["all-kinds", "chunks", "binary", "refuses"])
async def test_a_job_happens_again_as_it_was(agent: str, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lease = {"cost.budget": ["USD:5.00"], "tool.call": ["*"]}
    first = await recorded(one_of_each(), path, agent, lease=lease)
    again, outcome = await followed(path)
    assert said(again) == said(first)
    expected = {"all-kinds": {"done": True}, "chunks": "one two", "binary": b"\0\xff\1"}
    if agent == "refuses":
        assert isinstance(outcome, JobFailed)
        assert (outcome.code, outcome.message, outcome.retryable) == ("X_CODE", "no", True)
    else:
        assert outcome == expected[agent]


async def test_a_cancelled_job_is_cancelled_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    runtime = one_of_each()
    async with runtime, Client(runtime) as client:
        job = await client.submit("waits")
        with Writer(path) as writer:
            recording = Recording(writer)
            recording.began(job)
            async for event in job:
                recording.event(event)
                if isinstance(event, events.Status):
                    await job.cancel("changed my mind")
            recording.ended(job)
            recording.end()
    again, outcome = await followed(path)
    assert isinstance(outcome, errors.JobCancelled)
    assert isinstance(again[-1], events.Failed)
    assert again[-1].status == "cancelled"


async def test_a_timed_out_job_times_out_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    await recorded(one_of_each(), path, "waits", max_runtime=0.01)
    _, outcome = await followed(path)
    assert isinstance(outcome, errors.JobTimedOut)


async def test_delegated_jobs_are_delegated_again(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    runtime = Runtime()

    @runtime.agent("child")
    async def child(input: Any, job: JobContext) -> Any:
        await job.log(f"I am {input}")
        return input

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> Any:
        return await (await job.delegate("child", 7)).result()

    lease = {"agent.delegate": ["*"]}
    async with runtime, Client(runtime) as client:
        job = await client.submit("parent", lease=lease)
        await job.result()
        with Writer(path) as writer:
            recording = Recording(writer)
            for each in (job, await client.watch(job.children[0], history=True)):
                recording.began(each)
                async for event in each:
                    recording.event(event)
                recording.ended(each)
            recording.end()
    async with ReplayedRuntime(path, speed=None) as replayed, Client(replayed) as client:
        await replayed.played()
        new_parent, new_child = replayed.jobs.values()
        view = await client.watch(new_parent, history=True)
        assert (await view.result()).value == 7
        (delegate,) = [event async for event in view.events(events.Delegate)]
        assert delegate.child_job_id == new_child
        view = await client.watch(new_child, history=True)
        assert [event.message async for event in view.events(events.Log)] == ["I am 7"]


def test_events_keep_their_distances(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    lines: list[Line] = [
        Header(),
        JobLine(at=10.0, job_id="a", agent="slow"),
        EventLine(at=40.0, event=events.Log(message="half"), job_id="a"),
        JobLine(at=45.0, job_id="b", agent="late"),
        EventLine(at=70.0, event=events.Completed(value=1), job_id="a"),
        EventLine(at=75.0, event=events.Completed(value=2), job_id="b"),
        EndLine(at=75.0),
    ]
    write(path, lines)

    async def body() -> list[float]:
        loop = asyncio.get_running_loop()
        moments = []
        async with ReplayedRuntime(path, speed=10.0) as runtime, Client(runtime) as client:
            began = loop.time()
            while len(runtime.jobs) < 2:
                await asyncio.sleep(0.05)
            for job_id in runtime.jobs.values():
                await (await client.watch(job_id, history=True)).result()
                moments.append(round(loop.time() - began, 1))
        return moments

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        assert runner.run(body()) == [7.0, 7.5]


async def test_who_submits_to_a_recorded_agent_gets_its_recording(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    await recorded(one_of_each(), path, "chunks")
    async with ReplayedRuntime(path, speed=None) as runtime, Client(runtime) as client:
        assert [agent.name for agent in client.session.agents] == ["chunks"]
        for _ in range(2):
            job = await client.submit("chunks", {"any": "thing"})
            assert (await job.result()).value == "one two"


async def test_a_recording_can_be_cancelled_by_who_submitted_it(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write(
        path,
        [
            JobLine(job_id="a", agent="slow"),
            EventLine(at=1e6, event=events.Completed(), job_id="a"),
            EndLine(at=1e6),
        ],
    )
    async with ReplayedRuntime(path) as runtime, Client(runtime) as client:
        job = await client.submit("slow")
        await job.cancel()
        with pytest.raises(errors.JobCancelled):
            await job.result()


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        ([], "RECORDING_ENDED"),
        ([events.Log(message="m")], "RECORDING_ENDED"),
        ([events.Completed(result_id="r")], "RECORDING_INCOMPLETE"),
        (
            [
                events.ResultChunk(chunk_seq=1, data="x", more=False),
                events.Completed(result_id="r"),
            ],
            "RECORDING_INCOMPLETE",
        ),
    ],
)
async def test_what_was_not_recorded_is_never_a_success(
    lines: list[events.Event], code: str, tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    write(path, [JobLine(job_id="a"), *(EventLine(event=event, job_id="a") for event in lines)])
    _, outcome = await followed(path)
    assert isinstance(outcome, JobFailed)
    assert outcome.code == code
    async with ReplayedRuntime(path) as runtime:
        assert not runtime.complete


async def test_what_the_runtime_does_not_take_is_said(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    odd = [
        events.ResultChunk(data="?", encoding="base64"),
        events.Metric(name="cost.x", value=-1, unit="USD"),
        events.Gap(first=3, last=5),
        events.Unknown(kind="", body=[1]),
        events.Delegate(child_job_id="unseen", agent="x"),
    ]
    lease = {"cost.budget": ["USD:1"]}
    lines = [EventLine(event=event, job_id="a") for event in (*odd, events.Completed(value=1))]
    write(path, [JobLine(job_id="a", agent="x", lease=lease), *lines, EndLine()])
    found, outcome = await followed(path)
    assert outcome == 1
    assert [event.kind for event in found] == [
        "log", "log", "x-vendor.arcp-client.gap", "x-vendor.arcp-client.unknown",
        "x-vendor.arcp-client.delegate", "result",
    ]  # fmt: skip


@pytest.mark.parametrize("agent", ["", "Not A Name", "a@1", "a@2"])
@pytest.mark.parametrize("lease", [{}, {"": ["x"]}, {"cost.budget": ["nothing"]}])
async def test_odd_agents_and_leases_are_played_all_the_same(
    agent: str, lease: dict[str, list[str]], tmp_path: Path
) -> None:
    path = tmp_path / "t.jsonl"
    done = EventLine(event=events.Completed(value=1), job_id="a")
    write(path, [JobLine(job_id="a", agent=agent, lease=lease), done, EndLine()])
    _, outcome = await followed(path)
    assert outcome == 1


async def test_with_tokens_only_their_owners_come_in(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    await recorded(one_of_each(), path, "chunks")
    async with ReplayedRuntime(path, speed=None, auth={"t0ken": "me"}) as runtime:
        await runtime.played()
        with pytest.raises(errors.Unauthenticated):
            await Client(runtime, token="other").connect()
        async with Client(runtime, token="t0ken") as client:
            (job,) = [job async for job in client.jobs()]
            assert job.job_id in runtime.jobs.values()


async def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("{}\n")
    with pytest.raises(errors.TranscriptError):
        await ReplayedRuntime(path).__aenter__()
    with pytest.raises(FileNotFoundError):
        await ReplayedRuntime(tmp_path / "none").__aenter__()


WRONG: dict[str, list[Any]] = {
    "path": [None, 5, "", "a\0b"],
    "speed": [0, -1, float("nan"), "5", True],
    "auth": [5, "sesame", ["sesame"], {5: "me"}],
    "on_job": [5, "print"],
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_argument_is_refused_by_name(name: str) -> None:
    for value in WRONG[name]:
        with pytest.raises((TypeError, ValueError), match=name) as caught:
            ReplayedRuntime(**{"path": "t.jsonl", name: value})
        assert type(caught.value) in (TypeError, ValueError), value
        assert "sesame" not in str(caught.value)


async def test_a_recording_without_jobs_plays_nothing(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write(path, [EndLine()])
    async with ReplayedRuntime(path) as runtime:
        await runtime.played()
        assert runtime.jobs == {}
        assert runtime.complete
        with read(path) as reader:
            assert reader.header == runtime.header


CIRCLES = [
    ["A>A"],
    ["A>B", "B>A"],
    ["R>A", "A>B", "B>A"],
    ["A>B", "B>C", "C>A", "D>B", "B>D"],
    ["X>A", "A>B"],
    [f"N{n}>N{n + 1}" for n in range(11)] * 2,
]


@pytest.mark.parametrize("delegations", CIRCLES, ids=",".join)
async def test_each_recorded_job_begins_once_whoever_is_said_to_have_begun_it(
    delegations: list[str], tmp_path: Path
) -> None:
    """A file may hold circles, and jobs that were begun twice: they would never end."""
    pairs = [each.split(">") for each in delegations]
    jobs = sorted({name for pair in pairs for name in pair} - {"X"})
    lines: list[Line] = [JobLine(job_id=name, agent=name.lower()) for name in jobs]
    for parent, child in pairs:
        event = events.Delegate(job_id=parent, child_job_id=child, agent=child.lower())
        lines.append(EventLine(event=event, job_id=parent))
    done = (events.Completed(job_id=name, value=name) for name in jobs)
    lines += [EventLine(event=event, job_id=event.job_id) for event in done]
    write(tmp_path / "t", [*lines, EndLine()])
    async with (
        asyncio.timeout(20),
        ReplayedRuntime(tmp_path / "t", speed=None) as runtime,
        Client(runtime) as client,
    ):
        await runtime.played()
        while set(runtime.jobs) != set(jobs):
            await asyncio.sleep(0.01)
        listed = [job.job_id async for job in client.jobs()]
    assert sorted(listed) == sorted(runtime.jobs.values())


@pytest.mark.parametrize("agent", ["", "x" * 100_000, "\x1b[31m", "a b@c@d", "@", "\ud800"])
async def test_a_job_of_an_agent_that_no_runtime_could_have_is_played(
    agent: str, tmp_path: Path
) -> None:
    done = events.Completed(job_id="j", value=1)
    lines = [JobLine(job_id="j", agent=agent), EventLine(event=done, job_id="j"), EndLine()]
    write(tmp_path / "t", lines)
    async with asyncio.timeout(20), ReplayedRuntime(tmp_path / "t", speed=None) as runtime:
        await runtime.played()
    assert list(runtime.jobs) == ["j"]


NUMBER = r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?"


def line(at: float, job_id: str, event: str) -> bytes:
    return f'{{"type":"event","at":{at},"event":{{"job_id":"{job_id}",{event}}}}}\n'.encode()


def with_numbers(numbers: list[str]) -> bytes:
    """A transcript that has these numbers wherever an event may have one."""
    values = f"[{','.join(numbers)}]"
    begun = {"type": "job", "at": 0.0, "job_id": "j", "agent": "sums"}
    failed = {**begun, "job_id": "k", "agent": "fails"}
    return b"".join(
        [
            encode(Header()),
            json.dumps(begun).encode() + b"\n",
            json.dumps(failed).encode() + b"\n",
            line(0.5, "j", f'"kind":"tool_call","tool":"t","call_id":"1","args":{{"n":{values}}}'),
            line(0.5, "j", f'"kind":"tool_result","call_id":"1","result":{values}'),
            line(0.5, "j", f'"kind":"tool_result","call_id":"1","error":{{"code":{values}}}'),
            line(0.5, "j", f'"kind":"x-vendor.acme.note","body":{{"deep":[{{"n":{values}}}]}}'),
            line(0.5, "j", f'"kind":"x-vendor.acme.half","body":{{"half":"\\ud800","n":{values}}}'),
            line(0.5, "j", f'"kind":"artifact_ref","byte_size":"a size","n":{values}'),
            *(
                line(0.5, "j", f'"kind":"metric","name":"m","value":{n},"dimensions":{{"n":{n}}}')
                for n in numbers
            ),
            *(line(0.5, "j", f'"kind":"progress","current":{n},"total":{n}') for n in numbers),
            line(0.5, "j", f'"kind":"result","value":{{"n":{values}}}'),
            line(0.5, "k", f'"kind":"error","status":"error","code":"X","details":{values}'),
            encode(EndLine()),
        ]
    )


async def frames_of(path: Path, agents: list[str]) -> bytes:
    """The frames that a client receives of jobs of these agents."""
    async with ReplayedRuntime(path, speed=None) as runtime:
        connector = ExactConnector(runtime)
        async with Client(connector) as client:
            for agent in agents:
                job = await client.submit(agent)
                with contextlib.suppress(errors.ArcpError):
                    await job.result()
    return b"\n".join(connector.received)


@given(st.lists(st.from_regex(NUMBER, fullmatch=True), min_size=1, max_size=3))
@example(list(MORE_NUMBERS))
async def test_numbers_are_played_with_the_digits_that_were_recorded(numbers: list[str]) -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "numbers.jsonl"
        path.write_bytes(with_numbers(numbers))
        found = await frames_of(path, ["sums", "fails"])
    values = f"[{','.join(numbers)}]".encode()
    assert found.count(b":" + values) == 8
    for number in numbers:
        assert b'"value":%b,"dimensions":{"n":%b}' % (number.encode(), number.encode()) in found
        assert b'"current":%b,"total":%b' % (number.encode(), number.encode()) in found


async def test_a_number_that_no_float_can_hold_is_played_as_it_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "numbers.jsonl"
    path.write_bytes(with_numbers(["1e400", "-1e400"]))
    found = await frames_of(path, ["sums"])
    assert found.count(b":[1e400,-1e400]") == 6
    assert b'"value":-1e400,"dimensions":{"n":-1e400}' in found
    assert b"number out of range" in found  # the result, which this package refuses to send


async def test_a_replayed_cost_is_charged_with_its_digits(tmp_path: Path) -> None:
    job = JobLine(job_id="j", agent="spends", lease={"cost.budget": ["USD:1.00"]})
    cost = '"kind":"metric","name":"cost.model","value":0.2500000000000000000001,"unit":"USD"'
    ended = line(0.0, "j", '"kind":"result","value":null')
    path = tmp_path / "costs.jsonl"
    path.write_bytes(encode(Header()) + encode(job) + line(0.0, "j", cost) + ended)
    async with ReplayedRuntime(path, speed=None) as runtime:
        connector = ExactConnector(runtime)
        async with Client(connector) as client:
            job = await client.submit("spends", lease={"cost.budget": ["USD:1.00"]})
            await job.result()
    found = b"\n".join(connector.received)
    assert b'"value":0.2500000000000000000001,' in found
    assert b'"value":0.7499999999999999999999,' in found  # what is left


def test_a_transcript_that_is_read_and_written_again_keeps_its_digits() -> None:
    values = [*MORE_NUMBERS, "1e400"]
    data = with_numbers(values)
    again = b"".join(encode(each) for each in Reader(io.BytesIO(data)))
    assert again.count(f"[{','.join(values)}]".encode()) == 8
