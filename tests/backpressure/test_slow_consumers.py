"""Consumers that are slow, absent, or gone, over real sockets (D6, D7, D8)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from arcp_client import Buffer, Client, Gap, Order, Registration, Timeouts, events
from tests.alone import run_alone, started
from tests.backpressure.peer import serving
from tests.backpressure.script import Script

SMALL = Buffer(soft=64, hard=256)


async def test_a_handler_may_block_for_eight_heartbeats_against_a_runtime_that_allows_two() -> None:
    """D7 (b): the silence clock stands still while the reader is paused; own pings go on."""
    interval = 0.1
    seen: list[int] = []
    async with (
        serving(Script(heartbeat=interval), patience=2) as peer,
        Client(peer.url, buffer=SMALL) as client,
    ):

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if not seen:
                await asyncio.sleep(8 * interval)
            seen.append(int(event.message))

        job = await client.submit("flood", {"events": 20_000, "result": 1})
        await asyncio.wait_for(job.result(), 30)
        assert client.stats().reconnects == 0
        assert not peer.gave_up
    assert seen == list(range(20_000))


async def test_breaking_out_of_an_iterator_frees_the_reader_for_the_result() -> None:
    """D8 (d): iterators are held weakly, so ``break`` unregisters them."""
    async with serving(Script()) as peer, Client(peer.url, buffer=SMALL) as client:
        job = await client.submit("flood", {"events": 20_000, "result": 1})
        async for event in job:
            assert event.seq == 1
            break
        assert (await asyncio.wait_for(job.result(), 30)).value == 1


async def test_an_iterator_that_nobody_pulls_is_cut_when_a_result_waits_and_says_so() -> None:
    """D8 (d): cut after `Timeouts.stall`; its next item is a Gap, and then it goes on."""
    timeouts = Timeouts(stall=0.2)
    async with (
        serving(Script()) as peer,
        Client(peer.url, buffer=SMALL, timeouts=timeouts) as client,
    ):
        kept = client.events()
        job = await client.submit("flood", {"events": 20_000, "result": 1})
        mine = aiter(job)
        assert (await anext(mine)).seq == 1
        assert (await asyncio.wait_for(job.result(), 30)).value == 1
        *given, gap, end = [event async for event in mine]
        assert [event.seq for event in given] == list(range(2, len(given) + 2))
        assert isinstance(gap, Gap)
        assert (gap.first, gap.last, gap.reason) == (len(given) + 2, 20_000, "overflow")
        assert isinstance(end, events.Completed)
        gap = await anext(kept)
        assert isinstance(gap, Gap)
        assert (gap.first, gap.last, gap.reason) == (1, 20_000, "overflow")
        assert isinstance(await anext(kept), events.Completed)


async def test_an_iterator_that_is_pulled_now_and_then_is_never_cut() -> None:
    """D8: slow is not stuck."""
    timeouts = Timeouts(stall=0.2)
    async with (
        serving(Script()) as peer,
        Client(peer.url, buffer=Buffer(soft=8, hard=8), timeouts=timeouts) as client,
    ):
        job = await client.submit("flood", {"events": 40, "result": 1})
        iterator = aiter(job)
        waiting = asyncio.create_task(job.result())
        numbers = []
        async for event in iterator:
            numbers.append(event.seq)
            await asyncio.sleep(0.02)
        assert numbers == list(range(1, 42))
        assert (await waiting).value == 1


async def test_nobody_consumes_and_everything_still_arrives() -> None:
    """D6 (e): without consumers nothing is held, and what is not held is processed."""
    async with serving(Script()) as peer, Client(peer.url, buffer=SMALL) as client:
        job = await client.submit("flood", {"events": 20_000, "result": 1})
        assert (await asyncio.wait_for(job.result(), 30)).value == 1
        assert await client.ping() >= 0
        stats = client.stats()
        assert (stats.received, stats.processed, stats.queued) == (20_001, 20_001, 0)


async def test_a_session_level_handler_iterates_over_a_child_job() -> None:
    """D6 (f): a running handler that awaits an iterator keeps the reader reading."""
    children: list[int] = []
    seen: list[int] = []
    async with serving(Script()) as peer, Client(peer.url, buffer=SMALL) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if not seen:
                child = await client.submit("child", {"events": 5000, "result": "done"})
                children.extend([int(one.message) async for one in child.events(events.Log)])
            seen.append(event.seq or 0)

        job = await client.submit("flood", {"events": 5000, "result": 1})
        await asyncio.wait_for(job.result(), 30)
        await client.drain(timeout=20)
        assert children == list(range(5000))
        assert len(seen) == 10_000
        assert client.stats().reconnects == 0


async def test_a_hundred_parents_each_await_their_childs_result() -> None:
    """D6, D10 (g): under Order.JOB a parent's handler waits for its child in lanes of its own."""
    done: list[object] = []
    async with (
        serving(Script()) as peer,
        Client(peer.url, order=Order.JOB, buffer=SMALL) as client,
    ):
        parents: set[str] = set()

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if event.job_id in parents and event.message == "0 ":
                child = await client.submit("child", {"events": 20, "result": event.job_id})
                done.append((await child.result()).value)

        jobs = [await client.submit("parent", {"events": 0}) for _ in range(100)]
        parents.update(job.id for job in jobs)
        await peer.say(
            [
                frame
                for job in jobs
                for n in range(10)
                for frame in [peer.script.log(job.id, f"{n} ")]
            ]
            + [peer.script.end(job.id) for job in jobs]
        )
        for job in jobs:
            await asyncio.wait_for(job.result(), 30)
        assert sorted(map(str, done)) == sorted(parents)


async def test_live_events_ahead_of_a_replay_longer_than_soft_wait_for_it() -> None:
    """D6 (h): what is held back behind a hole never pauses the reader."""
    seen: list[int] = []
    script = Script()
    async with serving(script) as peer, Client(peer.url, buffer=SMALL) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            seen.append(int(event.message))
            if len(seen) == 10:
                await asyncio.sleep(0.05)

        job = await client.submit("flood", {"events": 0})
        await client.ping()
        frames = [script.log(job.id, str(n)) for n in range(2000)]
        await peer.say(frames[1000:] + frames[:1000] + [script.end(job.id)])
        await asyncio.wait_for(job.result(), 30)
        assert seen == list(range(2000))
        assert client.stats().gaps == 0


async def test_a_registration_that_falls_behind_is_told_of_once_an_episode() -> None:
    """``on_slow``: the registration, its lag in events and in seconds."""
    told: list[tuple[Registration, int, float]] = []
    gate = asyncio.Event()
    async with serving(Script()) as peer, Client(peer.url, buffer=SMALL) as client:

        async def slow(event: events.Log) -> None:
            await gate.wait()

        registration = client.subscribe(slow, events.Log)
        quick = client.subscribe(lambda event: None, events.Log)

        @client.on_slow
        async def hook(which: Registration, lag: int, seconds: float) -> None:
            told.append((which, lag, seconds))
            gate.set()

        job = await client.submit("flood", {"events": 60})
        await client.ping()
        assert registration.lag == 60
        gate.clear()
        more = await client.submit("flood", {"events": 5000, "result": 1})
        await asyncio.wait_for(more.result(), 30)
        assert told
        assert all(which is registration for which, _, _ in told)
        assert told[0][1] >= 64
        assert told[0][2] > 0
        assert len(told) == 1
        assert quick.lag == 0
        assert job.id != more.id


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="needs /proc")
async def test_a_million_events_for_a_slow_handler_need_no_more_memory_than_a_few() -> None:
    """D6 (c): TCP holds the peer."""
    async with started("tests.backpressure.flood", 1_000_000) as flood:
        assert flood.stdout is not None
        port = int(await asyncio.wait_for(flood.stdout.readline(), 60))
        url = f"ws://127.0.0.1:{port}/arcp"
        done = await run_alone("tests.backpressure.slow_client", url, timeout=170)
    assert done["handled"] == 1_000_001
    assert done["gaps"] == 0
    assert done["growth"] < 30 * 1024 * 1024
