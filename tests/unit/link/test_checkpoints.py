"""The writer of checkpoints, whose store lets another client take the place of this one."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from arcp_client import Client, JobContext, MemoryStore, Runtime, events
from arcp_client._link.checkpoints import Checkpointer
from arcp_client.errors import StoreLocked
from arcp_client.events import Event, Log
from arcp_client.models import Checkpoint
from arcp_client.testing import VirtualClock


def log(seq: int) -> Log:
    return Log(seq=seq, session_id="sess_1", job_id="job_1", message=str(seq))


async def test_s10_a_fenced_writer_publishes_and_saves_no_more(clock: VirtualClock) -> None:
    """Also before its client has stopped it: `fenced` only begins the client's end."""
    published: list[Event] = []
    fenced: list[StoreLocked] = []

    async def save(checkpoint: Checkpoint) -> None:
        raise StoreLocked("another process took the checkpoint over")

    writer = Checkpointer(
        save=save,
        snapshot=lambda mark: Checkpoint(session_id="sess_1", resume_token="t", mark=mark),
        saved=lambda _: None,
        publish=published.extend,
        reorder_block_end=lambda number: number,
        idle=lambda: False,
        urgent=lambda: False,
        every=4,
        interval=1.0,
        fenced=fenced.append,
    )
    writer.start(None)
    writer.hold_until_saved("sess_1", fresh=True)
    writer.offer([log(1)])
    await clock.advance(5.0)
    assert len(fenced) == 1
    writer.offer([log(2)])
    assert await writer.flush() is False
    await clock.advance(60.0)
    assert len(fenced) == 1
    assert published == []
    await writer.stop()


async def test_s10_repeats_before_the_first_event_of_a_session_do_not_hold_it_back(
    clock: VirtualClock,
) -> None:
    """More repeats than a reservation is long: they have numbers, and no handler gets them."""
    published: list[Event] = []
    saved: list[int] = []

    async def save(checkpoint: Checkpoint) -> None:
        saved.append(checkpoint.reserved)

    writer = Checkpointer(
        save=save,
        snapshot=lambda mark: Checkpoint(session_id="sess_1", resume_token="t", reserved=mark),
        saved=lambda _: None,
        publish=published.extend,
        reorder_block_end=lambda number: number,
        idle=lambda: True,
        urgent=lambda: False,
        every=4,
        interval=1.0,
    )
    writer.start(None)
    writer.hold_until_saved("sess_1", fresh=True)
    await clock.advance(1.0)
    writer.offer([log(100)])
    await clock.advance(1.0)
    assert published == [log(100)]
    assert saved == [4, 103]
    await writer.stop()


async def test_a_wait_for_the_offered_events_ends_when_these_are_published(
    clock: VirtualClock,
) -> None:
    """Events that are offered later do not count."""
    published: list[Event] = []
    saved: list[int] = []

    async def save(checkpoint: Checkpoint) -> None:
        saved.append(checkpoint.reserved)

    writer = Checkpointer(
        save=save,
        snapshot=lambda mark: Checkpoint(session_id="sess_1", resume_token="t", reserved=mark),
        saved=lambda _: None,
        publish=published.extend,
        reorder_block_end=lambda number: number,
        idle=lambda: False,
        urgent=lambda: False,
        every=4,
        interval=1.0,
    )
    writer.start(None)
    writer.hold_until_saved("sess_1", fresh=True)
    await clock.settle()
    writer.offer([log(1), log(2)])
    assert writer.passed().done()
    writer.offer([log(number) for number in (3, 4, 5, 6)])
    assert published == [log(number) for number in (1, 2, 3, 4)]
    first = writer.passed()
    writer.offer([log(7)])
    second = writer.passed()

    writer.processed(log(1))
    await clock.settle()
    assert (writer.held, first.done(), second.done()) == (2, False, False)
    writer.processed(log(2))
    await clock.settle()
    assert (writer.held, first.done(), second.done()) == (1, True, False)
    writer.processed(log(3))
    await clock.settle()
    assert (writer.held, first.done(), second.done()) == (0, True, True)
    assert published == [log(number) for number in range(1, 8)]
    assert saved == [4, 5, 6, 7]
    await writer.stop()


async def test_s10_a_client_goes_on_behind_a_history_that_it_has_handled() -> None:
    """The second session is gone, too: the third one repeats all events of the job."""
    store = MemoryStore(every=4)
    handled: list[int] = []
    async with Runtime(name="history") as runtime:
        steps: asyncio.Queue[int] = asyncio.Queue()

        @runtime.agent("emit")
        async def emit(input: Any, job: JobContext) -> None:
            sent = 0
            while count := await steps.get():
                for _ in range(count):
                    await job.progress(sent)
                    sent += 1

        async def next_client() -> Client:
            client = Client(runtime, store=store)
            client.subscribe(lambda event: handled.append(int(event.current)), events.Progress)
            await client.connect()
            return client

        for life in range(1, 4):
            client = await next_client()
            await client.submit("emit", idempotency_key="the one")
            steps.put_nowait(20)
            while len(handled) < 20 * life:
                await asyncio.sleep(0)
            await client.detach()
            checkpoint = await store.acquire(runtime.target, "default")
            assert checkpoint is not None
            expired = replace(checkpoint, session_id="sess_expired")
            await store.save(runtime.target, "default", expired)
            await store.release(runtime.target, "default")
        steps.put_nowait(0)
        async with await next_client() as client:
            await client.open_jobs()[0].result()
    assert handled == list(range(60))
