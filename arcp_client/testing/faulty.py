"""Drops, repeats, delays and reorders the frames of a transport, according to a plan.

`FaultyProxy` injects faults into TCP connections; this module injects faults into frames, over any
transport. The same seed always gives the same faults.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

from arcp_client import _arguments as check
from arcp_client.errors import LinkLost
from arcp_client.transports._ending import again
from arcp_client.transports.base import Connector, LineTransport, Transport

__all__ = [
    "Chance",
    "Cut",
    "Delay",
    "Drop",
    "FaultyConnector",
    "FaultyTransport",
    "FrameFault",
    "Reorder",
    "Repeat",
]

Way: TypeAlias = Literal["in", "out"]


@dataclass(frozen=True)
class Chance:
    """Selects each frame with a probability, from the transport's seeded generator."""

    probability: float

    def __post_init__(self) -> None:
        check.a_real("Chance.probability", self.probability, least=0)
        if self.probability > 1:
            raise ValueError(f"Chance.probability must be 1 or less, not {self.probability!r}")


When: TypeAlias = "int | Collection[int] | Chance | Callable[[bytes], bool]"


def _check(fault: Drop | Repeat | Reorder | Delay) -> None:
    name = type(fault).__name__
    check.any_of(f"{name}.way", fault.way, ("in", "out"))
    when = fault.when
    if isinstance(when, Chance | range) or callable(when):
        return
    what = "indexes, an index, a Chance or a function of the frame"
    indexes = (when,) if isinstance(when, int) else check.several(f"{name}.when", when, int, what)
    for index in indexes:
        check.a_number(f"{name}.when", index, least=0)


@dataclass(frozen=True)
class Drop:
    """Drop the selected frames.

    Attributes:
        when: which frames: an index or several (the first frame in that direction is 0), a
            predicate over the frame, or a `Chance`.
        way: "in" for received frames, "out" for sent frames.
    """

    when: When
    way: Way = "in"

    def __post_init__(self) -> None:
        _check(self)


@dataclass(frozen=True)
class Repeat:
    """Forward the selected frames ``times`` times in a row."""

    when: When
    times: int = 2
    way: Way = "in"

    def __post_init__(self) -> None:
        _check(self)
        check.a_number("Repeat.times", self.times, least=1)


@dataclass(frozen=True)
class Reorder:
    """Hold each selected frame until ``by`` later frames have passed, or the link ends."""

    when: When
    by: int = 1
    way: Way = "in"

    def __post_init__(self) -> None:
        _check(self)
        check.a_number("Reorder.by", self.by, least=1)


@dataclass(frozen=True)
class Delay:
    """Forward the selected frames, and all frames behind them, ``seconds`` later."""

    when: When
    seconds: float
    way: Way = "in"

    def __post_init__(self) -> None:
        _check(self)
        check.seconds("Delay.seconds", self.seconds)


@dataclass(frozen=True)
class Cut:
    """End the link after ``after`` frames in that direction."""

    after: int
    way: Way = "in"

    def __post_init__(self) -> None:
        check.a_number("Cut.after", self.after, least=0)
        check.any_of("Cut.way", self.way, ("in", "out"))


FrameFault: TypeAlias = Drop | Repeat | Reorder | Delay | Cut


class _Course:
    """Applies the plan to one direction: turns each frame into zero or more frames with delays."""

    def __init__(self, plan: Iterable[FrameFault], generator: random.Random) -> None:
        self._plan = list(plan)
        self._generator = generator
        self._seen = 0
        self._held: list[tuple[int, float, bytes]] = []
        self._cut = min((f.after for f in self._plan if isinstance(f, Cut)), default=None)

    @property
    def cut(self) -> bool:
        """Whether the plan's limit of frames is reached."""
        return self._cut is not None and self._seen >= self._cut

    def enter(self, frame: bytes) -> list[tuple[float, bytes]]:
        index, copies, later, delay = self._seen, 1, 0, 0.0
        self._seen += 1
        for fault in self._plan:
            if isinstance(fault, Cut) or not self._selected(fault.when, index, frame):
                continue
            match fault:
                case Drop():
                    copies = 0
                case Repeat(times=times):
                    copies *= times
                case Reorder(by=by):
                    later = max(later, by)
                case Delay(seconds=seconds):
                    delay += seconds
        passed: list[tuple[float, bytes]] = []
        due = [(left - 1, wait, late) for left, wait, late in self._held]
        if later:
            due += [(later, delay, frame)] * copies
        else:
            passed += [(delay, frame)] * copies
        passed += [(wait, late) for left, wait, late in due if left <= 0]
        self._held = [entry for entry in due if entry[0] > 0]
        return passed

    def rest(self) -> list[tuple[float, bytes]]:
        held, self._held = self._held, []
        return [(wait, frame) for _, wait, frame in held]

    def _selected(self, when: When, index: int, frame: bytes) -> bool:
        if isinstance(when, Chance):
            return self._generator.random() < when.probability
        if isinstance(when, int):
            return index == when
        if callable(when):
            return when(frame)
        return index in when


class FaultyTransport:
    """A transport whose frames go through a plan.

    ::

        FaultyTransport(transport, plan=[Drop(3), Repeat(is_event), Cut(after=10, way="out")])

    Args:
        transport: the underlying transport, which is closed with this one.
        plan: the faults; each frame goes through all of them.
        seed: the seed of the generator for `Chance`.
    """

    def __init__(
        self, transport: Transport, *, plan: Iterable[FrameFault], seed: int | str = 0
    ) -> None:
        plan = list(plan)
        self._transport = transport
        self._incoming = self._course(plan, "in", seed)
        self._outgoing = self._course(plan, "out", seed)
        self._ready: deque[tuple[float, bytes]] = deque()
        self._sending = asyncio.Lock()  # a delayed frame keeps its position among the senders
        self._lost: LinkLost | None = None

    def _course(self, plan: list[FrameFault], way: Way, seed: int | str) -> _Course:
        chosen = [fault for fault in plan if fault.way == way]
        return _Course(chosen, random.Random(f"{seed} {way}"))

    @property
    def lines(self) -> bool:
        """Whether the underlying link sends frames as lines."""
        return isinstance(self._transport, LineTransport) and self._transport.lines

    async def send(self, frame: bytes) -> None:
        """Send the frames that the plan makes of this one, after their delays.

        Raises:
            LinkLost: the link has ended, or the plan cut it.
        """
        async with self._sending:
            await self._cut_if_due(self._outgoing)
            for seconds, passed in self._outgoing.enter(frame):
                if seconds:
                    await asyncio.sleep(seconds)
                await self._transport.send(passed)

    async def receive(self) -> bytes:
        """Return the next frame that the plan forwards. A cancelled call loses none.

        Raises:
            LinkLost: the link has ended, or the plan cut it.
        """
        loop = asyncio.get_running_loop()
        while not self._ready:
            if self._lost is not None:
                raise again(self._lost)
            await self._cut_if_due(self._incoming)
            try:
                frame = await self._transport.receive()
                passed = self._incoming.enter(frame)
            except LinkLost as lost:
                self._lost = lost
                passed = self._incoming.rest()
            now = loop.time()
            self._ready.extend((now + seconds, late) for seconds, late in passed)
        due, frame = self._ready[0]
        if due > loop.time():
            await asyncio.sleep(due - loop.time())
        self._ready.popleft()
        return frame

    async def close(self, *, timeout: float = 5.0) -> None:
        """Close the underlying link."""
        await self._transport.close(timeout=timeout)

    async def _cut_if_due(self, course: _Course) -> None:
        if course.cut:
            await self._transport.close(timeout=0.0)
            raise LinkLost("cut by the plan")


class FaultyConnector:
    """A connector whose links go through a plan.

    Args:
        connector: makes the links underneath.
        plan: the faults of every link, or a function from the link's number (the first is 0) to
            the faults of that one.
        seed: the seed for `Chance`; each link has its own generator.

    Attributes:
        links: the links made so far.
    """

    def __init__(
        self,
        connector: Connector,
        *,
        plan: Iterable[FrameFault] | Callable[[int], Iterable[FrameFault]] = (),
        seed: int | str = 0,
    ) -> None:
        self._connector = connector
        self._plan = plan if callable(plan) else tuple(plan)
        self._seed = seed
        self.links: list[FaultyTransport] = []

    @property
    def target(self) -> str:
        """The target of the underlying connector."""
        return self._connector.target

    async def connect(self) -> FaultyTransport:
        """Open the next link.

        Raises:
            ConnectFailed: like the underlying connector.
        """
        number = len(self.links)
        transport = await self._connector.connect()
        plan = self._plan(number) if callable(self._plan) else self._plan
        link = FaultyTransport(transport, plan=plan, seed=f"{self._seed} {number}")
        self.links.append(link)
        return link
