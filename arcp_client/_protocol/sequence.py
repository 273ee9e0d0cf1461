"""Numbered items in, the same items out in order: the one place that decides order.

`Sequence` trusts ``event_seq`` (§8.3): a number that was seen is a repeat, a number ahead of the
cursor waits for what is missing. `TolerantSequence` is for runtimes whose numbers cannot be
trusted: it knows repeats by envelope id and waits for a hole only briefly.

A hole is closed by the peer filling it, or by `expire` giving it up.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["SETTLE", "Hole", "Sequence", "TolerantSequence", "Verdict"]

T = TypeVar("T")

SETTLE = 2.0
"""Seconds that a replay has to fill a hole before the hole counts as lost."""


class Verdict(enum.Enum):
    """What becomes of an offered item."""

    NEXT = "next"
    """In order: deliver it, then what `Sequence.release` gives."""
    REPEAT = "repeat"
    """Seen before: drop it."""
    HELD = "held"
    """Ahead of a hole: kept here."""
    FORGOTTEN = "forgotten"
    """Ahead of a hole and too much is kept already: as if it had never come."""


@dataclass(frozen=True, slots=True)
class Hole:
    """Numbers that will not come."""

    first: int
    last: int


class Sequence(Generic[T]):
    """The order of one session whose numbers are true.

    Args:
        cursor: every number up to it was received.
        limit: how many items may wait behind a hole.

    Attributes:
        cursor: the highest number below which nothing is missing.
        repeated: how many repeats were dropped.
    """

    def __init__(self, *, cursor: int = 0, limit: int = 8192) -> None:
        self.cursor = cursor
        self.repeated = 0
        self._limit = limit
        self._held: dict[int, T] = {}
        self._unnumbered: list[T] = []
        self._asked = -1
        self._settles_at = 0.0

    # -- questions

    @property
    def holding(self) -> int:
        """How many items wait behind a hole."""
        return len(self._held) + len(self._unnumbered)

    @property
    def deadline(self) -> float | None:
        """When `expire` must be called; ``None`` while there is no hole."""
        return self._settles_at if self._held else None

    # -- what happens

    def opened(self, now: float) -> None:
        """A link was resumed: whatever is missing may come until it settled."""
        self._settles_at = now + SETTLE

    def advance(self, seq: int) -> bool:
        """The usual case of `offer`, without its cost: whether this is the next number."""
        if seq != self.cursor + 1:
            return False
        self.cursor = seq
        return True

    def offer(self, seq: int, item: T, now: float) -> Verdict:
        """Take in an item with its number."""
        if seq == self.cursor + 1:
            self.cursor = seq
            return Verdict.NEXT
        if seq <= self.cursor or seq in self._held:
            self.repeated += 1
            return Verdict.REPEAT
        if len(self._held) >= self._limit:
            newest = max(self._held)
            if seq > newest:
                return Verdict.FORGOTTEN
            del self._held[newest]
        if not self._held:
            self._settles_at = max(self._settles_at, now)
        self._held[seq] = item
        return Verdict.HELD

    def after(self, item: T) -> bool:
        """Take in an item without a number; True if it may be delivered at once."""
        if not self._held:
            return True
        self._unnumbered.append(item)
        return False

    def release(self) -> Iterator[T]:
        """The items that are in order now; to be called after every `Verdict.NEXT`."""
        held = self._held
        while held:
            item = held.pop(self.cursor + 1, None)
            if item is None:
                return
            self.cursor += 1
            yield item
        if self._unnumbered:
            waiting, self._unnumbered = self._unnumbered, []
            yield from waiting

    def should_resume(self, now: float) -> bool:
        """Whether to ask the peer again for what is missing; True once for each cursor.

        Not while a replay may still fill the hole.
        """
        if not self._held or self._asked == self.cursor or now < self._settles_at:
            return False
        self._asked = self.cursor
        return True

    def expire(self, now: float) -> Iterator[Hole | T]:
        """Give up what a resume did not bring: each hole, then what waited behind it, in order."""
        if not self._held or now < self._settles_at or self._asked != self.cursor:
            return
        while self._held:
            first, last = self.cursor + 1, min(self._held) - 1
            self.cursor = last
            yield Hole(first, last)
            yield from self.release()


class TolerantSequence(Sequence[T]):
    """The order of one session whose numbers may repeat, collide or be missing.

    Repeats are known by envelope id within a job. A hole is waited for, then reported; it is
    never a reason to drop a live link.
    """

    def __init__(self, *, cursor: int = 0, limit: int = 8192, remember: int = 65536) -> None:
        super().__init__(cursor=cursor, limit=limit)
        self._remember = remember
        self._seen: OrderedDict[tuple[str | None, str], None] = OrderedDict()

    def is_repeat(self, space: str | None, item_id: str) -> bool:
        """Whether this envelope id came before in this job; remembers it."""
        if not item_id:
            return False
        key = (space, item_id)
        if key in self._seen:
            self.repeated += 1
            return True
        self._seen[key] = None
        if len(self._seen) > self._remember:
            self._seen.popitem(last=False)
        return False

    def offer(self, seq: int, item: T, now: float) -> Verdict:
        """Like `Sequence.offer`, but an old number under a new id is delivered, not dropped."""
        if seq <= self.cursor:
            return Verdict.NEXT if not self._held else self._behind(item)
        if not self._held and seq != self.cursor + 1:
            self._settles_at = now + SETTLE
        if seq in self._held:
            return self._behind(item)
        return super().offer(seq, item, now)

    def should_resume(self, now: float) -> bool:
        """Never: a resume of these runtimes loses more than it brings."""
        return False

    def expire(self, now: float) -> Iterator[Hole | T]:
        """Give up what did not come in time."""
        self._asked = self.cursor
        yield from super().expire(now)

    def _behind(self, item: T) -> Verdict:
        if len(self._unnumbered) >= self._limit:
            return Verdict.FORGOTTEN
        self._unnumbered.append(item)
        return Verdict.HELD
