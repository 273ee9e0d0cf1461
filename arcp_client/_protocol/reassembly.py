"""Reorders frames by ``event_seq`` and finds holes.

The *cursor* is the number up to which all frames were received. If a frame arrives whose number is
higher than the cursor plus one, the missing numbers are a *hole*, and the frame waits. A replay by
the runtime fills the hole, or `Reassembly.expire` gives it up: its numbers then count as lost. A
frame whose number was seen before is a repeat.

This works only if numbers are as the specification defines them (§8.3). The `Peer` adapts the
session to one kind of runtime. For runtimes whose numbers may be wrong, it creates an object of a
subclass of `Reassembly`. For runtimes that send the kept events of a job (its *history*) out of
order, it sorts these first. `receiver` is the layer above.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import ClassVar, Generic, TypeVar

import msgspec

__all__ = ["AGREEING", "REACH", "SETTLE", "LostNumbers", "Placement", "Ranges", "Reassembly"]

T = TypeVar("T")

SETTLE = 2.0
"""Seconds that a replay has to fill a hole before the hole counts as lost."""

REACH = 1024
"""The lower limit of `Reassembly`'s ``reach``: how far one frame may move the cursor."""
AGREEING = 3
"""Number of consecutive frames beyond the reach after which their numbers are accepted."""
REMEMBERED = 1024
"""How many given-up holes are remembered, whose frames may still arrive."""


class Placement(enum.Enum):
    """The decision about a frame that has arrived."""

    NEXT = "next"
    """In order: deliver it, then what `Reassembly.release` gives."""
    REPEAT = "repeat"
    """Seen before: drop it."""
    HELD = "held"
    """Ahead of a hole: held."""
    FORGOTTEN = "forgotten"
    """Ahead of a hole while the limit is reached: treated as never received."""
    LATE = "late"
    """From a hole that was given up: deliver it, because it was not delivered before."""
    BEYOND = "beyond"
    """Too far ahead: the number is ignored."""


class LostNumbers(msgspec.Struct, frozen=True):
    """A range of numbers that was given up."""

    first: int
    last: int


class Ranges:
    """A set of numbers, as ranges.

    Args:
        ranges: first and last of each, in any order.
    """

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Iterable[tuple[int, int]] = ()) -> None:
        self._ranges: list[tuple[int, int]] = []
        for first, last in sorted(ranges):
            if self._ranges and first <= self._ranges[-1][1] + 1:
                first, before = self._ranges.pop()
                last = max(last, before)
            self._ranges.append((first, last))

    def __len__(self) -> int:
        return len(self._ranges)

    def __contains__(self, number: int) -> bool:
        return self._find(number) is not None

    @property
    def last(self) -> int:
        """The highest number, or 0."""
        return self._ranges[-1][1] if self._ranges else 0

    def append(self, first: int, last: int) -> None:
        """Add numbers above all others."""
        self._ranges.append((first, last))

    def forget_first(self) -> None:
        """Remove the lowest range."""
        del self._ranges[0]

    def remove(self, number: int) -> bool:
        """Remove a number. False if it is not in the set."""
        at = self._find(number)
        if at is None:
            return False
        first, last = self._ranges[at]
        halves = ((first, number - 1), (number + 1, last))
        self._ranges[at : at + 1] = [half for half in halves if half[0] <= half[1]]
        return True

    def _find(self, number: int) -> int | None:
        at = bisect_right(self._ranges, number, key=lambda one: one[0]) - 1
        return at if at >= 0 and number <= self._ranges[at][1] else None


class Reassembly(Generic[T]):
    """Orders the frames of one session, here called items.

    Items behind a hole are held. A hole is requested once, by a resume from the cursor
    (`should_resume`). It is given up (`expire`) if the replay after that resume has ended and did
    not fill it. An item that arrives after its hole was given up is `Placement.LATE`. Beyond
    ``limit`` held items, the newest are forgotten: they count as never received, so that a later
    resume brings them.

    One frame moves the cursor by at most ``reach``. A number further ahead is accepted only after
    `AGREEING` frames with consecutive numbers, because a single wrong number would make all correct
    ones look old.

    Args:
        cursor: every number up to it was received.
        limit: how many items may wait behind a hole.
        reach: how far one frame may move the cursor; ``limit`` by default, at least `REACH`.

    Attributes:
        cursor: every number up to it was received, or given up.
        patience: seconds until a hole is requested, for peers whose frames may overtake each other.
        repeated: the number of dropped repeats.
        quiet_since: the time at which the current wait for a hole began.
        waits: the ordinal of that wait, which distinguishes waits that began at the same time.
        refetches: whether a hole can be requested again, by a resume or a history.
    """

    refetches: ClassVar[bool] = True

    def __init__(self, *, cursor: int = 0, limit: int = 8192, reach: int | None = None) -> None:
        self.cursor = cursor
        self.patience = 0.0
        self.repeated = 0
        self.quiet_since = 0.0
        self.waits = 0
        self._limit = limit
        self._reach = max(limit, REACH) if reach is None else reach
        self._held: dict[int, T] = {}
        self._top = 0
        self._forgotten = 0
        self._lost = Ranges()
        self._stray = -1
        self._agreeing = 0
        self._unnumbered: list[T] = []
        self._asked = -1
        self._answered = False
        self._replaying = False
        self._settles_at = 0.0
        self._settled_from = -1

    # -- questions

    @property
    def holding(self) -> int:
        """The number of items that wait behind a hole."""
        return len(self._held) + len(self._unnumbered)

    @property
    def missing(self) -> bool:
        """Whether there is a hole."""
        return bool(self._held) or self.cursor < self._forgotten

    @property
    def top(self) -> int:
        """The highest number that was received."""
        return max(self.cursor, self._top, self._forgotten)

    @property
    def deadline(self) -> float | None:
        """The time at which `should_resume` and `expire` must be called next, or ``None``."""
        return None if not self.missing or self._waits_for_link() else self._settles_at

    # -- what happens

    def opened(self, now: float) -> None:
        """Note that a link was resumed from the cursor, so that a replay may fill the hole."""
        self._asked = self.cursor
        self._answered = True
        self._replaying = True
        self._wait(now)

    def advance(self, seq: int | None) -> bool:
        """The fast path of `offer`: accept the next number while no item is held. Else False."""
        if seq != self.cursor + 1 or self._held:
            return False
        self.cursor = seq
        return True

    def offer(self, seq: int, item: T, now: float) -> Placement:
        """Take in an item with its number."""
        if seq == self.cursor + 1:
            self.cursor = seq
            return Placement.NEXT
        if seq <= self.cursor and self._lost.remove(seq):
            return Placement.LATE
        if seq <= self.cursor or seq in self._held:
            self.repeated += 1
            return Placement.REPEAT
        return Placement.BEYOND if self._is_beyond(seq) else self._hold(seq, item, now)

    def _is_beyond(self, seq: int) -> bool:
        if seq <= max(self.cursor, self._top, self._forgotten) + self._reach:
            return False
        self._agreeing = self._agreeing + 1 if seq == self._stray + 1 else 1
        self._stray = seq
        return self._agreeing < AGREEING

    def _hold(self, seq: int, item: T, now: float) -> Placement:
        if not self._held:
            self._wait(now)
        if len(self._held) >= self._limit:
            newest = max(self._top, seq)
            self._forgotten = max(self._forgotten, newest)
            if seq == newest:
                return Placement.FORGOTTEN
            del self._held[newest]
            self._top = max(self._held, default=0)
        self._held[seq] = item
        self._top = max(self._top, seq)
        return Placement.HELD

    def after(self, item: T) -> bool:
        """Take in an item without a number. True if it may be delivered at once."""
        if not self._held or len(self._unnumbered) >= self._limit:
            return True
        self._unnumbered.append(item)
        return False

    def release(self) -> Iterator[T]:
        """The items that are now in order. To be called after every `Placement.NEXT`."""
        held = self._held
        while held:
            item = held.pop(self.cursor + 1, None)
            if item is None:
                return
            self.cursor += 1
            yield item
        self._top = 0
        self._replaying = False  # the replay has reached the live events
        if self._unnumbered:
            waiting, self._unnumbered = self._unnumbered, []
            yield from waiting

    def should_resume(self, now: float) -> bool:
        """Whether to request the hole by a resume. True once for each cursor.

        False while a replay may still fill the hole.
        """
        if not self.missing or self._asked == self.cursor or not self._settled(now):
            return False
        self._asked = self.cursor
        self._answered = False
        return True

    def expires(self, now: float) -> bool:
        """Whether `expire` would give up a hole."""
        asked = self._answered and self._asked == self.cursor
        return self.missing and asked and self._settled(now)

    def expire(self, now: float) -> Iterator[LostNumbers | T]:
        """Give up the holes that the replay did not fill; return each, then the items behind it."""
        if not self.expires(now):
            return
        if not self._held:
            yield self._give_up(self._forgotten)
        for seq in sorted(self._held):
            if seq > self.cursor:
                yield self._give_up(seq - 1)
                yield from self.release()

    def skip(self) -> int:
        """Give up the next number and return it. Call `release` afterwards."""
        return self._give_up(self.cursor + 1).last

    def abandon(self) -> Iterator[LostNumbers | T]:
        """Return every hole and the items behind it, in order, because the session is over."""
        for seq in sorted(self._held):
            if seq > self.cursor:
                yield self._give_up(seq - 1)
                yield from self.release()

    def rebase(self) -> Iterator[T]:
        """Called after a `Gap` was delivered: the next number that arrives is the new start.

        Does nothing here, because with correct numbers the next number is known.
        """
        return iter(())

    # -- pieces

    def _waits_for_link(self) -> bool:
        """Whether the hole was requested, and no link has been resumed since."""
        return self._asked == self.cursor and not self._answered

    def _give_up(self, last: int) -> LostNumbers:
        hole = LostNumbers(self.cursor + 1, last)
        self._lost.append(hole.first, hole.last)
        if len(self._lost) > REMEMBERED:
            self._lost.forget_first()
        self.cursor = last
        return hole

    def _wait(self, now: float) -> None:
        self.quiet_since = now
        self.waits += 1
        self._settles_at = now + (SETTLE if self._replaying else self.patience)
        self._settled_from = self.cursor

    def _settled(self, now: float) -> bool:
        """Whether the replay has ended. If the cursor has moved, the wait starts again."""
        if now < self._settles_at:
            return False
        if (self._replaying or self.patience) and self._settled_from != self.cursor:
            self._wait(now)
            return False
        return True
