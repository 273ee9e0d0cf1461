"""When a job began, how long it has run and how far it is: also for those who come later."""

from __future__ import annotations

import asyncio
import io
import json
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

import pytest
from rich.console import Console

from arcp_client import Client, JobContext, Result, Runtime, Verdict, events
from arcp_client.cli.actions.job_facts import JobFacts, entry_of, job_facts
from arcp_client.cli.actions.status import _say_status
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.output_format import Output
from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.live import LiveText
from arcp_client.cli.view.report import reporter
from arcp_client.cli.view.text_report import Lines
from arcp_client.errors import JobNotFound
from arcp_client.models import JobSummary, Lease, LeaseConstraints
from arcp_client.projection import JobProjection

BEGAN = datetime(2026, 5, 13, 10, 0, tzinfo=UTC)
JOB = "job_1"


def at(seconds: float) -> datetime:
    return BEGAN + timedelta(seconds=seconds)


@pytest.fixture
def runtime() -> Runtime:
    runtime = Runtime()
    runtime.reached = asyncio.Event()  # type: ignore[attr-defined]

    @runtime.agent("works")
    async def works(input: Any, job: JobContext) -> str:
        await job.status("reading", "the files")
        await job.progress(7, total=9, units="files")
        runtime.reached.set()  # type: ignore[attr-defined]
        await job.cancelled.wait()
        return "stopped"

    @runtime.agent("fails")
    async def fails(input: Any, job: JobContext) -> set[int]:
        return {1}

    @runtime.agent("talks")
    async def talks(input: Any, job: JobContext) -> str:
        for n in range(3000):
            await job.progress(n + 1, total=3000)
        return "done"

    return runtime


FEATURES = {
    "all": None,
    "no listing": {"subscribe", "heartbeat", "progress", "ack"},
    "no heartbeat": {"subscribe", "list_jobs", "progress", "ack"},
    "neither": {"subscribe", "progress", "ack"},
}


@pytest.mark.parametrize("features", FEATURES.values(), ids=FEATURES.keys())
async def test_a_running_job_is_seen_with_its_progress_and_its_beginning(
    runtime: Runtime, features: Any
) -> None:
    async with runtime, Client(runtime) as owner, Client(runtime, features=features) as other:
        job = await owner.submit("works")
        await runtime.reached.wait()  # type: ignore[attr-defined]
        found = await job_facts(other, job.id)
        assert found.seen.phase == "reading"
        (bar,) = found.seen.progress
        assert (bar.current, bar.total, bar.units) == (7, 9, "files")
        assert not found.seen.ended
        assert (found.entry is None) == (features is not None and "list_jobs" not in features)
        assert found.seen.began_at is not None
        if found.entry is not None:
            assert found.entry.created_at is not None
            assert found.entry.created_at <= found.seen.began_at
        await job.cancel()


async def test_a_job_that_has_ended_is_seen_with_all_its_history(runtime: Runtime) -> None:
    async with runtime, Client(runtime) as owner, Client(runtime) as other:
        talks, fails = await owner.submit("talks"), await owner.submit("fails")
        await talks.result()
        found = await job_facts(other, talks.id)
        assert (found.seen.status, found.seen.progress[0].current) == ("success", 3000)
        failed = await job_facts(other, fails.id)
        assert failed.seen.error is not None
        assert failed.seen.error.code == "INTERNAL_ERROR"


async def test_a_job_that_is_not_there_has_no_standing(runtime: Runtime) -> None:
    async with runtime, Client(runtime) as client:
        assert await entry_of(client, "job_0") is None
        with pytest.raises(JobNotFound):
            await job_facts(client, "job_0")


# ------------------------------------------------------------------------- how long


def tree(*, since: float | None, first: float | None, last: float, ended: bool) -> JobTree:
    found = JobTree(JobProjection(JOB, agent="a"), since=None if since is None else at(since))
    if first is not None:
        found.apply(events.Log(job_id=JOB, message="m", ts=at(first)))
        found.apply(events.Log(job_id=JOB, message="m", ts=at(last)))
    if ended:
        found.apply(events.Completed(job_id=JOB, ts=at(last)))
    return found


@pytest.mark.parametrize(
    ("since", "first", "ended", "watched", "elapsed"),
    [
        pytest.param(0, 5, False, 13, 60, id="watched late, the runtime says when it began"),
        pytest.param(None, 5, False, 13, 55, id="watched late, with its history"),
        pytest.param(None, None, False, 13, 13, id="nothing is known but what was watched"),
        pytest.param(None, 50, False, 30, 30, id="silent at first, watched from its beginning"),
        pytest.param(0, 5, True, 13, 44, id="ended, the runtime says when it began"),
        pytest.param(None, 5, True, 13, 39, id="ended, with its history"),
        pytest.param(90, 5, False, 13, 0, id="a clock that runs backwards"),
    ],
)
def test_how_long_a_job_has_run(
    since: float | None, first: float | None, ended: bool, watched: float, elapsed: float
) -> None:
    found = tree(since=since, first=first, last=44, ended=ended)
    assert found.elapsed(at(60), watched) == elapsed


def test_a_time_without_a_zone_is_that_of_the_runtime() -> None:
    found = JobTree(JobProjection(JOB), since=BEGAN.replace(tzinfo=None))
    assert found.elapsed(at(60)) == 60


# ------------------------------------------------------------------------- what is shown


@pytest.mark.parametrize("kind", [Lines, LiveText])
@pytest.mark.parametrize("success", [True, False])
def test_watch_shows_when_the_job_began_and_how_long_it_ran(
    kind: Any, success: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    written = io.StringIO()
    live = kind is LiveText
    report = kind(Console(file=written, force_terminal=live, width=80, height=24, _environ={}))
    watched = JobTree(JobProjection(JOB, agent="a"), since=at(0))
    report.began(watched)
    report.event(events.Log(job_id=JOB, message="m", ts=at(40)))
    if success:
        report.event(events.Completed(job_id=JOB, ts=at(44)))
        report.succeeded(Result(value=1), None)
    else:
        report.event(events.Failed(job_id=JOB, ts=at(44), code="X"))
        report.failed(CommandError(Exit.FAILED, "x"), None)
    assert " · began 2026-05-13 " in written.getvalue()
    assert written.getvalue().count("2 events in 44 s") == 1


def test_a_watch_that_is_left_says_nothing_of_a_duration() -> None:
    written = io.StringIO()
    report = Lines(Console(file=written, width=80))
    report.began(JobTree(JobProjection(JOB, agent="a"), since=at(0)))
    report.failed(CommandError(Exit.INTERRUPTED, "watched no longer"), None)
    assert "events in" not in written.getvalue()


def test_json_has_the_times(capsys: pytest.CaptureFixture[str]) -> None:
    report = reporter(Output.JSONL)
    report.began(JobTree(JobProjection(JOB, agent="a"), since=at(0)))
    report.event(events.Completed(job_id=JOB, ts=at(44)))
    report.succeeded(Result(value=1), None)
    first, _, last = map(json.loads, capsys.readouterr().out.splitlines())
    assert first["created_at"] == last["created_at"] == at(0).isoformat()
    assert last["ended_at"] == at(44).isoformat()


@pytest.mark.parametrize("ended", [True, False])
def test_status_shows_times_and_progress(ended: bool, capsys: pytest.CaptureFixture[str]) -> None:
    class View:
        id, agent, status, trace_id = JOB, "a@1", "running", None
        lease, lease_constraints = Lease(), LeaseConstraints()
        budget: ClassVar[dict[str, Any]] = {}

    seen = JobProjection(JOB)
    seen.apply(events.Status(job_id=JOB, ts=at(1), phase="reading", message="the files"))
    seen.apply(events.Progress(job_id=JOB, ts=at(40), current=600, total=1000, units="files"))
    if ended:
        seen.apply(events.Failed(job_id=JOB, ts=at(44), code="X", message="why"))
    entry = JobSummary(job_id=JOB, created_at=at(0))
    verdict = Verdict("waiting_for_tool", "waiting for make", datetime.now(UTC))
    found = JobFacts(View(), seen, verdict, entry)  # type: ignore[arg-type]
    place = Place("ws://x/", None, Output.TEXT, 1.0, 1.0)
    _say_status(place, found)
    place.output = Output.JSON
    _say_status(place, found)
    *lines, document = capsys.readouterr().out.splitlines()
    rows = {line[:10].strip(): line[11:] for line in lines}
    facts = json.loads(document)
    assert rows.get("verdict") == (None if ended else "waiting for make for 0 s")
    assert facts["verdict"]["kind"] == "waiting_for_tool"
    assert rows["phase"] == "reading: the files"
    assert rows["progress"] == "600/1,000 files (60%)"
    assert (facts["progress"][0]["share"], facts["created_at"]) == (0.6, at(0).isoformat())
    if ended:
        assert (rows["duration"], facts["seconds"]) == ("44 s", 44)
        assert (rows["status"], rows["error"]) == ("error", "X: why")
        assert facts["ended_at"] == at(44).isoformat()
    else:
        assert rows["duration"].endswith(" so far")
        assert (rows["status"], facts["ended_at"]) == ("running", None)
        assert "ended" not in rows
