"""Arguments of ``run``, and how a followed job ends, with jobs that are made up."""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest

from arcp_client import (
    Event,
    Lease,
    LeaseConstraints,
    LinkState,
    Live,
    OpenQuestion,
    Result,
    events,
)
from arcp_client.cli.actions import tail as tail_module
from arcp_client.cli.actions.answering import EventAsker
from arcp_client.cli.actions.follow import Following, read_input, read_lease
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts
from arcp_client.cli.output_format import Output
from arcp_client.cli.view.report import reporter
from arcp_client.cli.view.text_report import write_result
from arcp_client.errors import JobLost, JobNotFound


def test_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_input('{"a": [1, "x"]}') == msgspec.Raw(b'{"a":[1,"x"]}')
    assert read_input("null") == msgspec.Raw(b"null")
    (tmp_path / "in.json").write_text("[1]")
    assert read_input(f"@{tmp_path / 'in.json'}") == msgspec.Raw(b"[1]")
    monkeypatch.setattr(sys, "stdin", io.StringIO('"piped"'))
    assert read_input("-") == msgspec.Raw(b'"piped"')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "--input is not JSON"),
        ("hello", "--input is not JSON"),
        ("NaN", "NaN is not a JSON value"),
        ("[" * 100_000, "--input is not JSON"),
        ("@/nowhere/at.all", "/nowhere/at.all cannot be read"),
    ],
)
def test_inputs_that_are_none(text: str, said: str) -> None:
    with pytest.raises(CommandError, match=said) as refused:
        read_input(text)
    assert refused.value.code is Exit.USAGE


def test_leases() -> None:
    assert read_lease([]) is None
    assert read_lease(["fs.read=/a/**", "fs.read=/b", "x=y=z"]) == {
        "fs.read": ["/a/**", "/b"],
        "x": ["y=z"],
    }
    for wrong in ("fs.read", "=x", "fs.read="):
        with pytest.raises(CommandError, match="is not NAME=PATTERN"):
            read_lease([wrong])


class MadeUpStream:
    """Gives what it is given, and then waits for ever."""

    def __init__(self, *past: events.Event) -> None:
        self._past = list(past)
        self._left = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[events.Event]:
        return self

    async def __anext__(self) -> events.Event:
        if not self._past:
            await self._left.wait()
            raise StopAsyncIteration
        return self._past.pop(0)

    async def aclose(self) -> None:
        self._left.set()


class MadeUpJob:
    """Has the end, and the result, that it is given."""

    id = "job_1"
    agent = "a"
    status = "success"
    lease = Lease()
    lease_constraints = LeaseConstraints()
    budget: ClassVar[dict[str, Any]] = {}
    credentials: ClassVar[dict[str, Any]] = {}
    children: ClassVar[list[str]] = []

    def __init__(self, *, value: Any = "done", lost: bool = False) -> None:
        self._value = value
        self._lost = lost

    async def events(self, *kinds: type[events.Event]) -> AsyncIterator[events.Event]:
        if self._lost:
            raise JobLost("the runtime forgot it", job_id=self.id)
        yield events.Gap()
        yield events.Completed()

    async def result(self) -> Result:
        return Result(value=self._value)


class MadeUpClient:
    """Knows no job, and may watch none; its questions are those it is given, lookup by lookup."""

    def __init__(self, *listings: list[OpenQuestion]) -> None:
        self._listings = list(listings)
        self._hooks: list[Callable[[LinkState], None]] = []
        self.states = self

    def subscribe(self, *, on_next: Callable[[LinkState], None]) -> MadeUpClient:
        self._hooks.append(on_next)
        return self

    def dispose(self) -> None:
        self._hooks.clear()

    def linked(self) -> None:
        """Say that there is a new link."""
        for hook in self._hooks:
            hook(Live(resumed=True))

    async def questions(self) -> AsyncIterator[OpenQuestion]:
        for question in self._listings.pop(0) if self._listings else ():
            yield question

    def job(self, job_id: str) -> None:
        return None

    async def watch(self, job_id: str, *, history: bool) -> None:
        raise JobNotFound


def of_job(event: Event) -> Event:
    return msgspec.structs.replace(event, job_id=MadeUpJob.id)


async def followed(
    output: Output,
    *past: events.Event,
    over: Callable[[], None] = lambda: None,
    tail: int | None = None,
    **job: Any,
) -> Exit:
    client: Any = MadeUpClient()
    made_up: Any = MadeUpJob(**job)
    following = Following(
        client,
        MadeUpStream(*past),
        Interrupts(),
        reporter(output),
        back="come back",
        tail=tail,
        over=over,
    )
    return await following.follow(made_up, history=True)


async def test_a_success_with_a_hole_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(CommandError, match=r"events are missing: 3–5 \(lost\)") as holed:
        await followed(Output.TEXT, events.Gap(first=3, last=5), of_job(events.Completed()))
    assert holed.value.code is Exit.GAP
    shown = capsys.readouterr()
    assert shown.out == "done\n"
    assert "gap: events 3–5" in shown.err


async def test_what_an_iterator_no_longer_has_is_no_hole() -> None:
    gap = events.Gap(first=1, last=2, reason="not_retained")
    code = await followed(Output.JSON, gap, of_job(events.Completed()))
    assert code is Exit.SUCCESS


async def test_a_job_that_is_lost_ends_after_what_came_of_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    over: list[bool] = []
    with pytest.raises(CommandError, match="the runtime forgot it") as lost:
        await followed(
            Output.TEXT,
            of_job(events.Log(message="the last word")),
            lost=True,
            over=lambda: over.append(True),
        )
    assert lost.value.code is Exit.GAP
    assert over == [True]
    assert "the last word" in capsys.readouterr().err


async def test_children_are_named_in_text_and_left_out_of_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    past = (
        of_job(events.Delegate(child_job_id="job_2", agent="helper")),
        events.Log(job_id="job_2", message="from below"),
        of_job(events.Completed()),
    )
    assert await followed(Output.TEXT, *past) is Exit.SUCCESS
    assert "└ helper from below" in capsys.readouterr().err
    assert await followed(Output.JSONL, *past) is Exit.SUCCESS
    assert "from below" not in capsys.readouterr().out


async def test_what_may_have_been_shown_before_is_marked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    again = of_job(events.Log(message="again", redelivered=True))
    await followed(Output.TEXT, again, of_job(events.Completed()))
    assert "↻ again" in capsys.readouterr().err


async def test_json_lines_have_a_schema_each(capsys: pytest.CaptureFixture[str]) -> None:
    log = of_job(events.Log(seq=1, message="hü\ud800"))
    await followed(Output.JSONL, log, of_job(events.Completed()), value=b"\xff")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == ["job", "event", "event", "outcome"]
    assert {line["schema"] for line in lines} == {"arcp-client.job/1"}
    assert lines[1]["event"]["message"] == "hü\ud800"
    assert lines[-1]["result"] == {"encoding": "base64", "data": "/w=="}
    assert lines[-1]["status"] == "success"


def test_results_as_data(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for value in ("text\n", "text", {"a": 1}, b"\x00\xff", None):
        write_result(value)
    assert capsysbinary.readouterr().out == b'text\ntext\n{"a": 1}\n\x00\xffnull\n'


# ------------------------------------------------------------------------ the newest events only


async def test_a_tail_shows_the_newest_events_and_the_state_of_all(
    capsys: pytest.CaptureFixture[str],
) -> None:
    past = [of_job(events.Log(message=f"line {n};")) for n in range(50)]
    cost = of_job(events.Metric(name="cost.inference", value=0.5, unit="USD"))
    assert await followed(Output.TEXT, cost, *past, of_job(events.Completed()), tail=3) is (
        Exit.SUCCESS
    )
    shown = capsys.readouterr().err
    assert "49 earlier events not shown" in shown
    assert "line 47;" not in shown
    assert "line 48;" in shown
    assert "line 49;" in shown
    assert await followed(Output.JSONL, cost, *past, of_job(events.Completed()), tail=3) is (
        Exit.SUCCESS
    )
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == [
        "job", "skipped", "event", "event", "event", "outcome",
    ]  # fmt: skip
    assert lines[1]["events"] == 49
    assert lines[-1]["events"] == 52, "the outcome counts all events"


@pytest.mark.parametrize("tail", [0, 1, 100])
async def test_a_short_history_is_shown_as_far_as_the_tail_reaches(
    capsys: pytest.CaptureFixture[str], tail: int
) -> None:
    log = of_job(events.Log(message="the only line"))
    assert await followed(Output.TEXT, log, of_job(events.Completed()), tail=tail) is Exit.SUCCESS
    shown = capsys.readouterr()
    assert ("the only line" in shown.err) is (tail >= 2)
    assert ("not shown" in shown.err) is (tail < 2)
    assert shown.out == "done\n"


async def test_a_gap_before_the_tail_is_a_gap_of_the_job() -> None:
    past = [of_job(events.Log(message="x")) for _ in range(10)]
    with pytest.raises(CommandError, match="events are missing") as holed:
        await followed(
            Output.TEXT, events.Gap(first=3, last=5), *past, of_job(events.Completed()), tail=2
        )
    assert holed.value.code is Exit.GAP


# --------------------------------------------------------------- questions that no event brings


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """A history counts as complete at once."""
    monkeypatch.setattr(tail_module, "_PAUSE", 0.0)


def asked(question_id: str = "q1", *, job_id: str = MadeUpJob.id) -> OpenQuestion:
    return OpenQuestion(question_id=question_id, job_id=job_id, text=f"{question_id}: go on?")


class Told(MadeUpStream):
    """A stream that goes on when a line was written, and that can have more at any time."""

    def __init__(self, *past: events.Event) -> None:
        super().__init__()
        self._queue: asyncio.Queue[events.Event] = asyncio.Queue()
        for event in past:
            self.put(event)

    def put(self, event: events.Event) -> None:
        self._queue.put_nowait(event)

    async def __anext__(self) -> events.Event:
        return await self._queue.get()


class Shown:
    """What a command has written on stderr so far."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.text = ""

    async def until(self, words: str) -> str:
        async with asyncio.timeout(30):
            while words not in self.text:
                await asyncio.sleep(0)
                read = self._capsys.readouterr()
                self.text += read.err + read.out
        return self.text


def following(client: Any, stream: MadeUpStream, output: Output = Output.TEXT) -> Any:
    one = Following(client, stream, Interrupts(), reporter(output), back="come back")
    job: Any = MadeUpJob()
    return one.follow(job, history=False)


@pytest.mark.usefixtures("soon")
async def test_a_question_that_is_open_at_the_beginning_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown, stream = Shown(capsys), Told()
    client = MadeUpClient([asked(), asked("q2", job_id="job_of_another")])
    task = asyncio.create_task(following(client, stream))
    await shown.until("answer it:  arcp-client answer job_1 q1 VALUE")
    stream.put(of_job(events.Answered(question_id="q1", value="yes", by="alice")))
    stream.put(of_job(events.Completed()))
    assert await task is Exit.SUCCESS
    assert "q2" not in await shown.until("done")


@pytest.mark.usefixtures("soon")
async def test_a_question_as_a_json_line_has_the_form_of_its_event_without_a_number(
    capsys: pytest.CaptureFixture[str],
) -> None:
    shown, stream = Shown(capsys), Told()
    task = asyncio.create_task(following(MadeUpClient([asked()]), stream, Output.JSONL))
    await shown.until("go on?")
    stream.put(of_job(events.Completed()))
    await task
    (line,) = [json.loads(line) for line in shown.text.splitlines() if "go on?" in line]
    assert line["type"] == "event"
    assert line["event"]["kind"] == "x-vendor.arcp-client.question"
    assert (line["event"]["seq"], line["event"]["redelivered"]) == (None, True)


@pytest.mark.usefixtures("soon")
@pytest.mark.parametrize("how", ["link", "gap"])
async def test_after_a_new_link_or_a_gap_the_questions_are_looked_up_again(
    capsys: pytest.CaptureFixture[str], how: str
) -> None:
    shown, stream = Shown(capsys), Told()
    client = MadeUpClient([asked("q1"), asked("q2")], [asked("q2"), asked("q3")])
    task = asyncio.create_task(following(client, stream))
    await shown.until("q2 VALUE")
    if how == "link":
        client.linked()
    else:
        stream.put(events.Gap(first=3, last=5))
    await shown.until("the question needs no answer any more (it is closed)")
    stream.put(of_job(events.Completed()))
    if how == "link":
        await task
    else:
        with pytest.raises(CommandError, match="events are missing"):
            await task
    await shown.until("q3 VALUE")
    assert [shown.text.count(f"q{n} VALUE") for n in (1, 2, 3)] == [1, 1, 1]


async def test_a_question_that_is_closed_while_the_open_ones_are_listed_is_not_told() -> None:
    asker = EventAsker(None)

    class Slow(MadeUpClient):
        async def questions(self) -> AsyncIterator[OpenQuestion]:
            yield asked("q1")
            asker.seen(of_job(events.Answered(question_id="q1")))
            asker.seen(of_job(events.Question(question_id="q2")))

    client: Any = Slow()
    assert await asker.unseen(client, lambda job_id: True) == []


async def test_only_who_may_answer_a_question_is_asked() -> None:
    asked_of: list[str] = []
    over = asyncio.Event()

    class MadeUpAsker:
        async def ask(self, question: events.Question) -> None:
            asked_of.append(question.question_id)
            if question.question_id == "q3":
                over.set()

    made_up: Any = MadeUpAsker()
    asker = EventAsker(made_up)
    asker.seen(of_job(events.Question(question_id="q1")), ask=False)
    for again in range(2):
        asker.seen(of_job(events.Question(question_id="q2", redelivered=bool(again))))
    asker.seen(of_job(events.Question(question_id="q3")))
    task = asyncio.create_task(asker.run())
    await over.wait()
    task.cancel()
    await asyncio.wait({task})
    assert asked_of == ["q2", "q3"]
