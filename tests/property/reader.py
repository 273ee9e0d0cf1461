"""A reader, a peer that sends more than handlers take, and handlers that do as they are told.

Everything but the link is real: the ingress with its file, back-pressure, lanes, iterators.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine, Iterable
from typing import Any, Literal

from arcp_client import Buffer, Timeouts, events
from arcp_client._dispatch.back_pressure import LONE
from arcp_client._link.ingress import Ingress
from arcp_client._protocol.states import State
from arcp_client._wire import names
from arcp_client._wire.bodies import EventFrame
from arcp_client._wire.build import to_event
from arcp_client._wire.codec import decode, encode
from arcp_client.errors import BufferFull
from tests.unit.dispatch.kit import SESSION, Hub

__all__ = ["EVERY", "STALL", "Handler", "Iterator", "Link", "Reader", "event_frame"]

EVERY = 4
"""Frames between two looks."""
STALL = 30.0
REFILL = 32
"""Frames that are taken out of the file before there is another look."""

Order = Literal["return", "free", "ask", "want"]


class Link:
    """Stands for the driver and its session: events that it is given are published at once."""

    state = State.LIVE
    session_id = SESSION

    def __init__(self, hub: Hub) -> None:
        self.session = self
        self.last = 0
        self.answers: dict[str, asyncio.Future[None]] = {}
        self.silent = False
        self._hub = hub
        self._batch: list[events.Event] = []
        self._loop = asyncio.get_running_loop()
        self._wanted: list[tuple[int, asyncio.Future[None]]] = []

    @property
    def now(self) -> float:
        return self._loop.time()

    @property
    def published(self) -> int:
        return self.last

    def received(self, frames: Iterable[bytes]) -> None:
        for data in frames:
            frame = decode(data)
            if isinstance(frame, EventFrame):
                assert frame.event_seq == self.last + 1, "every event once, and in order"
                self.last += 1
                self._batch.append(to_event(frame, data))
            else:
                self.flush()
                answer = self.answers.pop(frame.id)  # type: ignore[arg-type]
                if not answer.done():
                    answer.set_result(None)
        self.flush()

    def flush(self) -> None:
        if not self._batch:
            return
        batch, self._batch = self._batch, []
        self._hub.publish(*batch)
        for number, future in tuple(self._wanted):
            if number <= self.last:
                self._wanted.remove((number, future))
                if not future.done():
                    future.set_result(None)

    def coming(self, number: int) -> asyncio.Future[None]:
        """Resolves with an event that has not come yet."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._wanted.append((number, future))
        return future

    def frame_seen(self) -> None:
        """A frame came that is not received yet."""

    def pause(self, _now: float) -> None:
        assert not self.silent, "the silence clock is stopped twice"
        self.silent = True

    def unpause(self, _now: float) -> None:
        assert self.silent
        self.silent = False

    def in_turn(self, frame: object) -> bool:
        return isinstance(frame, EventFrame)


class Handler:
    """A registration whose handler does nothing without an order.

    Attributes:
        started: the events it was called with.
        ended: those it returned from.
        waits: it awaits something of the link.
        refused: how often that failed, since it could not be read.
    """

    def __init__(self, reader: Reader) -> None:
        self.started: list[int | None] = []
        self.ended: list[int | None] = []
        self.waits = False
        self.refused = 0
        self._free = False
        self._orders: asyncio.Queue[Order] = asyncio.Queue()
        self._reader = reader
        reader.hub.subscribe(self._handle)

    @property
    def obeys(self) -> bool:
        """It runs, and awaits an order."""
        return len(self.started) > len(self.ended) and not self.waits and self._orders.empty()

    def tell(self, order: Order) -> None:
        self._orders.put_nowait(order)

    async def _handle(self, event: events.Event) -> None:
        self.started.append(event.seq)
        while not self._free:
            order = await self._orders.get()
            self._free = order == "free"
            if order == "return":
                break
            self.waits = True
            try:
                if order == "ask":
                    await self._reader.ask()
                elif order == "want":
                    link = self._reader.link
                    self._reader.over = True
                    await self._reader.back_pressure.wait_for(link.coming(link.last + 1))
            except BufferFull:
                self.refused += 1
            finally:
                self.waits = False
        self.ended.append(event.seq)


class Iterator:
    """An iterator over all events, read by a task that may wait for the next one.

    Attributes:
        next: the number that comes next, or is the first of a `Gap`; ``None`` before the first.
    """

    def __init__(self, reader: Reader) -> None:
        self.next: int | None = None
        self._reader = reader
        self._items = reader.hub.events()
        self._pull: asyncio.Task[None] | None = None

    @property
    def outstanding(self) -> int:
        """Events that it was given and is not done with."""
        return self._items.outstanding  # type: ignore[attr-defined,no-any-return]

    def pull(self) -> None:
        """Ask for the next item, unless it already is waited for."""
        if self._pull is None or self._pull.done():
            self._pull = self._reader.spawn(self._one(self._items))

    async def _one(self, items: Any) -> None:
        item = await anext(items)
        assert item.seq == self.next or self.next is None
        self.next = (item.last if isinstance(item, events.Gap) else item.seq) + 1

    def drop(self) -> None:
        """As after ``break``: nobody holds it any more."""
        if self._pull is not None:
            self._pull.cancel()
            self._pull = None  # it knows the frame that knows it
        del self._items


class _NotedIngress(Ingress):
    reader: Reader

    async def _until_stored(self, data: bytes) -> None:
        self.reader.note("FULL")
        await super()._until_stored(data)


class Reader:
    """Reads as a link does, and notes in which state it is.

    Attributes:
        wire: frames that the peer has sent and nobody has read.
        sent: events that it has sent.
        state: as `arcp_client._dispatch.back_pressure` names it.
        steps: each state that it came from, and the one that it came to.
        over: more than the bounds may be in memory: a handler waited for it, or a link has ended.
    """

    def __init__(self, buffer: Buffer, *, handlers: int = 1) -> None:
        self.buffer = buffer
        self.wire: deque[bytes] = deque()
        self.sent: list[bytes] = []
        self.state = "READING"
        self.steps: list[tuple[str, str]] = []
        self.over = False
        self.asked = 0
        self._requests = 0
        self._unanswered: deque[str] = deque()
        self._news = asyncio.Event()
        self._tasks: set[asyncio.Task[Any]] = set()
        self.hub = Hub(
            buffer=buffer, timeouts=Timeouts(stall=STALL), request_pending=lambda: self.asked > 0
        )
        self.back_pressure = self.hub.back_pressure
        self.link = Link(self.hub)
        self.ingress = _NotedIngress(
            self.link,  # type: ignore[arg-type]
            self.back_pressure,
            spill=buffer.spill,
            keep=buffer.bytes,
        )
        self.ingress.reader = self
        self._caught_up = self.back_pressure.caught_up
        self.back_pressure.caught_up = self._held  # type: ignore[method-assign]
        self.handlers = [Handler(self) for _ in range(handlers)]
        self._reading = self.spawn(self._read())

    def spawn(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    # -- the reader

    @property
    def failure(self) -> BaseException | None:
        """What ended it, if anything did."""
        return self._reading.exception() if self._reading.done() else None

    def note(self, state: str) -> None:
        self.steps.append((self.state, state))
        self.state = state

    async def _held(self) -> None:
        self.note("HELD")
        await self._caught_up()

    async def _next(self) -> bytes:
        while not self.wire:
            self._news.clear()
            await self._news.wait()
        return self.wire.popleft()

    async def _read(self) -> None:
        await self._look()  # at once, as after a welcome
        while True:
            lone = False
            if self.ingress.aside:
                await self.ingress.set_aside(await self._next())
            else:
                frames = [await self._next()]
                frames += [self.wire.popleft() for _ in range(min(EVERY - 1, len(self.wire)))]
                self.link.received(frames)
                lone = len(frames) == 1 and len(frames[0]) <= LONE
            await self._look(lone)

    async def _look(self, lone: bool = False) -> None:
        self._check_bounds()
        waiting = self.ingress.next_wait(lone)
        if waiting is not None:
            await waiting
        self.note("ASIDE" if self.ingress.aside else "READING")

    def _check_bounds(self) -> None:
        backlog, largest = self.backlog, max(map(len, self.sent), default=0)
        if not self.over:
            assert backlog < self.buffer.hard + max(EVERY, REFILL), "more than hard events"
        assert self.weight <= 2 * self.buffer.bytes + REFILL * largest, "too many bytes"
        self.over = self.back_pressure.urgent or (self.over and backlog > self.buffer.hard)

    @property
    def backlog(self) -> int:
        return self.hub.fan_out.backlog

    @property
    def weight(self) -> int:
        return self.hub.fan_out.weight(self.backlog, 0)

    # -- the peer

    def send(self, count: int, padding: int = 0) -> None:
        """The peer sends events."""
        for _ in range(count):
            frame = event_frame(len(self.sent) + 1, padding)
            self.sent.append(frame)
            self.wire.append(frame)
        self._news.set()

    @property
    def unanswered(self) -> int:
        return len(self._unanswered)

    def answer(self) -> None:
        """The peer answers the oldest request, behind all that it has sent."""
        name = self._unanswered.popleft()
        self.wire.append(encode(names.PONG, {"ping_nonce": name}, id=name))
        self._news.set()

    async def ask(self) -> None:
        """Make a request, and wait for its answer."""
        self._requests += 1
        name = f"r{self._requests}"
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with self.back_pressure.awaiting(answer):
            self.link.answers[name] = answer
            self._unanswered.append(name)
            self.asked += 1
            try:
                self.back_pressure.progress()
                await answer
            finally:
                self.asked -= 1

    async def relink(self) -> None:
        """The link ends; over the next one comes what was not received, and requests go again."""
        self._reading.cancel()
        await asyncio.wait([self._reading])
        self.over = True  # what waited in the file may now be in memory
        self.ingress.link_lost()
        self.note("READING")
        self.wire = deque(self.sent[self.link.last :])
        self._unanswered = deque(self.link.answers)
        self._news.set()
        self._reading = self.spawn(self._read())

    async def close(self) -> None:
        """End all that runs."""
        for handler in self.handlers:
            handler.tell("free")
        for task in tuple(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.ingress.close()


def event_frame(number: int, padding: int = 0) -> bytes:
    body = {"level": "info", "message": "x" * padding}
    payload = {"kind": "log", "ts": "2026-05-13T23:42:00Z", "body": body}
    return encode(
        names.EVENT,
        payload,
        id=f"e{number}",
        session_id=SESSION,
        job_id="job_1",
        event_seq=number,
    )
