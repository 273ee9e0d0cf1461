"""Decides when the reader of the link pauses because consumers are behind (back-pressure).

When ``Buffer.soft`` events or ``Buffer.bytes`` are outstanding (*soft is reached*), the reader
pauses, and TCP slows the runtime down. The reader does not pause while a *message is awaited*: the
answer to a request, or an event that a running handler waits for. In that case it writes events to
a file when memory is full (`arcp_client._link.ingress`). Memory is full when ``Buffer.hard`` events
or the same ``Buffer.bytes`` are outstanding; while a handler waits for an event, only
``Buffer.bytes`` counts.

The states of the reader: READING (`Reading.ON`, or `Reading.BY_TURNS`: it lets consumers run
between reads), HELD (it is paused), ASIDE (it writes events to the file) and FULL (it is paused
because the file has no room; `Reading` has no value for this).

=======  =======================================================  =======
reader   on                                                       next
=======  =======================================================  =======
READING  check: consumers keep up                                 READING
READING  check: soft is reached, and a message is awaited         READING
READING  check: soft is reached, and no message is awaited        HELD
READING  check: memory is full, and a message is awaited          ASIDE
HELD     consumers have caught up                                 READING
HELD     a message is awaited, and the file is empty              READING
HELD     a message is awaited, and events wait in the file        ASIDE
ASIDE    check: events wait in the file, or memory is full        ASIDE
ASIDE    check: the file is empty, and memory is not full         READING
ASIDE    check: soft is reached, and no message is awaited        HELD
ASIDE    the file has no room for a frame                         FULL
FULL     the file has room                                        ASIDE
any      the link has ended                                       READING
=======  =======================================================  =======

- *Check*: every few frames, the reader looks at the limits. If two checks apply, the row that leads
  to ASIDE wins in READING, and the row that leads to HELD wins in ASIDE. After a frame that comes
  alone, the reader looks only if that frame may have reached a limit (`BackPressure.spare`).
- *Consumers have caught up* when the slowest one has at most half of ``Buffer.soft`` events, and
  less than ``Buffer.bytes``, outstanding.
- If the file is full too, the reader cannot read what a handler waits for. That handler gets
  BufferFull.

See rule D6 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import enum
import math
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol

from arcp_client._dispatch.deadlock import calling
from arcp_client._dispatch.slow_consumers import SLOW_AFTER
from arcp_client.errors import BufferFull
from arcp_client.events import Event
from arcp_client.policy import Buffer

__all__ = ["LONE", "AllConsumers", "BackPressure", "Reading", "Slow"]


_OUTSIDE = nullcontext()
"""For a wait that no handler makes."""

_TURN = 64
"""Number of waiting events at which the reader yields to consumers; while some wait, also the
number of frames between two decisions.
"""
LONE = 4096
"""Bytes of the largest frame that, if it comes alone, needs no decision of its own."""
_FREE_TURN = 128
"""Number of frames between two decisions while no event waits. With 64, a batch costs 12 % more."""


class Reading(enum.Enum):
    """The next action of the reader."""

    ON = "on"
    BY_TURNS = "by turns"
    """Continue after `BackPressure.let_run`, in which consumers handle cached events."""
    HELD = "held"
    """Stop until consumers have caught up or a message is awaited."""
    ASIDE = "aside"
    """Continue, and write events to the file."""


class Slow(Protocol):
    """An iterator whose outstanding events may block the reader."""

    pulls: int

    @property
    def outstanding(self) -> int:
        """The number of its outstanding events."""

    def cut(self) -> None:
        """Drop its queued events."""


class AllConsumers(Protocol):
    """All consumers of one client."""

    @property
    def backlog(self) -> int:
        """The number of outstanding events of the slowest consumer."""

    def weight(self, backlog: int, limit: int) -> int:
        """Outstanding bytes of the slowest consumer; exact only above ``limit``."""

    def held(self) -> int:
        """The number of events that wait for a checkpoint."""

    def flush_batches(self) -> None:
        """Let handlers of batches get the events that wait, because no further ones come."""

    def iterators(self) -> Iterable[Slow]:
        """The iterators among the consumers."""


class BackPressure:
    """Pauses the reader of one client when its consumers are behind.

    Args:
        buffer: the limits.
        consumers: the consumers.
        request_pending: returns whether a request waits for its answer.
        stall: seconds after which an iterator from which no item is requested no longer blocks the
            reader while a result is awaited.
        check_slow: called every few frames, and `SLOW_AFTER` seconds after the reader has paused.
        check_loop: raises LocalProtocolError unless the caller is in the client's event loop.

    Attributes:
        turn: number of frames that the reader may take in before the next decision.
        spare: number of frames of at most `LONE` bytes, each with one event at most, that may come
            one at a time before the next decision.
        low: number of outstanding events at which the reader continues.
        progress_wanted: whether the reader waits until consumers have caught up.
        heavy: whether the consumers are behind in bytes, so that each processed event may let the
            reader continue.
        follower: called with every processed event, and with ``None`` when consumers may accept
            more events; ``None`` by default.
        paused: the future that a paused reader awaits.
        paused_at: when the reader paused, by the clock of the event loop; ``None`` while it reads.
        resumed_at: when the last pause ended; 0.0 before the first.
        pauses: number of pauses of the reader.
        refill: called when consumers have caught up while events wait in the file.
    """

    def __init__(
        self,
        buffer: Buffer,
        consumers: AllConsumers,
        *,
        request_pending: Callable[[], bool],
        stall: float,
        check_slow: Callable[[], None],
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
        self.turn = self._free_turn = max(_TURN, min(_FREE_TURN, buffer.soft))
        self.spare = 0
        self._buffer = buffer
        self._consumers = consumers
        self._request_pending = request_pending
        self._stall = stall
        self._check_slow = check_slow
        self.paused: asyncio.Future[None] | None = None
        self.paused_at: float | None = None
        self.resumed_at = 0.0
        self._stored = False
        self._full = False
        self._awaited: dict[asyncio.Future[Any], None] = {}  # an empty set is three times as large
        self._events: dict[asyncio.Future[Any], None] = {}
        self._results = 0
        self._timer: asyncio.TimerHandle | None = None
        self._suspects: list[tuple[weakref.ref[Slow], int]] = []

    # ------------------------------------------------------------------ the reader's side

    def decide(self, *, lone: bool = False) -> Reading:
        """Decide the next action of the reader, which calls this every few frames.

        Args:
            lone: the last frame came alone, so `spare` is worth computing.
        """
        self._check_slow()
        backlog = self._consumers.backlog
        self.turn = self._turn_with(backlog)
        self.spare = 0
        if backlog < self._buffer.soft and self._light(backlog):
            if lone:
                self.spare = self._spare(backlog)
            return Reading.ON if backlog < _TURN else Reading.BY_TURNS
        if not self._must_read():
            return Reading.HELD
        return Reading.ASIDE if self.beyond else Reading.ON

    def _spare(self, backlog: int) -> int:
        """The number of lone frames, each of at most one event, that cannot reach a limit."""
        if self._consumers.held():
            return 0  # they count for ``weight`` only from their checkpoint on
        limit = self._buffer.bytes
        weight = self._consumers.weight(backlog, limit)
        events = min(_TURN, self._buffer.soft) - backlog
        return min(events, (limit - weight) // LONE) - 1

    async def let_run(self) -> None:
        """Let consumers run for an iteration of the loop, and a second one if they then catch up.

        In one iteration, a handler gets at most 64 events (rule D5), which is half of a free turn.
        """
        await asyncio.sleep(0)
        if _TURN <= self._consumers.backlog < self._free_turn:
            await asyncio.sleep(0)
        self.turn = self._turn_with(self._consumers.backlog)

    def _turn_with(self, backlog: int) -> int:
        return _TURN if backlog else self._free_turn

    @property
    def room(self) -> bool:
        """Whether consumers may get more events from the file.

        While a handler waits for an event, that event may be in the file, so only the limit in
        bytes applies. At that limit, the handler's wait fails with BufferFull.
        """
        if not self._events:
            return self._fits(self._buffer.soft)
        if self._fits():
            return True
        for future in tuple(self._events):
            if not future.done():
                future.set_exception(_full())
        return False

    @property
    def beyond(self) -> bool:
        """Whether the limit in memory is reached while a message is awaited."""
        return not self._fits(math.inf if self._events else self._buffer.hard)

    @property
    def weight(self) -> int:
        """Outstanding bytes of the slowest consumer."""
        return self._consumers.weight(self._consumers.backlog, 0)

    def _fits(self, events: float = math.inf) -> bool:
        backlog = self._consumers.backlog
        return backlog < events and self._light(backlog)

    def _light(self, backlog: int) -> bool:
        limit = self._buffer.bytes
        light = self._consumers.weight(backlog, limit) < limit
        self.heavy = self.heavy or not light
        return light

    async def caught_up(self) -> None:
        """Wait until consumers have caught up or a message is awaited."""
        self.pauses += 1
        loop = asyncio.get_running_loop()
        self.paused = loop.create_future()
        self.paused_at = loop.time()
        self._watch()
        moment = loop.call_later(SLOW_AFTER, self._check_slow)
        try:
            await self.paused
        finally:
            moment.cancel()
            self.paused = self.paused_at = None
            self.resumed_at = loop.time()
            self._watch()

    def set_stored(self, stored: bool) -> None:
        """Record whether events wait in the file."""
        self._stored = stored
        self._watch()

    @property
    def full(self) -> bool:
        """Whether the reader stopped although a message is awaited, because the file is full."""
        return self._full

    @full.setter
    def full(self, full: bool) -> None:
        self._full = full
        if full:
            # The reader waits for handlers that wait for the reader: the handlers' waits fail.
            for future in tuple(self._awaited):
                if not future.done():
                    future.set_exception(_full())
        self._watch()

    def progress(self) -> None:
        """Let the reader continue if consumers have caught up or a message is awaited.

        Called when a wait begins, and, if `progress_wanted`, when a consumer has processed events.
        """
        if self._follower is not None:
            self._follower(None)
        if self.paused is None and not self._stored:
            return  # nothing needs the backlog, and to compute it takes time with many jobs
        caught_up = bool(self._events) or self._consumers.backlog <= self.low
        if caught_up and self._stored and self.refill is not None:
            self.refill()
        paused = self.paused
        if paused is None or paused.done():
            return
        if self._must_read() or (caught_up and not self._stored and self._fits()):
            paused.set_result(None)

    def _watch(self) -> None:
        stuck = self.paused is not None or self._full
        if (stuck or self._stored) and not self.progress_wanted:
            self._consumers.flush_batches()
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
    def blocked(self) -> bool:
        """Whether no further event comes before consumers have processed earlier ones."""
        return self.progress_wanted or self._consumers.held() > 0

    def hold(self) -> None:
        """Note that events wait for a checkpoint, which may wait for consumers."""
        self._consumers.flush_batches()

    @property
    def urgent(self) -> bool:
        """Whether a running handler waits for a later event."""
        return bool(self._events)

    def _must_read(self) -> bool:
        return bool(self._awaited) or self._request_pending()

    # ------------------------------------------------------------------ waits

    async def wait_for(self, future: asyncio.Future[Any], *, result: bool = False) -> None:
        """Wait for an event. If a handler waits, the reader continues in spite of the backlog.

        Args:
            future: resolved by the event.
            result: the event is the end of a job, or a chunk of its result.

        Raises:
            BufferFull: a handler waits, and the reader cannot continue.
            LocalProtocolError: the caller is in another event loop, and would not be woken.
        """
        self.check_loop()
        if result:
            self._results += 1
            self._watch()
        try:
            with self.awaiting(future, events=True):
                self.progress()
                await future
        finally:
            # The future may hold an error whose traceback refers to this frame. That cycle would
            # keep the caller alive, and with it an iterator and its events.
            del future
            if result:
                self._results -= 1
                self._watch()

    def awaiting(
        self, future: asyncio.Future[Any], *, events: bool = False
    ) -> AbstractContextManager[None]:
        """Inside the ``with`` block, let the reader continue if the caller is a handler.

        Args:
            future: the future that the caller awaits.
            events: whether an event resolves the future, and not an answer.

        Raises:
            BufferFull: the caller is a handler, and the reader cannot continue.
        """
        return _OUTSIDE if calling() is None else self._awaiting(future, events)

    @contextmanager
    def _awaiting(self, future: asyncio.Future[Any], events: bool) -> Iterator[None]:
        if self._full:
            raise _full()
        self._awaited[future] = None
        if events:
            self._events[future] = None
        try:
            yield
        finally:
            self._awaited.pop(future, None)
            self._events.pop(future, None)

    # ------------------------------------------------------------------ stalled iterators

    def _suspect(self) -> None:
        if self._timer is None:
            # Weak references, so that an iterator can be collected before the timer expires.
            self._suspects = [(weakref.ref(one), one.pulls) for one in self._consumers.iterators()]
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
        "too many events wait, in memory and on disk: the event that this handler waits for cannot"
        " be read until the handler has returned"
    )
