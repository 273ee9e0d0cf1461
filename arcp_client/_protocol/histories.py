"""Puts a history that its runtime mixes up in the order of its times (§7.6).

Once a job has several observers, one runtime sends its history as the logs of all of them, one
after the other: every event several times, and later ones before earlier ones. Another sends live
events among the history. They read requests one by one, so the history ends before the answer to
a ping that follows the subscription; only a live event that was numbered among it may come behind
that answer, and its number is missing until then. From the first event of the history until its
end everything waits here, and then the events of the job stand in the order of their times. Nothing
else changes its place, and numbers go up as ever: an event gets that of the place that it came to
stand in.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar

from arcp_client._wire.codec import BadFrame, ControlFrame, EventFrame, instant

__all__ = ["LONGEST", "PAUSE", "Held", "Histories"]

PAUSE: Final = 2.0
"""Seconds without any event after which a history counts as over, whatever was not answered."""
LONGEST: Final = 10.0
"""Seconds that anything waits at most."""

M = TypeVar("M")


class Held(NamedTuple):
    """What waits: a frame and its bytes."""

    frame: EventFrame | ControlFrame | BadFrame
    data: bytes


class Histories(Generic[M]):
    """What waits for the end of histories, in the order in which it came.

    Args:
        limit: how many items may wait.

    Attributes:
        expected: a history may come: everything is to be given to `hold`.
        deadline: when `due` must be asked; ``None`` while nothing waits.
        last: the highest number of what waits, once the end has come; ``None`` before it.
    """

    def __init__(self, *, limit: int) -> None:
        self.expected = False
        self.deadline: float | None = None
        self.last: int | None = None
        self._limit = limit
        self._ends: dict[str, str] = {}
        self._mixed: set[str] = set()
        self._items: list[Held | M] = []
        self._known: set[tuple[str, str]] = set()
        self._since = 0.0
        self._sorted: list[tuple[int, int]] = []

    # -- beginnings and ends

    def expect(self, job_id: str, mark: str) -> None:
        """A history is asked for; the pong that names this mark ends it.

        Live events may come before it is confirmed: they belong behind it.
        """
        self.expected = True
        self.last = None
        self._ends[mark] = job_id
        self._mixed.add(job_id)

    def refused(self, job_id: str) -> bool:
        """No history comes; whether all is to be let go."""
        marks = [mark for mark, of in self._ends.items() if of == job_id]
        for mark in marks:
            del self._ends[mark]
        return bool(marks) and not self._ends

    def ended(self, mark: str) -> bool:
        """A pong came; whether it is the end of the last history, so that `release` may follow."""
        return self._ends.pop(mark, None) is not None and not self._ends

    def awaits(self, mark: object) -> bool:
        """Whether that pong ends a history: it must not overtake what came before it."""
        return isinstance(mark, str) and mark in self._ends

    def postpone(self, now: float) -> None:
        """Nobody reads: that nothing comes means nothing."""
        if self._items:
            self._since = now
            self._wait(now)

    def due(self, now: float) -> bool:
        """Whether all is to be let go, since the end does not come or too much waits."""
        full = len(self._items) >= self._limit
        return full or (self.deadline is not None and now >= self.deadline)

    # -- what waits

    @property
    def waiting(self) -> bool:
        """Whether anything waits."""
        return bool(self._items)

    def hold(self, item: Held | M, now: float) -> bool:
        """Take in what came, if it is to wait; copies of an event that waits are dropped.

        What comes before a history does not wait for it.
        """
        of_history = isinstance(item, Held) and item.frame.job_id in self._mixed
        if not self._items:
            if not of_history:
                return False
            self._since = now
        self._wait(now)
        if of_history and isinstance(item, Held) and isinstance(item.frame, EventFrame):
            frame = item.frame
            if frame.job_id is not None and frame.id:
                key = (frame.job_id, frame.id)
                if key in self._known:
                    return True
                self._known.add(key)
        self._items.append(item)
        return True

    @property
    def first(self) -> int | None:
        """The lowest number that waits."""
        return min((n for n in map(_number, self._items) if n is not None), default=None)

    def release(self) -> list[Held | M]:
        """Everything, in order; nothing waits any more."""
        items, mixed = self._items, self._mixed
        self.expected, self.deadline, self.last = False, None, None
        self._items, self._mixed = [], set()
        self._ends.clear()
        self._known.clear()
        for job_id in mixed:
            self._sort(items, job_id)
        return items

    def _wait(self, now: float) -> None:
        self.deadline = min(now + PAUSE, self._since + LONGEST)

    def _sort(self, items: list[Held | M], job_id: str) -> None:
        """Sort the events of one job within the places that they have; its end stays the last."""
        places: list[int] = []
        keys: list[tuple[bool, int]] = []
        last = 0
        for place, item in enumerate(items):
            if isinstance(item, Held) and _belongs(item.frame, job_id):
                is_end = isinstance(item.frame, ControlFrame)
                moment = None if is_end else instant(item.data)
                last = moment if moment is not None else last
                places.append(place)
                keys.append((is_end, last))
        order = sorted(range(len(places)), key=keys.__getitem__)  # stable: equal times as they came
        moved = [at for at, of in enumerate(order) if at != of]
        if not moved:
            return
        came = [items[place] for place in places]
        numbers = [_number(item) for item in came]
        for at, of in enumerate(order):
            item = came[of]
            assert isinstance(item, Held)
            item.frame.event_seq = numbers[at]
            items[places[at]] = item
        displaced = [n for n in numbers[moved[0] : moved[-1] + 1] if n is not None]
        if displaced:
            self._sorted.append((displaced[0], displaced[-1]))

    # -- numbers of what was sorted

    def restarted(self) -> None:
        """A new session: its numbers are others."""
        self._sorted.clear()

    def whole(self, number: int) -> int:
        """The last number of what was sorted together with this one, else the number itself."""
        for first, last in self._sorted:
            if first <= number < last:
                return last
        return number

    def told(self, mark: int) -> int | None:
        """How far a mark tells what was processed; ``None`` if its own number is true.

        The runtime numbers what was sorted in another order. So none of it was processed in its
        eyes, until all of it was.
        """
        self._sorted = [(first, last) for first, last in self._sorted if last > mark]
        return min((first - 1 for first, _ in self._sorted), default=None)


def _belongs(frame: EventFrame | ControlFrame | BadFrame, job_id: str) -> bool:
    return frame.job_id == job_id and not isinstance(frame, BadFrame)


def _number(item: object) -> int | None:
    return item.frame.event_seq if isinstance(item, Held) else None
