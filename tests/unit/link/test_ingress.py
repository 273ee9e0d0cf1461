"""Frames that wait in a file count as life, are read in slices, and end with their link (D6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest import mock

import pytest
from tenacity import wait_fixed

from arcp_client import Buffer, Client, JobContext, Reconnect, Runtime, events
from arcp_client._dispatch.back_pressure import BackPressure, Reading
from arcp_client._link.ingress import _SLICE, Ingress
from arcp_client._protocol.states import State
from arcp_client.state import LinkState, Reconnecting
from arcp_client.testing import Drop, FaultyConnector, VirtualClock
from tests.property.reader import Link, Reader, event_frame
from tests.unit.dispatch.conftest import hubs_are_closed as hubs_are_closed
from tests.unit.dispatch.kit import Hub, Tape
from tests.unit.link.line import Line

INTERVAL = 30.0
BUFFER = Buffer(soft=200, hard=200)


class Behind:
    """An ingress whose consumer has as many events as memory has room for, and a file with more.

    Attributes:
        tape: the handler, which waits to be let go.
        link: what has received the events that are not in the file.
    """

    def __init__(self, *, keep: int = BUFFER.bytes) -> None:
        self.hub = Hub(buffer=BUFFER, request_pending=lambda: True)
        self.tape = Tape()
        self.registration = self.hub.subscribe(self.tape.handle)
        self.link = Link(self.hub)
        self.ingress = Ingress(
            self.link,  # type: ignore[arg-type]
            self.hub.back_pressure,
            spill=BUFFER.spill,
            keep=keep,
        )
        self.sent = BUFFER.hard
        self.link.received([event_frame(number) for number in range(1, self.sent + 1)])

    async def set_aside(self, count: int) -> int:
        """Set more events aside; return the bytes that their frames take in the file."""
        size = 0
        for _ in range(count):
            self.sent += 1
            frame = event_frame(self.sent)
            await self.ingress.set_aside(frame)
            size += len(frame) + 4
        return size

    def let_go(self) -> None:
        """Let the handler process every event."""
        self.tape.let_go(*range(1, self.sent + 1))


Make = Callable[..., Behind]


@pytest.fixture
async def make(clock: VirtualClock) -> AsyncIterator[Make]:
    """Makes an ingress, and ends it after the test."""
    made: list[Behind] = []

    def one(**arguments: int) -> Behind:
        made.append(Behind(**arguments))
        return made[-1]

    yield one
    for behind in made:
        behind.let_go()
    await clock.settle()
    for behind in made:
        behind.ingress.close()


async def test_events_that_are_set_aside_count_as_life(clock: VirtualClock) -> None:
    """A handler waits for an answer that does not come, and pongs do not come either."""
    lost: list[BaseException] = []
    asking = asyncio.Event()

    def note(state: LinkState) -> None:
        if isinstance(state, Reconnecting):
            lost.append(state.cause)

    async with Runtime(heartbeat_interval=INTERVAL) as runtime:

        @runtime.agent("tick")
        async def tick(input: Any, job: JobContext) -> None:
            for n in range(20):
                await job.progress(n)
                await asyncio.sleep(INTERVAL)

        line = FaultyConnector(
            Line(runtime),
            plan=[Drop(lambda frame: b'"session.p' in frame)],  # pings and pongs
        )
        client = Client(
            line, buffer=Buffer(soft=1, hard=1), reconnect=Reconnect(wait=wait_fixed(0.5))
        )
        client.states.subscribe(note)

        @client.on(events.Progress)
        async def handle(event: events.Progress) -> None:
            asking.set()
            await client.ping(timeout=3600.0)

        async with client:
            await client.submit("tick", None)
            await asking.wait()
            await clock.advance(10 * INTERVAL)
            assert client.stats().spilled >= 9
            assert lost == []
            await client.detach(timeout=0.0)


async def test_consumers_get_a_turn_between_reads_of_frames_that_have_arrived(
    clock: VirtualClock,
) -> None:
    """A fast handler then never lets the reader pause."""
    reader = Reader(BUFFER)
    reader.handlers[0].tell("free")
    reader.send(5 * BUFFER.soft)
    await clock.settle()
    assert reader.handlers[0].ended == list(range(1, 5 * BUFFER.soft + 1))
    assert "HELD" not in {state for _, state in reader.steps}
    await reader.close()


async def test_the_file_is_read_in_slices_between_which_the_loop_turns(
    clock: VirtualClock, make: Make
) -> None:
    """Also while frames arrive, each of which asks for the next slice."""
    behind = make()
    await behind.set_aside(10 * _SLICE)
    await clock.settle()
    behind.registration.dispose()  # then there is room for everything
    slices = []
    for turn in range(12):
        before = behind.link.last
        if turn < 5:
            await behind.set_aside(3)
        await asyncio.sleep(0)
        slices.append(behind.link.last - before)
    assert max(slices) == _SLICE
    assert behind.link.last == behind.sent


async def test_the_file_is_read_up_to_half_a_slice_beyond_what_consumers_have_room_for(
    clock: VirtualClock, make: Make
) -> None:
    behind = make()
    await behind.set_aside(10 * _SLICE)
    await clock.settle()
    assert behind.link.last == BUFFER.soft
    behind.tape.let_go(1)
    await clock.settle()
    await behind.set_aside(1)
    await clock.settle()
    assert behind.link.last == BUFFER.soft + _SLICE // 2


@pytest.mark.parametrize(("less", "kept"), [(0, True), (1, False)])
async def test_a_small_file_is_read_when_its_link_ends_and_a_larger_one_is_asked_for_again(
    make: Make, caplog: pytest.LogCaptureFixture, less: int, kept: bool
) -> None:
    """Small is a file that takes, with what is outstanding, at most ``2 * keep`` bytes."""
    before = make()
    size = await before.set_aside(10) + before.hub.back_pressure.weight
    assert size % 2 == 0
    behind = make(keep=size // 2 - less)
    await behind.set_aside(10)
    assert behind.ingress.next_wait() is None
    assert behind.ingress.aside
    assert behind.ingress.link_lost() is kept
    assert behind.ingress.spilled == 0
    assert not behind.ingress.aside  # for the welcome of the next link
    assert behind.link.last == (behind.sent if kept else BUFFER.hard)
    told = "the link ended while 10 events waited on disk: the resume requests them again"
    assert caplog.messages == ([] if kept else [told])


@pytest.mark.parametrize("state", [State.CLOSING, State.ENDED])
async def test_what_is_in_the_file_when_the_session_is_closed_is_reported_as_not_handled(
    make: Make, caplog: pytest.LogCaptureFixture, state: State
) -> None:
    """No resume follows."""
    behind = make()
    await behind.set_aside(10)
    behind.link.state = state
    assert not behind.ingress.link_lost()
    assert (behind.ingress.spilled, behind.link.last) == (0, BUFFER.hard)
    assert caplog.messages == [
        "the link ended while 10 events waited on disk: they were not handled"
    ]


async def test_a_link_that_ends_without_a_file_has_given_the_session_all_its_frames(
    clock: VirtualClock, make: Make
) -> None:
    behind = make()
    assert behind.ingress.link_lost()


async def test_frames_that_come_one_at_a_time_are_decided_on_when_none_is_spare(
    clock: VirtualClock,
) -> None:
    hub = Hub()
    pressure, link = hub.back_pressure, Link(hub)
    ingress = Ingress(link, pressure, spill=0, keep=0)  # type: ignore[arg-type]
    pressure.spare = 3
    with mock.patch.object(BackPressure, "decide", return_value=Reading.ON) as decide:
        steps = (
            (True, 1, 0),
            (False, 1, 1),
            (True, 0, 1),
            (True, 2, 2),
            (True, 1, 2),
            (True, 1, 3),
        )
        for lone, published, decisions in steps:
            link.last += published  # one frame may release others, and their events
            assert ingress.next_wait(lone) is None
            assert decide.call_count == decisions
        pressure.spare = 3
        ingress.link_lost()
        ingress.next_wait(lone=True)  # the welcome of the next link
        assert decide.call_count == 4
