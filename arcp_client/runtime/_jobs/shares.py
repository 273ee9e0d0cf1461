"""Divides limits and queues fairly between principals.

A limit that all principals share evicts from the one that holds most, and a queue takes turns, so
no principal can evict or delay what belongs to another.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Shares", "TurnQueue"]

T = TypeVar("T", bound=Hashable)


class Shares:
    """Counts what each principal holds and knows which one holds most. All steps are O(1)."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self._with: dict[int, dict[str, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        """How many principals hold anything."""
        return len(self._of)

    def add(self, principal: str) -> None:
        """The principal holds one more."""
        count = self._of[principal] + 1
        self._move(principal, count)
        self._most = max(self._most, count)

    def remove(self, principal: str) -> None:
        """The principal holds one less."""
        count = self._of[principal] - 1
        self._move(principal, count)
        if self._most not in self._with:
            self._most = count  # it was the only one that held so many

    def largest(self) -> str:
        """The principal that holds most; of several, the one that has done so for longest."""
        return next(iter(self._with[self._most]))

    def _move(self, principal: str, count: int) -> None:
        before = self._of.pop(principal, 0)
        if before:
            group = self._with[before]
            del group[principal]
            if not group:
                del self._with[before]
        if count:
            self._of[principal] = count
            self._with.setdefault(count, {})[principal] = None


class TurnQueue(Generic[T]):
    """A queue in which principals take turns, and each one's entries stay in their order.

    Between two entries of one principal, each other principal that waits gets one out.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, dict[T, None]] = OrderedDict()

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def push(self, principal: str, entry: T) -> None:
        """Add an entry behind the others of its principal."""
        self._waiting.setdefault(principal, {})[entry] = None

    def pop(self) -> T:
        """The next entry of the principal whose turn it is."""
        principal, entries = next(iter(self._waiting.items()))
        entry = next(iter(entries))
        del entries[entry]
        if entries:
            self._waiting.move_to_end(principal)
        else:
            del self._waiting[principal]
        return entry

    def discard(self, principal: str, entry: T) -> None:
        """Take an entry out, wherever it stands; nothing if it is not there."""
        entries = self._waiting.get(principal)
        if entries is not None:
            entries.pop(entry, None)
            if not entries:
                del self._waiting[principal]
