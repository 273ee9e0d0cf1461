"""A handler uses the client while tens of thousands of events stand before the replies (D6)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from arcp_client import Buffer, Client, StdioConnector, events
from arcp_client.errors import BufferFull
from arcp_client.transports.base import Connector
from tests.backpressure.peer import serving
from tests.backpressure.script import Script

pytestmark = pytest.mark.usefixtures("forked")

N = 50_000
SCRIPT = str(Path(__file__).with_name("script.py"))


async def all_calls_in_the_first_handler(target: str | Connector, buffer: Buffer) -> Client:
    seen: list[int] = []
    answers: list[object] = []
    spilled = 0
    client = Client(target, buffer=buffer)

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        nonlocal spilled
        if not seen and not answers:
            job = await client.submit("child", {"events": 0})
            answers.append(job.id)
            spilled = client.stats().spilled
            answers.append(await client.ping() >= 0)
            answers.append([summary.job_id async for summary in client.jobs()])
        seen.append(int(event.message))

    async with client:
        job = await client.submit("flood", {"events": N, "result": "end"})
        assert (await asyncio.wait_for(job.result(), 50)).value == "end"
        assert answers == ["job_2", True, ["job_1", "job_2"]]
        assert seen == list(range(N))
        stats = client.stats()
        assert stats.reconnects == 0
        assert stats.gaps == 0
        assert stats.repeated == 0
        assert stats.spilled == 0
        assert stats.processed == stats.received == N + 1
        assert spilled > 0  # the file was needed
    return client


async def test_over_a_websocket_every_call_is_answered_and_no_event_is_lost() -> None:
    """D6 (a): beyond `hard` events wait in a file, control frames are read at once."""
    async with serving(Script()) as peer:
        await all_calls_in_the_first_handler(peer.url, Buffer(soft=256, hard=1024))
        assert peer.links == 1


async def test_over_stdio_every_call_is_answered_and_no_event_is_lost() -> None:
    """D6 (a)."""
    connector = StdioConnector([sys.executable, SCRIPT])
    await all_calls_in_the_first_handler(connector, Buffer(soft=256, hard=1024))


async def test_the_link_to_a_peer_that_aborts_jobs_with_it_is_never_dropped() -> None:
    """D6 (a): the link is never dropped to save memory."""
    async with serving(Script(), aborts=True) as peer:
        await all_calls_in_the_first_handler(peer.url, Buffer(soft=16, hard=16))
        assert peer.links == 1


async def test_numbered_replies_are_answered_at_once_and_their_numbers_keep_their_place() -> None:
    """D6: of a reply with a sequence number, the number waits its turn."""
    seen: list[int] = []
    async with serving(Script(numbers_replies=True)) as peer:
        client = Client(peer.url, buffer=Buffer(soft=16, hard=64))

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if not seen:
                await job.cancel()
            seen.append(int(event.message))

        async with client:
            job = await client.submit("flood", {"events": 5000})
            await asyncio.wait_for(client.drain(timeout=20), 20)
            while len(seen) < 5000:
                await client.ping()
                await client.drain(timeout=20)
            assert seen == list(range(5000))
            assert client.stats().gaps == 0
            assert client.stats().reconnects == 0


async def test_with_a_full_file_the_call_in_a_handler_raises_and_every_event_still_comes() -> None:
    """D6 (i): the reader stops, and requests made in handlers raise BufferFull."""
    seen: list[int] = []
    refused: list[BufferFull] = []
    async with serving(Script()) as peer:
        client = Client(peer.url, buffer=Buffer(soft=16, hard=64, spill=20_000))

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if not seen:
                for _ in range(2):  # the second one while it is full already
                    try:
                        await client.submit("child", {"events": 0})
                    except BufferFull as full:
                        refused.append(full)
            seen.append(int(event.message))

        async with client:
            job = await client.submit("flood", {"events": 5000, "result": 1})
            assert (await asyncio.wait_for(job.result(), 30)).value == 1
            assert len(refused) == 2
            assert seen == list(range(5000))
            assert client.stats().reconnects == 0
            assert client.stats().gaps == 0


async def test_without_a_file_the_hard_bound_is_the_end() -> None:
    """D6: ``spill=0`` keeps everything off the disk."""
    seen: list[int] = []
    refused: list[BufferFull] = []
    async with serving(Script()) as peer:
        client = Client(peer.url, buffer=Buffer(soft=16, hard=64, spill=0))

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if not seen:
                try:
                    await client.submit("child", {"events": 0})
                except BufferFull as full:
                    refused.append(full)
            seen.append(int(event.message))

        async with client:
            job = await client.submit("flood", {"events": 2000, "result": 1})
            assert (await asyncio.wait_for(job.result(), 30)).value == 1
    assert len(refused) == 1
    assert seen == list(range(2000))


async def test_bytes_bound_what_waits_as_well_as_events_do() -> None:
    """D6: few large frames stop the reader, and go to the file, as many small ones do."""
    seen: list[int] = []
    peaks: list[int] = []
    async with serving(Script(pad=100_000)) as peer:
        client = Client(peer.url, buffer=Buffer(bytes=1_000_000))

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if not seen:
                await client.submit("child", {"events": 0})
                peaks.append(client.stats().queued)
            seen.append(int(event.message.split()[0]))

        async with client:
            job = await client.submit("flood", {"events": 200, "result": 1})
            await asyncio.wait_for(job.result(), 30)
    assert seen == list(range(200))
    assert peaks[0] <= 12


@pytest.mark.parametrize("bytes_", [100_000, 10_000_000], ids=["asked for again", "kept"])
async def test_the_spill_of_a_lost_link_is_not_lost(bytes_: int) -> None:
    """D6: spilled frames are not received, so the next link brings them, or they were kept."""
    seen: list[int] = []
    async with serving(Script()) as peer:
        client = Client(peer.url, buffer=Buffer(soft=16, hard=64, bytes=bytes_))

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            if not seen:
                await client.submit("child", {"events": 0})
                assert client.stats().spilled > 0
                await peer.sockets[0].close()
                await client.submit("child", {"events": 0})
            seen.append(int(event.message))

        async with client:
            job = await client.submit("flood", {"events": 5000, "result": 1})
            await asyncio.wait_for(job.result(), 30)
            assert seen == list(range(5000))
            assert client.stats().gaps == 0
            assert client.stats().reconnects == 1


async def test_events_that_a_handler_awaits_are_read_up_to_the_bytes_bound_and_no_further() -> None:
    """D6: what it awaits may be in the file; where memory is not enough, its wait fails."""
    outcomes: list[object] = []
    seen = 0
    async with serving(Script()) as peer:
        client = Client(peer.url, buffer=Buffer(soft=16, hard=64, bytes=200_000))

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            nonlocal seen
            seen += 1
            if seen == 1:
                for wish in ({"events": 300, "result": "near"}, {"events": 9000, "result": "far"}):
                    child = await client.submit("child", wish)
                    try:
                        ends = child.events(events.Completed)
                        outcomes.extend([end.value async for end in ends])
                    except BufferFull:
                        outcomes.append("full")

        async with client:
            job = await client.submit("flood", {"events": 200, "result": 1})
            await asyncio.wait_for(job.result(), 30)
            while seen < 200 + 300 + 9000:
                await client.ping()
                await client.drain(timeout=20)
            assert outcomes == ["near", "full"]
            stats = client.stats()
            assert (stats.gaps, stats.reconnects, stats.queued, stats.spilled) == (0, 0, 0, 0)
