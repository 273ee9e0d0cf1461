"""What a client with a store goes on with: after a detach, a crash, an expired session (S10)."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from arcp_client import (
    Buffer,
    Client,
    Job,
    JobContext,
    MemoryStore,
    Order,
    Runtime,
    SqliteStore,
    events,
)
from arcp_client.errors import ConnectFailed, HandlerFailed, StoreLocked
from arcp_client.models import Checkpoint
from arcp_client.state import Closed, Live
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Later, Raw
from tests.unit.client.conftest import Gates

Open = Callable[..., Client]


class Crashed(Exception):
    """Stands for the death of a process: nothing is written after it."""


class Dying(MemoryStore):
    """A durable store whose client can be cut off: from then on nothing reaches it."""

    durable = True

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.dead = False
        self.saves: list[Checkpoint] = []
        self._saved = asyncio.Condition()

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        if self.dead:
            raise Crashed
        await asyncio.sleep(0)
        if self.dead:
            raise Crashed
        self.saves.append(checkpoint)
        await super().save(target, key, checkpoint)
        async with self._saved:
            self._saved.notify_all()

    async def until_processed(self, seq: int) -> None:
        """Wait for a checkpoint in which all events up to this number are processed."""
        async with self._saved:
            await self._saved.wait_for(lambda: self.saves and self.saves[-1].mark >= seq)

    async def delete(self, target: str, key: str) -> None:
        if not self.dead:
            await super().delete(target, key)

    async def crash(self, client: Client) -> None:
        """As far as the store can tell, the client's process is killed now."""
        self.dead = True
        await client.detach(timeout=0.01)
        self.dead = False


async def test_a_detached_session_is_gone_on_with_by_the_next_client(
    runtime: Runtime, gates: Gates, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "kept.db")
    first = Client(runtime, store=store)
    seen: list[tuple[str, bool]] = []
    await first.connect()
    assert not first.resumed
    job = await first.submit("gated", "go", idempotency_key="one")
    log = await anext(aiter(job))
    assert log.kind == "log"
    await first.detach()
    gates["go"].set()

    second = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))

    @second.on(events.Event)
    async def handle(event: events.Event) -> None:
        seen.append((event.kind, event.redelivered))

    async with second:
        assert second.resumed
        (again,) = second.open_jobs()
        assert (again.id, again.agent) == (job.id, "gated")
        assert await second.submit("gated", "go", idempotency_key="one") is again
        assert (await again.result()).value == "go"
        assert second.open_jobs() == []
    assert seen == [("log", False), ("result", False)]  # the one that says "after"
    assert [path.name for path in tmp_path.iterdir()] == ["kept.db"]

    third = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
    async with third:  # close() deleted the checkpoint
        assert not third.resumed
        assert third.open_jobs() == []


async def test_a_second_client_of_the_same_key_gets_store_locked(
    runtime: Runtime, tmp_path: Path
) -> None:
    async with Client(runtime, store=SqliteStore(tmp_path / "kept.db")):
        second = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
        with pytest.raises(StoreLocked):
            await second.connect()
        assert isinstance(second.state, Closed)
        await second.close()
        async with Client(runtime, store=SqliteStore(tmp_path / "kept.db"), key="other"):
            pass
    async with Client(runtime, store=SqliteStore(tmp_path / "kept.db")):
        pass


async def test_the_lock_is_let_go_of_when_connect_fails_or_is_cancelled(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "kept.db")
    with pytest.raises(ConnectFailed):
        await Client("http://nowhere", store=store).connect()
    async with Runtime(auth={"right": "alice"}) as runtime:
        with pytest.raises(Exception, match="refused"):
            await Client(runtime, token="wrong", store=store).connect()
    assert not list(tmp_path.glob("*.lock"))


async def test_a_job_that_ended_before_the_restart_is_one_of_an_earlier_process(
    runtime: Runtime, tmp_path: Path
) -> None:
    async def submitted(client: Client) -> Job:
        await client.connect()
        return await client.submit("say", ["a"], idempotency_key="one")

    first = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
    job = await submitted(first)
    await job.result()
    assert not job.resumed
    await first.detach()
    second = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
    again = await submitted(second)
    assert (again.id, again.resumed) == (job.id, True)
    await second.close()


@pytest.mark.parametrize("raised", [False, True])
@pytest.mark.parametrize("durable", [False, True])
async def test_leaving_the_block_by_an_exception_keeps_what_is_durable(
    runtime: Runtime, tmp_path: Path, raised: bool, durable: bool
) -> None:
    store = SqliteStore(tmp_path / "kept.db") if durable else MemoryStore()
    try:
        async with Client(runtime, store=store) as client:
            await client.submit("stuck")
            if raised:
                raise KeyError
    except KeyError:
        pass
    async with Client(runtime, store=store) as second:
        assert second.resumed is (raised and durable)
        assert len(second.open_jobs()) == (raised and durable)


@pytest.mark.parametrize("every", [1, 4, 64])
async def test_after_a_crash_repeats_are_few_and_marked_and_no_first_one_is_lost(
    runtime: Runtime, every: int
) -> None:
    lines = [str(n) for n in range(200)]
    store = Dying(every=every, interval=0.002)
    seen: list[list[tuple[int, bool]]] = []
    client = None
    for life in range(30):
        client = Client(runtime, store=store)
        handled: list[tuple[int, bool]] = []
        enough = asyncio.Event()
        seen.append(handled)

        @client.on(events.Log)
        async def handle(
            event: events.Log,
            handled: list[tuple[int, bool]] = handled,
            enough: asyncio.Event = enough,
            wanted: int = every + 3 + 5 * life % 17,
        ) -> None:
            handled.append((int(event.message), event.redelivered))
            if len(handled) >= wanted or event.message == lines[-1]:
                enough.set()
                await asyncio.sleep(0.001)

        await client.connect()
        if not client.open_jobs() and not life:
            await client.submit("say", lines)
        await enough.wait()
        if handled[-1][0] == len(lines) - 1:
            await client.close()
            break
        await store.crash(client)
    assert len(seen) > 2
    done: set[int] = set()
    for handled in seen:
        numbers = [n for n, _ in handled]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert numbers[0] <= len(done), "an event was lost"
        repeats = [n for n in numbers if n in done]
        assert len(repeats) <= every
        marked = {n for n, again in handled if again}
        assert set(repeats) <= marked, "a repeat was not marked"
        assert len(marked - done) <= every, "first ones were marked"
        done |= set(numbers)
    assert done == set(range(len(lines)))


async def test_events_that_arrived_before_an_iterator_was_made_count_as_processed(
    runtime: Runtime, gates: Gates
) -> None:
    @runtime.agent("three")
    async def three(input: Any, job: JobContext) -> None:
        for n in (1, 2):
            await job.progress(n)
        await gates["third"].wait()
        await job.progress(3)
        await gates["fourth"].wait()
        await job.progress(4)

    async def redelivered(
        make: Callable[[Client], AsyncIterator[events.Progress]] | None,
        *,
        work_on: int,
        processed: int,
    ) -> list[int]:
        """The events that a second client's handler gets after a crash.

        The first client is killed in the body of a loop, for one event, when so many events count
        as processed.
        """
        for name in ("third", "fourth"):
            gates[name].clear()
        store = Dying(every=1)
        client = Client(runtime, store=store)
        iterator = None if make is None else make(client)
        arrived = {n: asyncio.Event() for n in (2, 3)}
        client.notifications.subscribe(
            lambda event: (
                arrived[int(event.current)].set()
                if isinstance(event, events.Progress) and event.current in arrived
                else None
            )
        )
        await client.connect()
        job = await client.submit("three")
        await arrived[2].wait()
        if iterator is None:
            iterator = job.events(events.Progress)
        gates["third"].set()
        await arrived[3].wait()
        async for event in iterator:
            if event.current == work_on:
                assert event.seq is not None
                await store.until_processed(event.seq - work_on + processed)
                await store.crash(client)
                break
        second = Client(runtime, store=store)
        again: list[int] = []

        @second.on(events.Progress)
        async def handle(event: events.Progress) -> None:
            again.append(int(event.current))

        async with second:
            gates["fourth"].set()
            await second.open_jobs()[0].result()
        return again

    def of_the_session(client: Client) -> AsyncIterator[events.Progress]:
        return client.events(events.Progress)

    # 1 and 2 had arrived before the iterator of the job was made
    assert await redelivered(None, work_on=1, processed=2) == [3, 4]
    assert await redelivered(None, work_on=3, processed=2) == [3, 4]
    assert await redelivered(of_the_session, work_on=1, processed=0) == [1, 2, 3, 4]
    assert await redelivered(of_the_session, work_on=2, processed=1) == [2, 3, 4]


async def test_events_that_a_resumed_client_receives_before_an_iterator_is_made_are_processed(
    runtime: Runtime, gates: Gates
) -> None:
    store = Dying(every=1)
    first = Client(runtime, store=store)
    reached = asyncio.Event()

    @first.on(events.Log)
    async def handle(event: events.Log) -> None:
        reached.set()
        await asyncio.Event().wait()

    await first.connect()
    await first.submit("gated", "go")
    await reached.wait()
    await store.crash(first)

    second = Client(runtime, store=store)
    iterator = second.events(events.Log)  # made before connect()
    await second.connect()
    assert (await anext(iterator)).message == "before"
    await store.crash(second)

    third = Client(runtime, store=store)
    arrived = asyncio.Event()
    third.notifications.subscribe(lambda event: arrived.set())
    await third.connect()
    await arrived.wait()
    event = await anext(third.open_jobs()[0].events(events.Log))
    assert (event.message, event.redelivered) == ("before", True)
    assert event.seq is not None
    await store.until_processed(event.seq)
    await store.crash(third)

    gates["go"].set()
    async with Client(runtime, store=store) as fourth:
        messages = [event.message async for event in fourth.open_jobs()[0].events(events.Log)]
    assert messages == ["after"]


async def test_a_slow_handler_does_not_hold_back_a_fast_one(runtime: Runtime) -> None:
    client = Client(runtime, store=Dying(every=2))
    blocked = asyncio.Event()
    fast: list[str] = []
    all_there = asyncio.Event()

    @client.on(events.Log)
    async def audit(event: events.Log) -> None:
        await blocked.wait()

    @client.on(events.Log)
    async def show(event: events.Log) -> None:
        fast.append(event.message)
        if len(fast) == 100:
            all_there.set()

    async with client:
        await client.submit("say", [str(n) for n in range(100)])
        await all_there.wait()
        blocked.set()
    assert fast == [str(n) for n in range(100)]


async def test_a_handler_may_wait_for_what_only_later_events_bring(runtime: Runtime) -> None:
    client = Client(runtime, store=Dying(every=1))
    results: list[Any] = []

    @client.on(events.Status, barrier=False)
    async def handle(event: events.Status) -> None:
        job = await client.submit("say", [str(n) for n in range(20)])
        results.append((await job.result()).value)

    async with client:
        job = await client.submit("stuck")
        while not results:
            await asyncio.sleep(0.001)
        await job.cancel()
    assert results == [20]


@pytest.mark.parametrize("every", [1, 3, 64])
@pytest.mark.parametrize("handled", [False, True])
async def test_small_buffers_and_reservations_do_not_wait_for_each_other(
    runtime: Runtime, every: int, handled: bool
) -> None:
    buffer = Buffer(soft=4, hard=8, spill=0)
    async with runtime.serve() as server:
        client = Client(server.url, store=Dying(every=every), buffer=buffer)
        seen: list[str] = []
        if handled:

            @client.on(events.Log)
            async def handle(event: events.Log) -> None:
                await asyncio.sleep(0)
                seen.append(event.message)

        async with client:
            lines = [str(n) for n in range(500)]
            job = await client.submit("say", lines)
            assert (await job.result()).value == 500
        assert seen == (lines if handled else [])


async def test_what_several_lanes_did_beyond_the_slowest_is_not_done_again(
    runtime: Runtime,
) -> None:
    store = Dying(every=64, interval=0.001)
    client = Client(runtime, store=store, order=Order.JOB)
    seen: list[tuple[str | None, str]] = []
    never = asyncio.Event()
    done = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        if event.message == "before":
            await never.wait()
        seen.append((event.job_id, event.message))
        if len(seen) == 10:
            done.set()

    await client.connect()
    slow = await client.submit("gated", "go")
    quick = await client.submit("say", [str(n) for n in range(10)])
    await done.wait()
    while sum(last - first + 1 for first, last in store.saves[-1].processed) < 10:
        await asyncio.sleep(0.001)
    await store.crash(client)

    second = Client(runtime, store=store)
    again: list[tuple[str | None, str, bool]] = []
    came = asyncio.Event()

    @second.on(events.Log)
    async def once_more(event: events.Log) -> None:
        again.append((event.job_id, event.message, event.redelivered))
        came.set()

    async with second:
        await came.wait()
    assert again == [(slow.id, "before", True)]
    assert quick.id not in {job_id for job_id, _, _ in again}


async def test_a_memory_store_keeps_half_a_chunked_result_too(gates: Gates) -> None:
    async with Runtime() as runtime:

        @runtime.agent("report")
        async def report(input: Any, job: JobContext) -> AsyncIterator[str]:
            async def pieces() -> AsyncIterator[str]:
                for n in range(20):
                    if n == 10:
                        await gates["half"].wait()
                    yield f"{n}," * 100_000

            return pieces()

        store = MemoryStore(interval=0.01)
        first = Client(runtime, store=store)
        await first.connect()
        job = await first.submit("report")
        async for event in job:
            if isinstance(event, events.ResultChunk) and event.chunk_seq == 9:
                break
        await first.detach()
        gates["half"].set()
        async with Client(runtime, store=store) as second:
            (again,) = second.open_jobs()
            value = (await again.result()).value
        assert value == "".join(f"{n}," * 100_000 for n in range(20))


async def test_a_chunked_result_survives_a_restart_half_way(gates: Gates, tmp_path: Path) -> None:
    async with Runtime() as runtime:

        @runtime.agent("report")
        async def report(input: Any, job: JobContext) -> AsyncIterator[str]:
            async def pieces() -> AsyncIterator[str]:
                for n in range(20):
                    if n == 10:
                        await gates["half"].wait()
                    yield f"{n},"

            return pieces()

        store = SqliteStore(tmp_path / "kept.db", interval=0.01)
        first = Client(runtime, store=store)
        await first.connect()
        job = await first.submit("report")
        async for event in job:
            if isinstance(event, events.ResultChunk) and event.chunk_seq == 9:
                break
        spool = store.spool("", "")
        await first.detach()
        (kept,) = tmp_path.glob("kept.db.*.results")
        assert len(list(kept.iterdir())) == 1
        gates["half"].set()

        second = Client(runtime, store=SqliteStore(tmp_path / "kept.db", interval=0.01))
        await second.connect()
        (again,) = second.open_jobs()
        assert (await again.result()).value == "".join(f"{n}," for n in range(20))
        assert spool is not None
        await second.detach()
        assert len(list(kept.iterdir())) == 1  # whoever asks again is told the same
        third = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
        async with third:
            assert third.open_jobs() == []
            known = third.job(again.id)
            assert known is not None
            assert (await known.result()).value == "".join(f"{n}," for n in range(20))
            gap, end = [event async for event in known]
            assert isinstance(gap, events.Gap)
            assert gap.reason == "not_retained"
            assert isinstance(end, events.Completed)
        assert not kept.exists()


async def test_a_session_that_expired_is_followed_by_a_fresh_one_with_its_jobs(
    gates: Gates, tmp_path: Path
) -> None:
    store = SqliteStore(tmp_path / "kept.db")
    async with Runtime() as runtime:

        @runtime.agent("gated")
        async def gated(input: Any, job: JobContext) -> Any:
            await job.log("before")
            await gates[input].wait()
            await job.log("after")
            return input

        first = Client(runtime, store=store)
        await first.connect()
        job = await first.submit("gated", "go")
        assert (await anext(aiter(job))).kind == "log"
        await first.detach()
        kept = await store.acquire(runtime.target, "default")
        assert kept is not None
        forgotten = dataclasses.replace(kept, session_id="sess_forgotten")
        await store.save(runtime.target, "default", forgotten)
        await store.release(runtime.target, "default")
        second = Client(runtime, store=store)
        gaps: list[events.Gap] = []

        @second.on(events.Gap)
        async def gap(event: events.Gap) -> None:
            gaps.append(event)

        async with second:
            assert not second.resumed
            (again,) = second.open_jobs()
            gates["go"].set()
            assert (await again.result()).value == "go"
        assert [gap.reason for gap in gaps] == ["unknown_end"]


async def test_a_save_that_fails_stops_acks_is_reported_once_and_tried_again(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    store = Dying(every=1, interval=0.001)
    client = Client(runtime, store=store)
    handled: list[str] = []
    some = asyncio.Event()

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        handled.append(event.message)
        if event.message == "2":
            store.dead = True
        some.set()

    with caplog.at_level(logging.WARNING, logger="arcp_client.checkpoints"):
        await client.connect()
        await client.submit("say", [str(n) for n in range(10)])
        while not any(record.levelname == "ERROR" for record in caplog.records):
            await asyncio.sleep(0.001)
        assert handled == ["0", "1", "2"]  # no event goes out that a restart would not know of
        store.dead = False
        while len(handled) < 10:
            await asyncio.sleep(0.01)
        await client.close()
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]
    assert "rt" not in caplog.records[0].getMessage().split()


async def test_the_newest_token_is_saved_before_anything_is_delivered(runtime: Runtime) -> None:
    saving = asyncio.Event()
    order: list[str] = []

    class Slow(Dying):
        async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
            await saving.wait()
            order.append("saved")
            await super().save(target, key, checkpoint)

    client = Client(runtime, store=Slow())

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        order.append("handled")

    connecting = asyncio.ensure_future(client.connect())
    submitting = None
    while submitting is None:  # connect() itself waits for the store
        await asyncio.sleep(0)
        if isinstance(client.state, Live):
            submitting = asyncio.ensure_future(client.submit("say", ["one"]))
    async with Client(runtime) as other:
        while not [job async for job in other.jobs(status=["success"])]:
            await asyncio.sleep(0.001)
    assert order == []
    saving.set()
    await connecting
    await (await submitting).result()
    await client.close()
    assert order[0] == "saved"
    assert order.count("handled") == 1


async def test_what_made_a_handler_stop_the_client_comes_again(
    runtime: Runtime, tmp_path: Path
) -> None:
    first = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))

    @first.on(events.Log, on_error="stop")
    async def handle(event: events.Log) -> None:
        if event.message == "3":
            raise RuntimeError("broken")

    await first.connect()
    job = await first.submit("say", [str(n) for n in range(10)])
    with pytest.raises(HandlerFailed):
        await job.result()
        await first.connected()
    await first.close()

    second = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
    again: list[tuple[str, bool]] = []

    @second.on(events.Log)
    async def once_more(event: events.Log) -> None:
        again.append((event.message, event.redelivered))

    async with second:
        (job,) = second.open_jobs()
        assert (await job.result()).value == 10
    assert again[0] == ("3", True)
    assert [message for message, _ in again] == [str(n) for n in range(3, 10)]


async def test_a_handler_that_detaches_gets_its_event_again(
    runtime: Runtime, tmp_path: Path
) -> None:
    first = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
    left = asyncio.Event()

    @first.on(events.Log)
    async def handle(event: events.Log) -> None:
        if event.message == "2":
            await first.detach(timeout=0.0)
            left.set()

    await first.connect()
    await first.submit("say", [str(n) for n in range(5)])
    await left.wait()

    second = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
    again: list[str] = []

    @second.on(events.Log)
    async def once_more(event: events.Log) -> None:
        again.append(event.message)

    async with second:
        for job in second.open_jobs():
            await job.result()
    assert again == ["2", "3", "4"]


async def test_a_detach_that_waits_for_nobody_says_nothing_and_loses_nothing(
    runtime: Runtime, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = Client(runtime, store=SqliteStore(tmp_path / "kept.db"))
    await first.connect()
    unread = first.events()
    job = await first.submit("say", [str(n) for n in range(5)])
    await job.result()
    await first.detach(timeout=0)
    await unread.aclose()
    assert caplog.records == []

    async with Client(runtime, store=SqliteStore(tmp_path / "kept.db")) as second:
        [again] = second.open_jobs()
        assert [event.message async for event in again.events(events.Log)] == list("01234")


@pytest.mark.parametrize("call", ["connect", "close", "detach"])
async def test_no_lock_or_file_is_left_over_a_real_socket(
    runtime: Runtime, tmp_path: Path, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A close without time waits this long for a store's thread; a busy machine may need more.
    monkeypatch.setattr("arcp_client._client.lifecycle.SLACK", 30.0)
    monkeypatch.setattr("arcp_client._link.durability.GRACE", 30.0)
    async with runtime.serve() as server:
        for turns in range(0, 50, 2):
            client = Client(server.url, store=SqliteStore(tmp_path / "kept.db"))
            if call != "connect":
                await client.connect()
            task = asyncio.ensure_future(getattr(client, call)())
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task}, timeout=10.0)
            await client.close()
            assert isinstance(client.state, Closed)
            assert [path.name for path in tmp_path.iterdir()] in ([], ["kept.db"])
        # And the store can still be held.
        async with Client(server.url, store=SqliteStore(tmp_path / "kept.db")):
            pass


async def test_a_history_that_was_put_in_order_is_redelivered_whole_after_a_crash() -> None:
    """Its events have other numbers here than at the runtime, which replays by its own."""
    numbered = dict(enumerate((4, 5, 1, 2, 3), start=1))

    def sent(seq: int) -> dict[str, Any]:
        payload = {
            "kind": "progress",
            "ts": f"2026-01-01T00:00:0{numbered[seq]}Z",
            "body": {"current": numbered[seq]},
        }
        head = {"type": "job.event", "id": f"e{seq}", "job_id": "job_a", "event_seq": seq}
        return {**head, "payload": payload}

    store = Dying(every=2)
    seen: list[tuple[float, bool]] = []
    stuck = asyncio.Event()
    async with ScriptedRuntime("go", agents={}) as runtime:
        confirmed = {"job_id": "job_a", "current_status": "running", "replayed": True}
        runtime.next("job.subscribe", Raw({"type": "job.subscribed", "payload": confirmed}))
        runtime.next("session.ping", Later(by=len(numbered)))
        first = Client(runtime, store=store)

        @first.on(events.Progress)
        async def handle(event: events.Progress) -> None:
            seen.append((event.current, event.redelivered))
            if event.current == 3:
                stuck.set()
                await asyncio.Event().wait()

        await first.connect()
        await first.watch("job_a", history=True)
        for seq in numbered:
            runtime.send(sent(seq))
        await stuck.wait()
        assert seen == [(1, False), (2, False), (3, False)]
        await store.crash(first)
        (session,) = runtime.sessions
        replayed = [{**sent(seq), "session_id": session} for seq in numbered]
        assert store.saves[-1].mark == 0
        assert store.saves[-1].processed == ()
        assert store.saves[-1].reserved >= len(numbered)

        seen.clear()
        second = Client(runtime, store=store)
        done = asyncio.Event()

        @second.on(events.Progress)
        async def once_more(event: events.Progress) -> None:
            seen.append((event.current, event.redelivered))
            if len(seen) == len(numbered):
                done.set()

        async with second:
            assert second.resumed
            for frame in replayed:
                runtime.send(frame)
            await done.wait()
        assert sorted(seen) == [(float(number), True) for number in sorted(numbered.values())]
