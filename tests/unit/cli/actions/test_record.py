"""What a session sees of jobs is in the file, with how they ended, whatever ends first."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from arcp_client import Client, JobContext, Runtime, events
from arcp_client.cli.actions import record as recording
from arcp_client.cli.actions.run import run
from arcp_client.cli.actions.transcript_file import begin, check, writing
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts
from arcp_client.cli.output_format import Output
from arcp_client.errors import FeatureNotNegotiated, JobFailed, JobNotFound
from arcp_client.testing import ReplayedRuntime, ScriptedRuntime
from arcp_client.transcripts import EventLine, JobLine, Line, OutcomeLine, read


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(auth={"sesame": "me"}) as runtime:

        @runtime.agent("count")
        async def count(input: Any, job: JobContext) -> Any:
            for n in range(input):
                await job.progress(n, total=input)
            return input

        @runtime.agent("fails")
        async def fails(input: Any, job: JobContext) -> Any:
            await job.log("the token is sesame")
            raise JobFailed("no", code="X")

        @runtime.agent("waits")
        async def waits(input: Any, job: JobContext) -> Any:
            await job.status("waiting")
            await job.cancelled.wait()

        yield runtime


@pytest.fixture
async def client(runtime: Runtime) -> AsyncIterator[Client]:
    async with Client(runtime, token="sesame") as client:
        yield client


def place(token: str | None = "sesame") -> Place:
    secret = SecretStr(token) if token is not None else None
    return Place("ws://x/", secret, Output.TEXT, connect_timeout=1.0, reconnect_for=1.0)


async def record(
    runtime: Runtime, path: Path, *jobs: str, everything: bool = False, interrupts: Any = None
) -> Exit:
    """As the command does, in a session of its own."""
    async with Client(runtime, token="sesame") as client:
        session = recording._Session(client, place(), path, force=False)
        return await session.record(jobs, interrupts or Interrupts(), everything=everything)


def lines_of(path: Path) -> list[Line]:
    with read(path) as reader:
        found = list(reader)
        assert reader.complete
        return found


def outcomes(path: Path) -> dict[str, str]:
    return {each.job_id: each.status for each in lines_of(path) if isinstance(each, OutcomeLine)}


async def test_a_job_that_is_over_is_recorded_from_its_beginning(
    runtime: Runtime, client: Client, tmp_path: Path
) -> None:
    job = await client.submit("count", 2000)
    await job.result()
    assert await record(runtime, tmp_path / "t", job.id) is Exit.SUCCESS
    first, *middle, last, _ = lines_of(tmp_path / "t")
    assert isinstance(first, JobLine)
    assert (first.job_id, first.agent) == (job.id, job.agent)
    found = [line.event for line in middle if isinstance(line, EventLine)]
    assert [event.current for event in found if isinstance(event, events.Progress)] == [
        *range(2000)
    ]
    assert isinstance(found[-1], events.Completed)
    assert isinstance(last, OutcomeLine)
    assert (last.status, last.error) == ("success", None)


async def test_jobs_are_recorded_until_the_last_one_has_ended(
    runtime: Runtime, client: Client, tmp_path: Path
) -> None:
    ids = [(await client.submit(agent, 3)).id for agent in ("count", "fails", "count")]
    with pytest.raises(CommandError, match="the job failed: X: no") as ended:
        await record(runtime, tmp_path / "t", *ids)
    assert ended.value.code is Exit.FAILED
    assert outcomes(tmp_path / "t") == dict(zip(ids, ["success", "error", "success"], strict=True))
    (failed,) = (
        line.error
        for line in lines_of(tmp_path / "t")
        if isinstance(line, OutcomeLine) and line.error
    )
    assert (failed["type"], failed["code"], failed["message"]) == ("JobFailed", "X", "no")
    assert "sesame" not in (tmp_path / "t").read_text()


async def test_of_an_interrupted_recording_the_jobs_go_on(
    runtime: Runtime, client: Client, tmp_path: Path
) -> None:
    job = await client.submit("waits")
    interrupts = Interrupts()
    path = tmp_path / "t"
    task = asyncio.get_running_loop().create_task(
        record(runtime, path, job.id, interrupts=interrupts)
    )
    while not path.exists() or b"waiting" not in path.read_bytes():
        await asyncio.sleep(0.01)
    interrupts._came()
    with pytest.raises(CommandError) as stopped:
        await task
    assert stopped.value.code is Exit.INTERRUPTED
    assert outcomes(path) == {job.id: "running"}
    assert job.status == "running"


async def test_all_jobs_are_those_that_run_and_those_that_begin(
    runtime: Runtime, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "LOOK_EVERY", 0.01)
    over = await client.submit("count", 1)
    await over.result()
    running = await client.submit("waits")
    interrupts = Interrupts()
    path = tmp_path / "t"
    task = asyncio.get_running_loop().create_task(
        record(runtime, path, everything=True, interrupts=interrupts)
    )
    while not path.exists() or b"waiting" not in path.read_bytes():
        await asyncio.sleep(0.01)
    later = await client.submit("count", 7)
    while b'"value":7' not in path.read_bytes():
        await asyncio.sleep(0.01)
    interrupts._came()
    assert await task is Exit.SUCCESS
    assert outcomes(path) == {later.id: "success", running.id: "running"}


async def test_without_jobs_all_of_them_is_an_empty_recording(
    runtime: Runtime, client: Client, tmp_path: Path
) -> None:
    interrupts = Interrupts()
    path = tmp_path / "t"
    task = asyncio.get_running_loop().create_task(
        record(runtime, path, everything=True, interrupts=interrupts)
    )
    while not path.exists():
        await asyncio.sleep(0.01)
    interrupts._came()
    assert await task is Exit.SUCCESS
    assert len(lines_of(path)) == 1


async def test_delegated_jobs_name_their_parent(
    runtime: Runtime, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "LOOK_EVERY", 0.01)

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> Any:
        await job.delegate("waits")
        await job.cancelled.wait()

    job = await client.submit("parent", lease={"agent.delegate": ["*"]})
    interrupts = Interrupts()
    path = tmp_path / "t"
    task = asyncio.get_running_loop().create_task(
        record(runtime, path, everything=True, interrupts=interrupts)
    )
    while not path.exists() or b"waiting" not in path.read_bytes():
        await asyncio.sleep(0.01)
    interrupts._came()
    await task
    begun = {
        each.job_id: each.parent_job_id for each in lines_of(path) if isinstance(each, JobLine)
    }
    assert begun == {job.id: None, job.children[0]: job.id}


async def test_all_jobs_of_a_runtime_that_lists_none_is_refused(tmp_path: Path) -> None:
    async with ScriptedRuntime(features=["subscribe"]) as scripted, Client(scripted) as client:
        session = recording._Session(client, place(), tmp_path / "t", force=False)
        with pytest.raises(FeatureNotNegotiated):
            await session.record([], Interrupts(), everything=True)


async def test_a_disk_that_fills_up_ends_the_recording(
    runtime: Runtime, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = await client.submit("count", 3)
    await job.result()

    def full(self: Any, *words: Any, **more: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(recording.Recording, "event", full)
    with pytest.raises(CommandError, match="cannot be written: No space left"):
        await record(runtime, tmp_path / "t", job.id)
    with read(tmp_path / "t") as reader:
        list(reader)
        assert not reader.complete


async def test_a_job_that_nobody_knows_leaves_no_file(runtime: Runtime, tmp_path: Path) -> None:
    with pytest.raises(JobNotFound):
        await record(runtime, tmp_path / "t", "job_unknown")
    assert list(tmp_path.iterdir()) == []


async def test_a_recording_can_be_played(runtime: Runtime, client: Client, tmp_path: Path) -> None:
    job = await client.submit("count", 5)
    await record(runtime, tmp_path / "t", job.id)
    async with ReplayedRuntime(tmp_path / "t", speed=None) as replayed, Client(replayed) as other:
        await replayed.played()
        view = await other.watch(replayed.jobs[job.id], history=True)
        assert (await view.result()).value == 5


def test_a_run_is_not_recorded_to_where_its_result_goes() -> None:
    with pytest.raises(CommandError, match="stdout is used for the result") as refused:
        run(
            place(), "a", "1", lease=[], max_runtime=None, key=None, save=None, detach=False,
            ephemeral=True, profile=None, record=Path("-"),
        )  # fmt: skip
    assert refused.value.code is Exit.USAGE


@pytest.mark.parametrize("force", [False, True])
def test_what_is_no_file_is_not_recorded_to(tmp_path: Path, force: bool) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe"):
        with pytest.raises(CommandError, match="is not a regular file"):
            check(path, force=force)


def test_what_is_to_be_recorded_has_to_be_said(tmp_path: Path) -> None:
    for jobs, everything in (([], False), (["j"], True)):
        with pytest.raises(CommandError, match="--all") as refused:
            recording.record(place(), jobs, tmp_path / "t", everything=everything, force=False)
        assert refused.value.code is Exit.USAGE


def test_a_file_that_is_there_is_refused_before_anything_is_done(tmp_path: Path) -> None:
    path = tmp_path / "t"
    path.write_text("mine")
    with pytest.raises(CommandError, match="already exists"):
        recording.record(place(), ["j"], path, everything=False, force=False)
    assert path.read_text() == "mine"
    check(path, force=True)
    check(Path("-"), force=False)
    with pytest.raises(CommandError, match="none does not exist"):
        check(tmp_path / "none" / "t", force=True)


def test_a_disk_that_is_full_is_said(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot be written: No such file") as refused:
        begin(tmp_path / "none" / "t", _session(), place())
    assert refused.value.code is Exit.USAGE
    with pytest.raises(BrokenPipeError), writing(tmp_path):
        raise BrokenPipeError(32, "Broken pipe")  # whoever read stdout has gone: no fault of ours


def _session() -> Any:
    from arcp_client import SessionInfo

    return SessionInfo("s")


def test_stdout_is_a_file_too(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    sys.stdout.flush()
    begin(Path("-"), _session(), place()).end()
    kinds = [line.split(b'"type":"')[1][:6] for line in capfdbinary.readouterr().out.splitlines()]
    assert kinds == [b"header", b'end","']
