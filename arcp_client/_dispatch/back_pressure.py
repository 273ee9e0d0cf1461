"""Decides when the reader of the link pauses because consumers are behind (back-pressure, D6).

At the soft limit the reader pauses, and TCP holds the peer back. The reader continues while
something is awaited that only it can bring: the answer to a request, or an event that a running
handler waits for. Beyond the hard limit it writes events to a file (`arcp_client._link.ingress`).

=======  =======================================================  =======
reader   on                                                       next
=======  =======================================================  =======
READING  a look: consumers keep up                                READING
READING  a look: soft is reached, and something is awaited        READING
READING  a look: soft is reached, and nothing is awaited          HELD
READING  a look: hard is reached, and something is awaited        ASIDE
HELD     consumers have caught up                                 READING
HELD     something is awaited                                     READING
HELD     something is awaited, and events wait in the file        ASIDE
ASIDE    a look: events wait in the file, or hard is reached      ASIDE
ASIDE    a look: the file is empty, and consumers have caught up  READING
ASIDE    a look: soft is reached, and nothing is awaited          HELD
ASIDE    the file has no room for a frame                         FULL
FULL     there is room, and something is awaited                  ASIDE
FULL     there is room, and nothing is awaited                    HELD
FULL     the file is empty, and consumers have caught up          READING
any      the link has ended                                       READING
=======  =======================================================  =======

The reader checks every few frames. *Consumers have caught up* when the slowest has at most half of
the soft limit outstanding. While a handler awaits an event, the hard limit counts bytes and not
events. A handler that waits for data which the reader cannot read, because the file or memory is
full, gets BufferFull.
"""

from __future__ import annotations

import asyncio
import enum
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from arcp_client._dispatch.deadlock import calling
from arcp_client._dispatch.slow_consumers import SLOW_AFTER
from arcp_client.errors import BufferFull
from arcp_client.events import Event
from arcp_client.policy import Buffer

__all__ = ["AllConsumers", "BackPressure", "Reading", "Slow"]


_TURN = 64
"""Events that wait from which on the reader lets consumers have a turn."""


class Reading(enum.Enum):
    """What the reader does next."""

    ON = "on"
    BY_TURNS = "by turns"
    """Read on when consumers had a turn of the loop: what they take is still in the cache then."""
    HELD = "held"
    """Stop, until consumers have caught up or something is awaited."""
    ASIDE = "aside"
    """Read on, and keep events out of memory."""


class Slow(Protocol):
    """An iterator, which may be why nothing moves."""

    pulls: int

    @property
    def outstanding(self) -> int:
        """Events that wait in it."""

    def cut(self) -> None:
        """Drop them."""


class AllConsumers(Protocol):
    """All consumers together."""

    def backlog(self) -> int:
        """Events that the slowest one has outstanding."""

    def weight(self, backlog: int, limit: int) -> int:
        """Bytes that the slowest one has outstanding; exact only above ``limit``."""

    def iterators(self) -> Iterable[Slow]:
        """The iterators among them."""


class BackPressure:
    """The bound between the reader and the consumers of one client.

    Args:
        buffer: the bounds.
        crowd: the consumers.
        asked: whether a request waits for its answer.
        stall: seconds after which an iterator that nobody pulls no longer holds up a result.
        behind: called every few frames, and when the reader has stopped for a moment.
        check_loop: raises LocalProtocolError unless the caller is in the client's event loop.

    Attributes:
        low: events outstanding at which the reader goes on.
        progress_wanted: the reader waits until consumers have caught up.
        heavy: it is bytes that they are behind by, so that every event counts.
        follower: told of every event that a consumer is done with, and with ``None`` when more
            may be asked for; nobody by default.
        paused: what the reader waits for, while it does.
        pauses: how often it has stopped.
        refill: called when consumers have caught up while events wait in a file.
    """

    def __init__(
        self,
        buffer: Buffer,
        crowd: AllConsumers,
        *,
        asked: Callable[[], bool],
        stall: float,
        behind: Callable[[], None],
        check_loop: Callable[[], None],
    ) -> None:
        self.check_loop = check_loop
        self.low = max(buffer.soft // 2, 1)
        self.progress_wanted = False
        self.heavy = False
        self._follower: Callable[[Event | None], None] | None = None
        self.watching = False
        self.pauses = 0
        self.refill: Callable[[], None] | None = None
        self._buffer = buffer
        self._crowd = crowd
        self._asked = asked
        self._stall = stall
        self._behind = behind
        self.paused: asyncio.Future[None] | None = None
        self._stored = False
        self._full = False
        self._inside: set[asyncio.Future[Any]] = set()
        self._events: set[asyncio.Future[Any]] = set()
        self._results = 0
        self._timer: asyncio.TimerHandle | None = None
        self._suspects: list[tuple[weakref.ref[Slow], int]] = []

    # ------------------------------------------------------------------ the reader's side

    def look(self) -> Reading:
        """What the reader does next; to be asked every few frames."""
        self._behind()
        if self._fits(self._buffer.soft):
            return Reading.ON if self._crowd.backlog() < _TURN else Reading.BY_TURNS
        if not self._must_read():
            return Reading.HELD
        return Reading.ASIDE if self.beyond else Reading.ON

    @property
    def room(self) -> bool:
        """Whether consumers may be given more of what waits in a file.

        What a handler waits for may be in there. So for events that it waits for, memory is
        bounded by bytes alone, and where that is not enough, its wait fails.
        """
        if not self._events:
            return self._fits(self._buffer.soft)
        if self._fits(None):
            return True
        for future in tuple(self._events):
            if not future.done():
                future.set_exception(_full())
        return False

    @property
    def beyond(self) -> bool:
        """Whether no more may be kept in memory, although something is awaited."""
        return not self._fits(None if self._events else self._buffer.hard)

    @property
    def weight(self) -> int:
        """Bytes that the slowest consumer has outstanding."""
        return self._crowd.weight(self._crowd.backlog(), 0)

    def _fits(self, events: int | None) -> bool:
        limit = self._buffer.bytes
        backlog = self._crowd.backlog()
        if events is not None and backlog >= events:
            return False
        light = self._crowd.weight(backlog, limit) < limit
        if not light:
            self.heavy = True
        return light

    async def caught_up(self) -> None:
        """Wait until consumers have caught up or something is awaited."""
        self.pauses += 1
        loop = asyncio.get_running_loop()
        self.paused = loop.create_future()
        self._watch()
        moment = loop.call_later(SLOW_AFTER, self._behind)
        try:
            await self.paused
        finally:
            moment.cancel()
            self.paused = None
            self._watch()

    def stored(self, some: bool) -> None:
        """Events wait in a file, or no longer do."""
        self._stored = some
        self._watch()

    @property
    def full(self) -> bool:
        """Whether the reader had to stop although something is awaited."""
        return self._full

    @full.setter
    def full(self, full: bool) -> None:
        self._full = full
        if full:
            # Handlers that wait for the reader, which waits for them: one of the two must give.
            for future in tuple(self._inside):
                if not future.done():
                    future.set_exception(_full())
        self._watch()

    def progress(self) -> None:
        """A consumer finished something, or something is awaited now: perhaps read on.

        Callers look at `progress_wanted` first.
        """
        if self._follower is not None:
            self._follower(None)
        caught_up = bool(self._events) or self._crowd.backlog() <= self.low
        if caught_up and self._stored and self.refill is not None:
            self.refill()
        paused = self.paused
        if paused is None or paused.done():
            return
        if self._must_read() or (caught_up and not self._stored and self._fits(None)):
            paused.set_result(None)

    def _watch(self) -> None:
        stuck = self.paused is not None or self._full
        self.progress_wanted = stuck or self._stored
        self.heavy = self.heavy and self.progress_wanted
        self.watching = self.progress_wanted or self._follower is not None
        if stuck and self._results:
            self._suspect()
        elif self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self._suspects.clear()

    @property
    def follower(self) -> Callable[[Event | None], None] | None:
        return self._follower

    @follower.setter
    def follower(self, follower: Callable[[Event | None], None] | None) -> None:
        self._follower = follower
        self._watch()

    @property
    def urgent(self) -> bool:
        """Whether a running handler waits for what only later events bring."""
        return bool(self._events)

    def _must_read(self) -> bool:
        return bool(self._inside) or self._asked()

    # ------------------------------------------------------------------ those who wait

    async def wait_for(self, future: asyncio.Future[Any], *, result: bool = False) -> None:
        """Wait for what only the link can bring; in a handler, the reader reads on for it.

        Args:
            future: what resolves then.
            result: it is the end of a job, or a piece of its result.

        Raises:
            BufferFull: in a handler, the reader cannot read on.
            LocalProtocolError: the caller is in another event loop, and would not be woken.
        """
        self.check_loop()
        if result:
            self._results += 1
            self._watch()
        try:
            with self.inside(future, events=True):
                self.progress()
                await future
        finally:
            # The error it may hold knows this frame: a circle that would keep alive whoever waits,
            # an iterator among them, for which events are kept.
            del future
            if result:
                self._results -= 1
                self._watch()

    @contextmanager
    def inside(self, future: asyncio.Future[Any], *, events: bool = False) -> Iterator[None]:
        """Something is awaited; if that is in a handler, read on for it.

        Args:
            future: what is awaited.
            events: it comes with an event, and not with an answer.

        Raises:
            BufferFull: in a handler, the reader cannot read on.
        """
        if calling() is None:
            yield
            return
        if self._full:
            raise _full()
        self._inside.add(future)
        if events:
            self._events.add(future)
        try:
            yield
        finally:
            self._inside.discard(future)
            self._events.discard(future)

    # ------------------------------------------------------------------ nothing moves

    def _suspect(self) -> None:
        if self._timer is None:
            # Weakly: whoever lets go of an iterator need not wait for the timer.
            self._suspects = [(weakref.ref(one), one.pulls) for one in self._crowd.iterators()]
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._stall, self._cut)

    def _cut(self) -> None:
        self._timer = None
        suspects, self._suspects = self._suspects, []
        for suspect, pulls in suspects:
            iterator = suspect()
            if iterator is None or iterator.pulls != pulls:
                continue
            if iterator.outstanding > self.low:
                iterator.cut()
        self.progress()
        self._watch()


def _full() -> BufferFull:
    return BufferFull(
        "too many events wait, in memory and on disk: what this handler waits for cannot be read"
        " until it has returned"
    )
