"""A runtime that is restarted: what its clients find again (§6.3)."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arcp_client.errors import StoreLocked
from arcp_client.runtime import JobContext, Limits, Runtime, SqliteEventLog
from arcp_client.runtime._log import journal
from arcp_client.runtime._log.entries import Entry
from arcp_client.transports import WebSocketConnector
from tests.unit.runtime.peer import Peer, seqs
from tests.unit.runtime.sessions.test_resume import started

pytestmark = pytest.mark.usefixtures("forked")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runtime.db"


async def connected(runtime: Runtime, **hello: Any) -> Peer:
    peer = await Peer.to(runtime)
    await peer.hello(**hello)
    return peer


async def resumed(runtime: Runtime, peer: Peer, last: int) -> Peer:
    fresh = await Peer.to(runtime)
    reply = await fresh.hello(resume=peer.block(last))
    assert reply["type"] == "session.welcome", reply
    return fresh


def quick(runtime: Runtime) -> list[Any]:
    runs: list[Any] = []

    @runtime.agent("quick")
    async def run(input: Any, job: JobContext) -> Any:
        runs.append(input)
        await job.log("one")
        await job.metric("cost.x", 0.25, "USD")
        return {"input": input}

    return runs


async def test_a_session_goes_on_after_a_restart(path: Path) -> None:
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        quick(runtime)
        peer = await connected(runtime)
        job_id, frames = await peer.run("quick", 7, lease_request={"cost.budget": ["USD:1"]})
        assert seqs(frames) == [1, 2, 3, 4]
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        quick(runtime)
        fresh = await resumed(runtime, peer, 1)
        assert [await fresh.read() for _ in range(3)] == frames[1:]
        _, more = await fresh.run("quick")  # the numbers go on
        assert seqs(more) == [5, 6, 7]
        (first, second) = (await fresh.ask("session.list_jobs"))["payload"]["jobs"]
        assert (first["job_id"], first["status"], first["last_event_seq"]) == (job_id, "success", 4)
        assert second["last_event_seq"] == 7
        observer = await connected(runtime)
        request = {"job_id": job_id, "history": True}
        answer = await observer.ask("job.subscribe", request)
        assert answer["payload"]["budget"] == {"USD": 0.75}
        seen = await observer.follow(job_id)
        assert [(f["id"], f["payload"]) for f in seen] == [(f["id"], f["payload"]) for f in frames]


async def test_a_job_that_ran_ends_with_a_retryable_error_that_the_session_finds(
    path: Path,
) -> None:
    log = SqliteEventLog(path)
    runtime = Runtime(event_log=log)
    owner, observer = await connected(runtime), await connected(runtime)
    stepper, job_id = await started(runtime, owner)
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    await stepper.emit(3)
    first = [await owner.read() for _ in range(3)]
    assert seqs([await observer.read() for _ in range(2)]) == [1, 2]
    await asyncio.to_thread(crash_copy, path)
    async with Runtime(event_log=SqliteEventLog(path.with_suffix(".copy"))) as again:
        back = await resumed(again, owner, 2)
        frames = await back.follow(job_id)
        assert frames[0] == first[2]
        assert seqs(frames) == [3, 4]
        assert frames[-1]["payload"]["code"] == "INTERNAL_ERROR"
        assert frames[-1]["payload"]["retryable"] is True
        watching = await resumed(again, observer, 2)
        seen = await watching.follow(job_id)
        assert seqs(seen) == [3, 4]
        assert [f["id"] for f in seen] == [f["id"] for f in frames]
    stepper.end.set()
    await runtime.close()


async def test_history_that_was_requested_later_repeats_no_events_after_a_restart(
    path: Path,
) -> None:
    runtime = Runtime(event_log=SqliteEventLog(path))
    owner, observer = await connected(runtime), await connected(runtime)
    stepper, job_id = await started(runtime, owner)
    await stepper.emit(3)
    await observer.ask("job.subscribe", {"job_id": job_id, "history": False})
    await stepper.emit(2)
    live = [await observer.read() for _ in range(2)]
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    earlier = [await observer.read() for _ in range(3)]
    assert seqs([*live, *earlier]) == [1, 2, 3, 4, 5]
    await asyncio.to_thread(crash_copy, path)
    async with Runtime(event_log=SqliteEventLog(path.with_suffix(".copy"))) as again:
        watching = await resumed(again, observer, observer.last)
        assert len(await watching.follow(job_id)) == 1  # the terminal
    stepper.end.set()
    await runtime.close()


async def test_history_that_was_cut_off_by_a_restart_goes_on_after_it(path: Path) -> None:
    runtime = Runtime(event_log=SqliteEventLog(path))
    owner, observer = await connected(runtime), await connected(runtime)
    stepper, job_id = await started(runtime, owner)
    for _ in range(30):
        await stepper.emit(100)
        for _ in range(100):
            await owner.read()
    await observer.ask("job.subscribe", {"job_id": job_id, "history": False})
    await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
    await asyncio.to_thread(crash_copy, path)
    async with Runtime(event_log=SqliteEventLog(path.with_suffix(".copy"))) as again:
        watching = await resumed(again, observer, 0)
        frames = await watching.follow(job_id)
        assert len({frame["id"] for frame in frames}) == len(frames)
        assert len([frame for frame in frames if frame["payload"].get("kind") == "log"]) == 3000
    stepper.end.set()
    await runtime.close()


def crash_copy(path: Path) -> None:
    """The file as a killed process would leave it: what was written, nothing flushed at an end."""
    for suffix in ("", "-wal"):
        source = Path(f"{path}{suffix}")
        if source.exists():
            Path(f"{path.with_suffix('.copy')}{suffix}").write_bytes(source.read_bytes())


async def test_a_key_stands_for_its_job_across_a_restart(path: Path) -> None:
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        quick(runtime)
        peer = await connected(runtime)
        accepted = await peer.submit("quick", 1, idempotency_key="k")
        await peer.follow(accepted["payload"]["job_id"])
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        runs = quick(runtime)
        later = await connected(runtime)
        again = await later.submit("quick", 1, idempotency_key="k")
        for payload in (accepted["payload"], again["payload"]):
            del payload["request_id"]
        assert again["payload"] == accepted["payload"]
        conflict = {"agent": "quick", "input": 2, "idempotency_key": "k"}
        assert (await later.ask("job.submit", conflict))["payload"]["code"] == "DUPLICATE_KEY"
        assert runs == []


async def test_acknowledged_events_stay_freed(path: Path) -> None:
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        quick(runtime)
        peer = await connected(runtime)
        await peer.run("quick")
        await peer.send("session.ack", {"last_processed_seq": 2})
        await peer.ask("session.list_jobs")
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        refused = await (await Peer.to(runtime)).hello(resume=peer.block(1))
        assert refused["payload"]["code"] == "RESUME_WINDOW_EXPIRED"
        await resumed(runtime, peer, 2)


async def test_a_session_is_resumed_after_its_job_was_forgotten(path: Path) -> None:
    limits = Limits(retained_jobs=1)
    async with Runtime(event_log=SqliteEventLog(path), limits=limits) as runtime:
        quick(runtime)
        peer = await connected(runtime)
        jobs = [await peer.run("quick", n) for n in range(3)]
    async with Runtime(event_log=SqliteEventLog(path), limits=limits) as runtime:
        fresh = await resumed(runtime, peer, 0)
        frames = [await fresh.read() for _ in range(9)]
        assert frames == [frame for _, of_job in jobs for frame in of_job]
        listed = (await fresh.ask("session.list_jobs"))["payload"]["jobs"]
        assert [job["job_id"] for job in listed] == [jobs[-1][0]]


async def test_old_tokens_stay_dead_and_new_ones_alive(path: Path) -> None:
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        first = await connected(runtime)
        second = await resumed(runtime, first, 0)
        await second.ask("session.list_jobs")
    written = b"".join(file.read_bytes() for file in path.parent.iterdir())
    assert second.token.encode() not in written
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:
        refused = await (await Peer.to(runtime)).hello(resume=first.block(0))
        assert refused["payload"]["code"] == "PERMISSION_DENIED"
        await resumed(runtime, second, 0)


class Failing(SqliteEventLog):
    """A log whose writes fail when told to, and that says when one did."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.fail = 0
        self.failed = asyncio.Event()

    async def write(self, entries: Sequence[Entry]) -> None:
        if self.fail:
            self.fail -= 1
            self.failed.set()
            raise OSError("disk full")
        await super().write(entries)


class Held(SqliteEventLog):
    """A log whose writes wait for a gate."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.gate = asyncio.Event()
        self.gate.set()
        self.waiting = asyncio.Event()

    async def write(self, entries: Sequence[Entry]) -> None:
        self.waiting.set()
        await self.gate.wait()
        await super().write(entries)


@pytest.mark.parametrize("history", [False, True])
async def test_a_subscription_is_confirmed_once_it_is_stored_and_before_its_events(
    path: Path, history: bool
) -> None:
    """A restart continues only stored subscriptions."""
    log = Held(path)
    async with Runtime(event_log=log) as runtime:
        owner, observer = await connected(runtime), await connected(runtime)
        stepper, job_id = await started(runtime, owner)
        await stepper.emit(3)
        for _ in range(3):
            await owner.read()
        log.waiting.clear()
        log.gate.clear()
        await observer.send("job.subscribe", {"job_id": job_id, "history": history})
        await log.waiting.wait()
        await observer.send("session.ping", {"nonce": "n"})
        assert (await observer.read())["type"] == "session.pong"  # and no confirmation before it
        log.gate.set()
        assert (await observer.read())["type"] == "job.subscribed"
        if history:
            assert seqs([await observer.read() for _ in range(3)]) == [1, 2, 3]
        stepper.end.set()


async def test_an_event_that_cannot_be_stored_is_not_sent_until_it_is(
    path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = Failing(path)
    async with Runtime(event_log=log) as runtime:
        peer = await connected(runtime)
        stepper, job_id = await started(runtime, peer)
        log.fail = 1_000_000
        await stepper.emit(3)
        await log.failed.wait()
        await peer.send("session.ping", {"nonce": "n"})
        assert (await peer.read())["type"] == "session.pong"  # and no event before it
        log.fail = 0
        stepper.end.set()
        assert seqs(await peer.follow(job_id)) == [1, 2, 3, 4]
        fresh = await resumed(runtime, peer, 0)
        assert seqs(await fresh.follow(job_id)) == [1, 2, 3, 4]
    assert "the event log failed" in caplog.text


async def test_an_agent_that_delegates_waits_for_a_log_that_fails(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that emits does; only requests of clients are refused."""
    monkeypatch.setattr(journal, "_PATIENCE", 0.0)
    log = Failing(path)
    async with Runtime(event_log=log) as runtime:

        @runtime.agent("child")
        async def child(input: Any, job: JobContext) -> str:
            return "done"

        @runtime.agent("parent")
        async def parent(input: Any, job: JobContext) -> Any:
            log.fail = 1_000_000
            await job.log("the disk is full")
            await log.failed.wait()
            delegating = asyncio.ensure_future(job.delegate("child"))
            refused = await other.ask("job.submit", {"agent": "child"})
            log.fail = 0
            assert refused["payload"]["retryable"]
            assert not delegating.done()
            return await (await delegating).result()

        peer, other = await connected(runtime), await connected(runtime)
        _, frames = await peer.run("parent", lease_request={"agent.delegate": ["**"]})
        assert frames[-1]["payload"]["result"] == "done", frames[-1]


async def test_one_runtime_at_a_time(path: Path) -> None:
    async with Runtime(event_log=SqliteEventLog(path)):
        with pytest.raises(StoreLocked):
            async with Runtime(event_log=SqliteEventLog(path)):
                pass
    async with Runtime(event_log=SqliteEventLog(path)):
        pass


async def test_the_file_is_for_its_owner_and_must_be_an_event_log(path: Path) -> None:
    async with Runtime(event_log=SqliteEventLog(path)):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(ValueError, match="newer"):
        async with Runtime(event_log=SqliteEventLog(path)):
            pass
    path.write_bytes(b"no database at all" * 100)
    with pytest.raises(ValueError, match="no event log"):
        async with Runtime(event_log=SqliteEventLog(path)):
            pass


async def test_the_order_law_holds_with_a_durable_log(path: Path) -> None:
    async with Runtime(event_log=SqliteEventLog(path)) as runtime:

        @runtime.agent("busy")
        async def busy(input: Any, job: JobContext) -> None:
            for n in range(1000):
                await job.progress(n)

        owner, observer = await connected(runtime), await connected(runtime)
        jobs = [(await owner.submit("busy"))["payload"]["job_id"] for _ in range(4)]
        for job_id in jobs:
            await observer.ask("job.subscribe", {"job_id": job_id, "history": True})
        numbers: dict[Peer, list[int]] = {owner: [], observer: []}
        for peer, got in numbers.items():
            ends = 0
            while ends < 4:
                frame = await peer.read()
                got += seqs([frame])
                ends += frame["type"] == "job.result"
            told = 1  # that the owner acknowledged nothing: one status among the jobs' events
            assert got == list(range(1, 4005 + told))


KILLED = """
import asyncio, sys
from arcp_client.runtime import Runtime, SqliteEventLog

runtime = Runtime(event_log=SqliteEventLog(sys.argv[1]))

@runtime.agent("endless")
async def endless(input, job):
    n = 0
    while True:
        await job.progress(n)
        n += 1
        await asyncio.sleep(0.001)

async def main():
    async with runtime.serve() as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_kill_minus_nine_loses_nothing_that_was_sent(path: Path, tmp_path: Path) -> None:
    script = tmp_path / "runtime.py"
    script.write_text(KILLED)
    environment = os.environ | {"PYTHONPATH": str(Path.cwd())}

    async def start() -> tuple[asyncio.subprocess.Process, str]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, str(script), str(path), stdout=asyncio.subprocess.PIPE, env=environment
        )
        assert process.stdout is not None
        return process, (await process.stdout.readline()).decode().strip()

    process, url = await start()
    peer = await Peer.to(WebSocketConnector(url))
    await peer.hello()
    job_id = (await peer.submit("endless"))["payload"]["job_id"]
    seen = [await peer.read() for _ in range(200)]
    process.kill()
    await process.wait()
    seen += [frame for frame in await peer.ended() if "event_seq" in frame]
    await peer.close()
    process, url = await start()
    fresh = await Peer.to(WebSocketConnector(url))
    reply = await fresh.hello(resume=peer.block(100))
    assert reply["type"] == "session.welcome"
    frames = await fresh.follow(job_id)
    assert frames[: len(seen) - 100] == seen[100:]
    assert seqs(frames) == list(range(101, 101 + len(frames)))
    assert frames[-1]["payload"]["code"] == "INTERNAL_ERROR"
    await fresh.close()
    process.kill()
    await process.wait()
