"""Iterators and what is kept for late ones (D8)."""

from __future__ import annotations

import asyncio
import gc
import json
from typing import Any

import pytest

from arcp_client import Buffer, Gap, Timeouts, events
from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.jobstreams import JobStream, JobStreams
from arcp_client._dispatch.replay_buffer import ReplayBuffer, ReplayMemory
from arcp_client._dispatch.streams import EventIterator, Iteration
from arcp_client._protocol.actions import EventRun
from arcp_client._wire.build import to_event
from arcp_client._wire.codec import EventFrame, decode
from arcp_client.errors import ClientClosed
from arcp_client.events import Event
from arcp_client.testing.clock import VirtualClock
from tests.unit.dispatch.kit import SESSION, Hub, log, turns


class Streams:
    """The streams of jobs, fed by hand."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.ended: list[str] = []
        self.streams = JobStreams(self.make, lambda stream: self.ended.append(stream.job_id))

    def make(self, job_id: str) -> JobStream:
        stream = JobStream(job_id, self.hub.back_pressure, self.streams.memory)
        self.streams.add(stream)
        return stream

    def push(self, *events: Event) -> None:
        self.streams.accept(list(events), 0.0, max(e.size for e in events))


def done(seq: int, job: str = "job_1") -> events.Completed:
    return events.Completed(seq=seq, session_id=SESSION, job_id=job)


def sized(seq: int, size: int, job: str = "job_1") -> events.Log:
    return events.Log(seq=seq, session_id=SESSION, job_id=job, message="", _frame=b"x" * size)


async def test_each_iterator_gets_every_event_and_then_ends_after_the_terminal_one() -> None:
    """D8: independent of each other."""
    world = Streams()
    stream = world.make("job_1")
    one, two = stream.iterate(EventFilter()), stream.iterate(EventFilter())
    world.push(log(1), log(2, "job_2"), log(3))
    assert [(await anext(one)).seq for _ in range(2)] == [1, 3]
    world.push(done(4))
    assert [event.seq async for event in one] == [4]
    assert [event.seq async for event in two] == [1, 3, 4]
    assert world.ended == ["job_1"]
    late = stream.iterate(EventFilter())
    assert [event.seq async for event in late] == [1, 3, 4]


async def test_a_late_iterator_begins_with_a_gap_for_what_is_no_longer_kept() -> None:
    """D8: 1,024 events a job."""
    world = Streams()
    stream = world.make("job_1")
    for seq in range(1, 2001):
        world.push(log(seq))
    world.push(done(2001))
    given = [event async for event in stream.iterate(EventFilter())]
    gap = given[0]
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, gap.reason, gap.job_id) == (1, 977, "not_retained", "job_1")
    assert [event.seq for event in given[1:]] == list(range(978, 2002))


async def test_a_job_keeps_at_most_a_mebibyte() -> None:
    """D8."""
    replay_buffer = ReplayBuffer()
    for seq in range(1, 101):
        replay_buffer.extend([sized(seq, 100_000)], 100_000)
    kept = list(replay_buffer.replay("job_1"))
    assert isinstance(kept[0], Gap)
    assert [event.seq for event in kept[1:]] == list(range(91, 101))
    assert replay_buffer.weigh() <= 1024 * 1024


async def test_one_event_larger_than_the_bound_is_not_kept() -> None:
    """D8."""
    replay_buffer = ReplayBuffer()
    replay_buffer.extend([sized(1, 2_000_000)], 2_000_000)
    [gap] = replay_buffer.replay("job_1")
    assert isinstance(gap, Gap)
    replay_buffer.extend([sized(2, 10)], 10)
    assert [event.seq for event in replay_buffer.replay("job_1")] == [1, 2]


async def test_all_jobs_together_keep_at_most_sixteen_mebibytes() -> None:
    """D8: the job that was heard of longest ago forgets first."""
    memory = ReplayMemory()
    buffers = [ReplayBuffer(memory) for _ in range(40)]
    for round_ in range(900):
        for each in buffers:
            each.extend([sized(round_ + 1, 1000)], 1000)
            memory.add(1, 1000)
    total = sum(each.weigh() for each in buffers)
    assert 8 * 1024 * 1024 < total <= 16 * 1024 * 1024


async def test_what_is_kept_does_not_count_as_waiting() -> None:
    """D8: neither for back-pressure nor for the mark."""
    world = Streams()
    stream = world.make("job_1")
    world.push(*(log(seq) for seq in range(1, 501)))
    iterator = stream.iterate(EventFilter())
    assert world.streams.outstanding == 0
    assert world.streams.oldest(SESSION) is None
    world.push(log(501))
    assert world.streams.outstanding == 1
    assert world.streams.oldest(SESSION) == 501
    assert [(await anext(iterator)).seq for _ in range(501)] == list(range(1, 502))


async def test_an_iterator_that_nobody_refers_to_is_gone() -> None:
    """D8: held weakly, so ``break`` unregisters it."""
    world = Streams()
    stream = world.make("job_1")
    async for _ in _with_one(world, stream):
        break
    gc.collect(0)
    world.push(log(2))
    assert world.streams.outstanding == 0
    assert not stream.tap.has_iterators
    assert not world.streams._busy


async def test_of_many_jobs_with_iterators_those_with_outstanding_events_are_looked_at() -> None:
    """The backlog is read for each frame, so its cost must not grow with the number of jobs."""
    world = Streams()
    streams = [world.make(f"job_{n}") for n in range(20)]
    iterators = [stream.iterate(EventFilter()) for stream in streams]
    world.push(log(1, "job_3"))
    world.push(log(2, "job_5"))
    world.push(log(3, "job_5"))
    assert world.streams.outstanding == 2
    assert [*world.streams._busy] == [streams[3], streams[5]]
    assert world.streams.oldest(SESSION) == 1
    assert [event.seq for event in world.streams.waiting()] == [1, 2, 3]
    await anext(iterators[3])
    assert world.streams.outstanding == 2  # its event is being handled
    waiting = asyncio.ensure_future(anext(iterators[3]))
    await asyncio.sleep(0)
    assert world.streams.outstanding == 2
    assert [*world.streams._busy] == [streams[5]]
    assert world.streams.oldest(SESSION) == 2
    world.push(log(4, "job_3"))
    assert (await waiting).seq == 4
    assert [*world.streams._busy] == [streams[5], streams[3]]
    del iterators[:]
    gc.collect(0)
    assert world.streams.outstanding == 0
    assert not world.streams._busy


async def test_the_oldest_arrival_is_that_of_the_first_event_that_waits_in_any_iterator() -> None:
    world = Streams()
    first, second = (world.make(job).iterate(EventFilter()) for job in ("job_1", "job_2"))
    assert world.streams.since() is None
    for seq, job, now in (
        (1, "job_2", 1.0),
        (2, "job_1", 2.0),
        (3, "job_2", 2.0),
        (4, "job_1", 4.0),
    ):
        world.streams.accept([log(seq, job)], now, 1)
    seen = [world.streams.since()]
    for iterator in (second, second, first):
        await anext(iterator)
        seen.append(world.streams.since())
    assert seen == [1.0, 1.0, 2.0, 2.0]  # the event that was given last is being handled
    await second.aclose()
    assert world.streams.since() == 2.0
    await first.aclose()
    assert world.streams.since() is None


def _with_one(world: Streams, stream: JobStream) -> EventIterator[Event]:
    iterator = stream.iterate(EventFilter())
    world.push(log(1))
    return iterator


async def test_a_selection_passes_gaps_in_any_case() -> None:
    """S4: every iterator gets Gaps."""
    hub = Hub()
    iterator = hub.events(events.Progress)
    vendor = hub.events("acme.thing")
    gap = Gap(seq=2, session_id=SESSION, first=2, last=2)
    unknown = events.Unknown(seq=3, session_id=SESSION, kind="acme.thing", job_id="job_1")
    hub.publish(log(1), gap, unknown)
    assert await anext(iterator) is gap
    assert await anext(vendor) is gap
    assert await anext(vendor) is unknown


async def test_an_iterator_over_a_vendor_kind_gets_no_other_vendor_kind() -> None:
    hub = Hub()
    vendor = hub.events("acme.thing")
    kinds = ("acme.other", "acme.thing", "other.thing")
    hub.publish(
        *(events.Unknown(seq=n, session_id=SESSION, kind=kind) for n, kind in enumerate(kinds, 1))
    )
    assert vendor.outstanding == 1
    assert (await anext(vendor)).kind == "acme.thing"


async def test_a_second_task_may_not_wait_for_the_same_iterator() -> None:
    hub = Hub()
    iterator = hub.events()
    waiting = asyncio.create_task(anext(iterator))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="already"):
        await anext(iterator)
    hub.publish(log(1))
    assert (await waiting).seq == 1


async def test_a_cancelled_wait_loses_nothing() -> None:
    hub = Hub()
    iterator = hub.events()
    waiting = asyncio.create_task(anext(iterator))
    await asyncio.sleep(0)
    waiting.cancel()
    hub.publish(log(1))
    assert (await anext(iterator)).seq == 1


async def test_aclose_ends_it_quietly_from_any_task() -> None:
    hub = Hub()
    iterator = hub.events()
    waiting = asyncio.create_task(anext(iterator, None))
    await asyncio.sleep(0)
    await iterator.aclose()
    await iterator.aclose()
    assert await waiting is None
    hub.publish(log(1))
    assert [event async for event in iterator] == []


async def test_the_end_of_the_client_is_an_error_and_never_quiet() -> None:
    """D8."""
    hub = Hub()
    iterator = hub.events()
    hub.publish(log(1))
    hub._consumers.end(lambda: ClientClosed("over"), None)
    assert (await anext(iterator)).seq == 1
    for _ in range(2):
        with pytest.raises(ClientClosed):
            await anext(iterator)
    with pytest.raises(ClientClosed):
        await anext(hub.events())


async def test_a_cut_iterator_counts_what_it_missed_and_goes_on_when_it_is_pulled() -> None:
    """D8: one Gap for all that it missed until it was pulled again."""
    hub = Hub()
    iterator = hub.events()
    hub.publish(*(log(seq) for seq in range(1, 11)))
    iterator.cut()
    assert iterator.outstanding == 0
    hub.publish(log(11), log(12))
    assert iterator.outstanding == 0
    gap = await anext(iterator)
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, gap.reason) == (1, 12, "overflow")
    hub.publish(log(13))
    assert (await anext(iterator)).seq == 13


async def test_a_gap_over_dropped_events_says_whose_events_they_were() -> None:
    world = Streams()
    of_job = world.make("job_1").iterate(EventFilter())
    of_session = world.hub.events()
    world.push(log(3), log(4))
    world.hub.publish(log(3), log(4))
    for iterator, job_id in ((of_job, "job_1"), (of_session, None)):
        assert isinstance(iterator, Iteration)
        iterator.cut()
        iterator.extend([log(5)], 0.0)
        gap = await anext(iterator)
        assert isinstance(gap, Gap)
        assert (gap.seq, gap.first, gap.last) == (3, 3, 5)
        assert (gap.session_id, gap.job_id) == (SESSION, job_id)


async def test_a_gap_over_events_without_numbers_has_the_numbers_that_are_known() -> None:
    iterator: Iteration[Event] = Iteration(EventFilter())

    async def after_cuts(*numbers: int | None) -> tuple[int | None, int | None, int | None]:
        for seq in numbers:
            iterator.extend([events.Log(seq=seq, session_id=SESSION, message="")], 0.0)
            iterator.cut()
        gap = await anext(iterator)
        assert isinstance(gap, Gap)
        return gap.seq, gap.first, gap.last

    assert await after_cuts(None) == (None, 0, None)
    assert await after_cuts(None, 7) == (None, 0, 7)
    assert await after_cuts(7, None) == (7, 7, 7)
    assert await after_cuts(7, 8) == (7, 7, 8)


async def test_the_terminal_event_stays_behind_the_gap_over_dropped_events() -> None:
    world = Streams()
    iterator = world.make("job_1").iterate(EventFilter())
    world.push(log(1), log(2))
    iterator.cut()
    world.push(log(3), done(4))
    assert [event.seq async for event in iterator] == [1, 4]


@pytest.mark.parametrize("read", ["nothing", "one", "a batch", "replayed", "cut"])
async def test_a_closed_iterator_has_no_events_and_lets_the_reader_continue(read: str) -> None:
    """D6, D8."""
    hub = Hub(buffer=Buffer(soft=4))
    iterator = hub.events()
    assert isinstance(iterator, Iteration)
    if read == "replayed":
        iterator.prepend([log(0)])
    hub.publish(*(log(seq) for seq in range(1, 6)))
    if read == "one":
        await anext(iterator)
    elif read == "a batch":
        await iterator.batch(0, 2)
    reading = asyncio.create_task(hub.back_pressure.caught_up())
    await asyncio.sleep(0)
    if read == "cut":
        iterator.cut()
    iterator.close()
    await turns()
    assert reading.done()
    assert iterator.outstanding == 0
    with pytest.raises(StopAsyncIteration):
        await iterator.batch(0, 9)
    with pytest.raises(StopAsyncIteration):
        await anext(iterator)


async def test_an_iterator_is_cut_after_a_whole_stall_without_a_pull(clock: VirtualClock) -> None:
    """D8: slow is not stuck, however long the reader waits for it."""
    hub = Hub(buffer=Buffer(soft=4, hard=8), timeouts=Timeouts(stall=10))
    iterator = hub.events()
    hub.publish(*(log(seq) for seq in range(1, 21)))
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    reading = asyncio.create_task(hub.back_pressure.caught_up())
    waiting = asyncio.create_task(hub.back_pressure.wait_for(outcome, result=True))
    await clock.settle()

    for seq in (1, 2, 3):
        await clock.advance(6)
        assert (await anext(iterator)).seq == seq
    await clock.advance(11.9)  # it looks at 10, 20 and 30 s; the last pull was at 18 s
    assert iterator.outstanding == 18
    assert not reading.done()

    await clock.advance(0.2)
    assert iterator.outstanding == 1  # what it gave last
    await reading
    outcome.set_result(None)
    await waiting


async def test_an_iterator_is_cut_only_while_a_result_is_awaited(clock: VirtualClock) -> None:
    """D8: else nothing needs the reader."""
    hub = Hub(buffer=Buffer(soft=4, hard=8), timeouts=Timeouts(stall=10))
    gate = hub.back_pressure

    async def awaited(seconds: float, *, result: bool) -> None:
        waiting = asyncio.create_task(
            gate.wait_for(asyncio.get_running_loop().create_future(), result=result)
        )
        await clock.advance(seconds)
        waiting.cancel()
        await clock.settle()

    await awaited(1, result=True)
    iterator = hub.events()
    hub.publish(*(log(seq) for seq in range(1, 21)))
    reading = asyncio.create_task(gate.caught_up())
    await clock.advance(100)
    await awaited(100, result=False)
    await awaited(9.9, result=True)
    await awaited(9.9, result=True)
    await clock.advance(100)
    assert iterator.outstanding == 20
    assert not reading.done()
    await awaited(10.1, result=True)
    assert iterator.outstanding == 0
    assert reading.done()


async def test_a_gap_of_the_session_reaches_the_iterators_of_every_open_job() -> None:
    world = Streams()
    streams = [world.make("job_1"), world.make("job_2")]
    iterators = [stream.iterate(EventFilter()) for stream in streams]
    gap = Gap(seq=1, session_id=SESSION, first=1, last=3)
    world.push(gap, log(4, "job_1"))
    assert [await anext(iterator) for iterator in iterators] == [gap, gap]
    assert (await anext(iterators[0])).seq == 4


@pytest.mark.parametrize("follower", [True, False])
async def test_each_step_of_an_iterator_is_progress_while_the_reader_waits(
    follower: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D6: nothing else may come that would let the reader continue."""
    world = Streams()
    gate = world.hub.back_pressure
    iterator = world.make("job_1").iterate(EventFilter())
    world.push(log(1), log(2), log(3))
    told: list[int | str | None] = []
    monkeypatch.setattr(gate, "progress", lambda: told.append("progress"))
    if follower:
        gate.follower = lambda event: told.append(event and event.seq)
    gate.watching = gate.progress_wanted = True
    await anext(iterator)
    await anext(iterator)
    assert [one for one in told if one == "progress"] == ["progress"] * 2
    assert [one for one in told if one != "progress"] == ([1] if follower else [])
    gate.progress_wanted = False
    await anext(iterator)
    assert told.count("progress") == 2


# ------------------------------------------------------------------ for a reader in another thread


async def test_a_batch_stays_outstanding_until_its_reader_has_processed_it() -> None:
    world = Streams()
    iterator = world.make("job_1").iterate(EventFilter())
    assert isinstance(iterator, Iteration)
    world.push(log(1), log(2), log(3))
    assert [event.seq for event in await iterator.batch(0, 2)] == [1, 2]
    assert world.streams.outstanding == 3
    assert world.streams.oldest(SESSION) == 1
    iterator.settle(1)
    assert (world.streams.outstanding, world.streams.oldest(SESSION)) == (2, 2)
    assert [event.seq for event in await iterator.batch(2, 2)] == [3]
    assert world.streams.outstanding == 1
    iterator.settle(3)
    iterator.settle(3)
    assert world.streams.outstanding == 0


async def test_what_an_interrupted_reader_did_not_process_is_in_its_next_batch() -> None:
    world = Streams()
    stream = world.make("job_1")
    world.push(log(1), log(2))
    iterator = stream.iterate(EventFilter())
    assert isinstance(iterator, Iteration)
    assert [event.seq for event in await iterator.batch(0, 9)] == [1, 2]  # the replay buffer
    assert [event.seq for event in await iterator.batch(1, 9)] == [2]
    world.push(log(3), log(4))
    assert [event.seq for event in await iterator.batch(2, 9)] == [3, 4]
    world.push(log(5))
    assert [event.seq for event in await iterator.batch(3, 9)] == [4]
    assert [event.seq for event in await iterator.batch(4, 9)] == [5]


async def test_batches_end_after_the_terminal_event() -> None:
    world = Streams()
    iterator = world.make("job_1").iterate(EventFilter())
    assert isinstance(iterator, Iteration)
    world.push(log(1), done(2))
    assert [event.seq for event in await iterator.batch(0, 9)] == [1, 2]
    assert world.streams.outstanding == 2
    with pytest.raises(StopAsyncIteration):
        await iterator.batch(2, 9)
    assert world.streams.outstanding == 0


@pytest.mark.parametrize("queued", [True, False], ids=["queued", "replayed"])
async def test_an_iterator_over_a_job_has_no_event_behind_the_terminal_one(queued: bool) -> None:
    """D8: also if the events of the job come again after its end."""

    def made() -> Iteration[Event]:
        iterator: Iteration[Event] = Iteration(EventFilter(), until_terminal=True)
        if queued:
            iterator.extend([log(1), done(2), log(3)], 0.0)
        else:
            iterator.prepend([log(1), done(2)])
            iterator.extend([log(3)], 0.0)
        return iterator

    assert [event.seq async for event in made()] == [1, 2]
    iterator = made()
    assert [event.seq for event in await iterator.batch(0, 9)] == [1, 2]
    with pytest.raises(StopAsyncIteration):
        await iterator.batch(2, 9)
    assert iterator.outstanding == 0


async def test_a_cut_between_batches_leaves_the_batch_and_is_a_gap_after_it() -> None:
    world = Streams()
    iterator = world.make("job_1").iterate(EventFilter())
    assert isinstance(iterator, Iteration)
    world.push(log(1), log(2), log(3), log(4))
    assert len(await iterator.batch(0, 2)) == 2
    iterator.cut()
    world.push(log(5))
    assert world.streams.outstanding == 2
    assert [event.seq for event in await iterator.batch(1, 9)] == [2]
    [gap] = await iterator.batch(2, 9)
    assert isinstance(gap, Gap)
    assert (gap.first, gap.last, gap.reason) == (3, 5, "overflow")
    world.push(log(6))
    assert [event.seq for event in await iterator.batch(3, 9)] == [6]


async def test_every_event_of_a_batch_is_reported_once_as_processed() -> None:
    world = Streams()
    followed: list[int | None] = []
    world.hub.back_pressure.follower = lambda event: followed.append(event.seq if event else None)
    iterator = world.make("job_1").iterate(EventFilter())
    assert isinstance(iterator, Iteration)
    world.push(log(1), log(2))
    await iterator.batch(0, 9)
    iterator.settle(2)
    assert [seq for seq in followed if seq is not None] == [1, 2]


async def test_a_paused_reader_continues_as_soon_as_a_batch_is_processed_far_enough() -> None:
    """D6."""
    hub = Hub(buffer=Buffer(soft=4))
    iterator = hub.events()
    assert isinstance(iterator, Iteration)
    hub.publish(*(log(seq) for seq in range(1, 6)))
    await iterator.batch(0, 9)
    reading = asyncio.create_task(hub.back_pressure.caught_up())
    await asyncio.sleep(0)
    iterator.settle(2)
    await turns()
    assert not reading.done()
    iterator.settle(3)
    await turns()
    assert reading.done()


async def test_a_reader_that_has_asked_for_its_first_batch_is_not_stuck(
    clock: VirtualClock,
) -> None:
    """D8: an iterator is cut only after a whole stall in which no batch is requested."""
    hub = Hub(buffer=Buffer(soft=4, hard=8), timeouts=Timeouts(stall=10))
    iterator = hub.events()
    assert isinstance(iterator, Iteration)
    hub.publish(*(log(seq) for seq in range(1, 21)))
    outcome: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    reading = asyncio.create_task(hub.back_pressure.caught_up())
    waiting = asyncio.create_task(hub.back_pressure.wait_for(outcome, result=True))
    await clock.settle()
    await clock.advance(6)
    assert len(await iterator.batch(0, 2)) == 2
    await clock.advance(13.9)  # it looks at 10 and at 20 s
    assert iterator.outstanding == 20
    await clock.advance(0.2)
    assert iterator.outstanding == 2  # the batch
    await reading
    outcome.set_result(None)
    await waiting


def decoded(count: int) -> EventRun:
    """Events of each kind, with the envelopes from which they were decoded."""
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("log", {"level": "info", "message": "m"}),
        ("tool_call", {"tool": "t", "args": {"q": [1, {"a": None}]}, "call_id": "c"}),
        ("progress", {"current": 1, "total": 2}),
    ]
    run = EventRun()
    run.envelopes, run.one_job = [], True
    for seq in range(1, count + 1):
        kind, body = bodies[seq % len(bodies)]
        payload = {"kind": kind, "ts": "2026-05-13T19:42:13Z", "body": body}
        envelope = {"arcp": "1.1", "id": f"e{seq}", "type": "job.event", "session_id": SESSION}
        envelope |= {"job_id": "job_1", "event_seq": seq, "payload": payload}
        frame = decode(json.dumps(envelope).encode())
        assert isinstance(frame, EventFrame)
        run.envelopes.append(json.dumps(envelope).encode())
        run.append(to_event(frame, run.envelopes[-1]))
    return run


async def test_a_late_iterator_gets_events_equal_to_those_that_were_delivered() -> None:
    """D8: also of events that the replay buffer keeps as envelopes."""
    world = Streams()
    stream = world.make("job_1")
    run = decoded(40)
    world.push(*run)
    early = stream.iterate(EventFilter())
    assert [await anext(early) for _ in run] == list(run)
    world.streams.accept(run, 0.0, 400)
    again = stream.iterate(EventFilter())
    assert [(await anext(again)).to_dict() for _ in range(80)] == [e.to_dict() for e in [*run] * 2]


async def test_envelopes_and_events_count_by_the_same_bytes() -> None:
    run = decoded(40)
    assert run.envelopes is not None
    as_events, as_envelopes = ReplayBuffer(bytes_=2000), ReplayBuffer(bytes_=2000)
    as_events.extend(list(run), 400)
    as_envelopes.extend(list(run), 400, run.envelopes)
    assert as_events.weigh() == as_envelopes.weigh() <= 2000
    assert list(as_events.replay("job_1")) == list(as_envelopes.replay("job_1"))
    assert as_events.drop(700) == as_envelopes.drop(700)
    assert list(as_events.replay("job_1")) == list(as_envelopes.replay("job_1"))


async def test_an_event_that_waits_in_two_iterators_takes_its_bytes_once() -> None:
    """D6: what counts against ``Buffer.bytes`` is the memory that the events take."""
    hub = Hub()
    iterators = [hub.events() for _ in range(2)]
    hub.publish(sized(1, 1000), sized(2, 500))
    assert hub.fan_out.weight(2, 0) == 1500
    assert [(await anext(iterators[0])).seq for _ in range(2)] == [1, 2]
    assert hub.fan_out.weight(2, 0) == 1500


async def test_a_weight_that_reaches_the_limit_is_exact() -> None:
    """D6: the reader does not pause for an upper bound."""
    hub = Hub()
    iterator = hub.events()
    hub.publish(sized(1, 1000), sized(2, 500), sized(3, 500))
    assert hub.fan_out.weight(3, 2000) == 2000
    assert [(await anext(iterator)).seq for _ in range(2)] == [1, 2]  # the second is handled now
    assert hub.fan_out.weight(2, 2000) == 1000
