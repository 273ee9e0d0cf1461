"""Divides limits and queues fairly between principals.

If a shared limit is exceeded, an entry of the principal that has most is evicted. A queue
alternates between principals. So no principal can evict or delay the entries of another one.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Shares", "TurnQueue"]

T = TypeVar("T", bound=Hashable)


class Shares:
    """Counts the entries of each principal and tracks who has most. All operations are O(1)."""

    def __init__(self) -> None:
        self._of: Counter[str] = Counter()
        self._with: dict[int, dict[str, None]] = {}
        self._most = 0

    def __len__(self) -> int:
        """Return the number of principals with entries."""
        return len(self._of)

    def add(self, principal: str) -> None:
        """Count one more entry of a principal."""
        count = self._of[principal] + 1
        self._move(principal, count)
        self._most = max(self._most, count)

    def remove(self, principal: str) -> None:
        """Count one entry less of a principal."""
        count = self._of[principal] - 1
        self._move(principal, count)
        if self._most not in self._with:
            self._most = count  # no other principal holds as many

    def largest(self) -> str:
        """Return the principal with most entries; among equals, the first to reach that count."""
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
    """A queue that alternates between principals and keeps the order of each one's entries.

    Between two entries of one principal, it returns one entry of every other waiting principal.
    """

    def __init__(self) -> None:
        self._waiting: OrderedDict[str, dict[T, None]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of entries."""
        return sum(map(len, self._waiting.values()))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def push(self, principal: str, entry: T) -> None:
        """Append an entry behind the other entries of its principal."""
        self._waiting.setdefault(principal, {})[entry] = None

    def pop(self) -> T:
        """Remove and return the next entry of the principal whose turn it is."""
        principal, entries = next(iter(self._waiting.items()))
        entry = next(iter(entries))
        del entries[entry]
        if entries:
            self._waiting.move_to_end(principal)
        else:
            del self._waiting[principal]
        return entry

    def discard(self, principal: str, entry: T) -> None:
        """Remove an entry from any position; no effect if it is absent."""
        entries = self._waiting.get(principal)
        if entries is not None:
            entries.pop(entry, None)
            if not entries:
                del self._waiting[principal]
