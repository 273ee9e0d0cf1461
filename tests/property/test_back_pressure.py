"""Back-pressure (D6) against what it promises: everything arrives, nothing waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from arcp_client import Buffer
from arcp_client._dispatch import back_pressure
from arcp_client.testing import VirtualClock
from tests.property.reader import STALL, Handler, Iterator, Reader
from tests.property.tables import Row, rows_of

STATES = ("READING", "HELD", "ASIDE", "FULL")
STEPS = {
    (state, row.to)
    for row in rows_of(back_pressure)
    for state in (STATES if row.state == "any" else [row.state])
}
# Once the file has room, a check of ASIDE may lead a full reader on at once.
STEPS |= {("FULL", row.to) for row in rows_of(back_pressure) if row.state == "ASIDE"}

BUFFERS = st.builds(
    lambda soft, more, bytes_, spill: Buffer(
        soft=soft, hard=soft + more, bytes=bytes_, spill=spill
    ),
    st.sampled_from([1, 2, 5, 100]),
    st.sampled_from([0, 3, 40]),
    st.sampled_from([1, 1500, 1_000_000]),
    st.sampled_from([0, 600, 3000, 1_000_000]),
)


class Reading(RuleBasedStateMachine):
    """Frames come, handlers return or do not, and somebody waits for something."""

    @initialize(buffer=BUFFERS, handlers=st.integers(min_value=0, max_value=2))
    def begin(self, buffer: Buffer, handlers: int) -> None:
        self.clock = VirtualClock()
        self.runner = asyncio.Runner(loop_factory=self.clock.new_loop)
        self.results = 0
        self.iterators: list[Iterator] = []
        self.reader = self.run(_made(buffer, handlers))

    def run(self, coro: Coroutine[Any, Any, Any]) -> Any:
        """Run something, and then everything that can run without time passing."""

        async def all_of_it() -> Any:
            result = await coro
            await self.clock.settle()
            return result

        return self.runner.run(all_of_it())

    def do(self, act: Any, *arguments: object) -> None:
        async def acted() -> None:
            act(*arguments)

        self.run(acted())

    def handler(self, which: int) -> Handler | None:
        obedient = [handler for handler in self.reader.handlers if handler.obeys]
        return obedient[which % len(obedient)] if obedient else None

    # ------------------------------------------------------------------ what happens

    @rule(count=st.integers(1, 60), padding=st.sampled_from([0, 0, 400]))
    def events_are_sent(self, count: int, padding: int) -> None:
        self.do(self.reader.send, count, padding)

    @precondition(lambda self: self.reader.unanswered)
    @rule()
    def a_request_is_answered(self) -> None:
        self.do(self.reader.answer)

    @rule(which=st.integers(0, 1), count=st.integers(1, 20))
    def a_handler_returns(self, which: int, count: int) -> None:
        for _ in range(count):
            handler = self.handler(which)
            if handler is not None:
                self.do(handler.tell, "return")

    @rule(which=st.integers(0, 1))
    def a_handler_asks(self, which: int) -> None:
        handler = self.handler(which)
        if handler is not None:
            self.do(handler.tell, "ask")

    @rule(which=st.integers(0, 1))
    def a_handler_waits_for_an_event(self, which: int) -> None:
        handler = self.handler(which)
        if handler is not None:
            self.do(handler.tell, "want")

    @rule()
    def somebody_else_asks(self) -> None:
        self.do(lambda: self.reader.spawn(self.reader.ask()))

    @precondition(lambda self: len(self.iterators) < 2)
    @rule()
    def an_iterator_is_made(self) -> None:
        self.do(lambda: self.iterators.append(Iterator(self.reader)))

    @precondition(lambda self: self.iterators)
    @rule()
    def an_iterator_is_dropped(self) -> None:
        self.do(self.iterators.pop().drop)

    @precondition(lambda self: self.iterators)
    @rule(count=st.integers(1, 20))
    def an_iterator_is_read(self, count: int) -> None:
        for _ in range(count):
            self.do(self.iterators[-1].pull)

    @rule()
    def a_result_is_awaited(self) -> None:
        reader = self.reader
        self.results += 1
        never = asyncio.Future[None](loop=self.runner.get_loop())
        self.do(lambda: reader.spawn(reader.back_pressure.wait_for(never, result=True)))

    @rule()
    def the_link_breaks(self) -> None:
        self.run(self.reader.relink())

    @rule()
    def time_passes(self) -> None:
        # One is cut, the reader goes on, and then the next one is full.
        self.run(self.clock.advance(2 * STALL * (len(self.iterators) + 1)))
        if self.results and self.reader.state in ("HELD", "FULL"):
            low = self.reader.back_pressure.low
            assert all(one.outstanding <= low for one in self.iterators), "a result is held up"

    # ------------------------------------------------------------------ what always holds

    @invariant()
    def the_reader_is_well(self) -> None:
        if self.reader.failure is not None:
            raise self.reader.failure

    @invariant()
    def every_step_is_in_the_table(self) -> None:
        assert set(self.reader.steps) <= STEPS

    @invariant()
    def handlers_get_every_event_once_and_in_order(self) -> None:
        for handler in self.reader.handlers:
            assert handler.started == list(range(1, len(handler.started) + 1))
            assert handler.ended == handler.started[: len(handler.ended)]

    @invariant()
    def silence_is_not_counted_while_nobody_reads(self) -> None:
        assert self.reader.link.silent is (self.reader.state in ("HELD", "FULL"))

    @invariant()
    def the_reader_stops_for_a_reason(self) -> None:
        reader = self.reader
        waiting = any(handler.waits for handler in reader.handlers)
        if reader.wire:
            assert reader.state in ("HELD", "FULL"), "frames wait, and nobody reads"
        if reader.state == "HELD":
            assert not waiting
            assert not reader.asked
            assert self.consumers_are_behind() or reader.ingress.spilled
        elif reader.state == "FULL":
            assert not waiting, "a handler waits for the reader, which waits for it"

    @invariant()
    def what_waits_in_the_file_waits_for_a_reason(self) -> None:
        if self.reader.ingress.spilled:
            assert self.consumers_are_behind()
            assert not self.reader.back_pressure.urgent

    def consumers_are_behind(self) -> bool:
        reader = self.reader
        few = min(reader.back_pressure.low, reader.buffer.soft - 1)
        return reader.backlog > few or reader.weight >= reader.buffer.bytes

    def teardown(self) -> None:
        if not hasattr(self, "reader"):
            return
        try:
            self.check_the_end()
        finally:
            self.run(self.reader.close())
            self.runner.close()

    def check_the_end(self) -> None:
        """Everybody does their part; then nothing is left, and nobody waits."""
        reader = self.reader
        while self.iterators:
            self.an_iterator_is_dropped()
        for handler in reader.handlers:
            self.do(handler.tell, "free")
        while reader.unanswered:
            self.a_request_is_answered()
        self.do(reader.send, 1)
        for handler in reader.handlers:
            assert handler.ended == list(range(1, len(reader.sent) + 1))
        assert reader.link.last == len(reader.sent)
        assert not reader.wire
        assert reader.state in ("READING", "ASIDE")
        assert not reader.ingress.spilled
        assert not reader.asked
        assert not reader.back_pressure.progress_wanted


async def _made(buffer: Buffer, handlers: int) -> Reader:
    return Reader(buffer, handlers=handlers)


# ------------------------------------------------------------------ the table, row by row

SMALL = Buffer(soft=4, hard=8)


class World:
    """A clock, and the readers that go by it."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.settle = self.clock.settle
        self._readers: list[Reader] = []

    def run(self, scene: Callable[[World], Coroutine[Any, Any, None]]) -> None:
        """Play a scene to its end, and clear up."""

        async def whole() -> None:
            try:
                await scene(self)
            finally:
                for reader in self._readers:
                    await reader.close()
                await self.settle()

        self.clock.run(whole())

    async def reader(
        self, buffer: Buffer = SMALL, *, handlers: int = 1, asked: bool = False
    ) -> Reader:
        """A reader; ``asked``: while a request waits for its answer."""
        reader = Reader(buffer, handlers=handlers)
        self._readers.append(reader)
        if asked:
            reader.spawn(reader.ask())
            await asyncio.sleep(0)
        return reader


Scenario = Callable[[World], Coroutine[Any, Any, Reader]]


async def _keeping_up(world: World) -> Reader:
    reader = await world.reader()
    reader.handlers[0].tell("free")
    reader.send(20)
    return reader


async def _behind_soft(world: World) -> Reader:
    reader = await world.reader()
    reader.send(6)
    await world.settle()
    assert reader.state == "HELD"
    return reader


async def _asked_behind_soft(world: World) -> Reader:
    reader = await world.reader(asked=True)
    reader.send(6)
    return reader


async def _asked_behind_hard(world: World) -> Reader:
    reader = await world.reader(asked=True)
    reader.send(20)
    await world.settle()
    assert reader.state == "ASIDE"
    assert reader.ingress.spilled
    return reader


async def _held_with_a_file(world: World) -> Reader:
    reader = await _asked_behind_hard(world)
    reader.answer()
    await world.settle()
    reader.send(1)
    await world.settle()
    assert reader.state == "HELD"
    assert reader.ingress.spilled
    return reader


async def _full(world: World, spill: int = 600) -> Reader:
    reader = await world.reader(Buffer(soft=4, hard=8, spill=spill), asked=True)
    reader.send(30)
    await world.settle()
    assert reader.state == "FULL"
    return reader


async def _caught_up(world: World, start: Scenario, more: int = 0) -> Reader:
    reader = await start(world)
    reader.handlers[0].tell("free")
    await world.settle()
    reader.send(more)
    return reader


async def _then_asked(world: World, start: Scenario) -> Reader:
    reader = await start(world)
    reader.spawn(reader.ask())
    return reader


async def _full_and_asked_no_longer(world: World) -> Reader:
    reader = await world.reader(Buffer(soft=4, hard=8, spill=600))
    asking = reader.spawn(reader.ask())
    await asyncio.sleep(0)
    reader.send(30)
    await world.settle()
    assert reader.state == "FULL"
    asking.cancel()
    for _ in range(6):
        reader.handlers[0].tell("return")
    return reader


async def _relinked(world: World) -> Reader:
    for start in (_behind_soft, _asked_behind_hard, _full):
        reader = await start(world)
        before = reader.state
        await reader.relink()
        assert (before, "READING") in reader.steps
    reader = await _keeping_up(world)
    await reader.relink()
    return reader


SCENARIOS: dict[tuple[str, str, str], Scenario] = {
    ("READING", "check: consumers keep up", "READING"): _keeping_up,
    (
        "READING",
        "check: soft is reached, and a message is awaited",
        "READING",
    ): _asked_behind_soft,
    ("READING", "check: soft is reached, and no message is awaited", "HELD"): _behind_soft,
    ("READING", "check: memory is full, and a message is awaited", "ASIDE"): _asked_behind_hard,
    ("HELD", "consumers have caught up", "READING"): partial(_caught_up, start=_behind_soft),
    ("HELD", "a message is awaited, and the file is empty", "READING"): partial(
        _then_asked, start=_behind_soft
    ),
    ("HELD", "a message is awaited, and events wait in the file", "ASIDE"): partial(
        _then_asked, start=_held_with_a_file
    ),
    ("ASIDE", "check: events wait in the file, or memory is full", "ASIDE"): _asked_behind_hard,
    ("ASIDE", "check: the file is empty, and memory is not full", "READING"): partial(
        _caught_up, start=_asked_behind_hard, more=1
    ),
    ("ASIDE", "check: soft is reached, and no message is awaited", "HELD"): _held_with_a_file,
    ("ASIDE", "the file has no room for a frame", "FULL"): _full,
    ("FULL", "the file has room", "ASIDE"): partial(_caught_up, start=_full),
    ("any", "the link has ended", "READING"): _relinked,
}


@pytest.mark.parametrize("row", rows_of(back_pressure), ids=str)
def test_each_row_of_the_table_is_a_step_of_the_reader(row: Row) -> None:
    """D6."""

    async def scene(world: World) -> None:
        reader = await SCENARIOS[row](world)
        await world.settle()
        state = row.state if row.state != "any" else "READING"
        assert (state, row.to) in reader.steps
        assert set(reader.steps) <= STEPS

    World().run(scene)


@pytest.mark.parametrize(
    ("scenario", "to"),
    [
        (_full_and_asked_no_longer, "HELD"),
        (partial(_caught_up, start=partial(_full, spill=0)), "READING"),
    ],
)
def test_a_full_reader_is_led_on_at_once_where_a_check_of_aside_applies(
    scenario: Scenario, to: str
) -> None:
    """D6."""

    async def scene(world: World) -> None:
        reader = await scenario(world)
        await world.settle()
        assert ("FULL", to) in reader.steps
        assert set(reader.steps) <= STEPS

    World().run(scene)


def test_a_frame_that_is_larger_than_the_file_waits_without_turning_the_loop() -> None:
    """D6: time passes at once, since nothing runs while the reader waits for room."""

    async def scene(world: World) -> None:
        reader = await _full(world, spill=0)
        await world.clock.advance(60)
        assert reader.state == "FULL"
        reader.handlers[0].tell("free")
        await world.settle()
        assert reader.handlers[0].ended == list(range(1, 31))

    World().run(scene)


def test_links_that_break_again_and_again_fill_no_memory() -> None:
    """D6: what is read on a new link counts from its first event on."""

    async def scene(world: World) -> None:
        reader = await _behind_soft(world)
        reader.send(1000)
        for _ in range(50):
            await reader.relink()
            await world.settle()
        assert reader.backlog == 4

    World().run(scene)


def test_links_that_break_while_something_is_awaited_fill_no_memory() -> None:
    """D6: what waits in the file is not read into memory whatever is there already."""
    buffer = Buffer(soft=4, hard=8, bytes=4000)

    async def scene(world: World) -> None:
        reader = await world.reader(buffer, asked=True)
        reader.send(1000)
        for _ in range(50):
            reader.wire.clear()
            reader.wire.extend(reader.sent[reader.link.last :][:12])
            await world.settle()
            await reader.relink()
        assert reader.weight <= 2 * buffer.bytes + 12 * len(reader.sent[-1])

    World().run(scene)


def test_an_iterator_that_is_let_go_of_holds_up_nobody_while_a_result_is_awaited() -> None:
    """D8: at once, and not when it would have been cut."""

    async def scene(world: World) -> None:
        reader = await world.reader(handlers=0)
        iterator = Iterator(reader)
        reader.send(20)
        result = asyncio.get_running_loop().create_future()
        reader.spawn(reader.back_pressure.wait_for(result, result=True))
        await world.settle()
        assert reader.state == "HELD"
        iterator.drop()
        del iterator
        await world.settle()
        assert world.clock.time() == 0.0
        assert reader.link.last == 20

    World().run(scene)


TestReading = Reading.TestCase
TestReading.settings = settings(max_examples=60, stateful_step_count=40)
