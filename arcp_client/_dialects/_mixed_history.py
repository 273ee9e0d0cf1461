"""Reorders histories whose events arrive out of order or several times (§7.6).

If several clients observe a job, the Go runtime sends the job's history as one log for each
observer, one after the other. So each event comes several times, and later events come before
earlier ones. The Java runtime sends live events between those of the history.

Both runtimes handle the requests of a link one by one. The client sends a ping after the
subscription, so the history has ended when the pong arrives. A live event whose number lies within
the history may arrive after the pong; until then its number is a hole.

From the first event of a history until its end, all numbered frames are held, up to the limits
`PAUSE` and `LONGEST`. Then the events of the job are sorted by time, and copies are skipped. The
sorted events fill the same places, and get the numbers of those places. All other frames keep their
places.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from arcp_client._protocol.peer import Incoming, Peer, Received, View, skipped
from arcp_client._protocol.pending import Request
from arcp_client._wire import names
from arcp_client._wire.codec import BadFrame, ControlFrame, EventFrame, instant
from arcp_client._wire.messages import Message

__all__ = ["LONGEST", "PAUSE", "MixedHistory"]

PAUSE: Final = 2.0
"""Seconds without an event after which a history counts as complete."""
LONGEST: Final = 10.0
"""The longest time that a frame waits, in seconds."""


class MixedHistory(Peer):
    """A runtime whose histories arrive out of order."""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._due_at: float | None = None
        self._expected: dict[str, str] = {}
        self._mixed: set[str] = set()
        self._waiting: list[Received] = []
        self._known: set[tuple[str, str]] = set()
        self._numbers: set[int] = set()
        self._since = 0.0
        self._sorted: list[tuple[int, int]] = []

    # -- beginnings and ends of histories

    def outgoing(self, request: Request, now: float) -> Iterator[Message | Request]:
        job_id = request.job_id
        mixed = (
            request.kind == names.SUBSCRIBE
            and job_id is not None
            and bool(request.payload.get("history"))
        )
        if mixed and job_id is not None:
            # Live events may come before the confirmation: they belong behind the history.
            self._mixed.add(job_id)
            self.transparent = False
            self.view.receiver.look()
        yield from super().outgoing(request, now)
        if mixed and job_id is not None:
            nonce = self.view.barriers.set(lambda now: self._ended(nonce, now), now)
            self._expected[nonce] = job_id

    def settled(self, request: Request, *, confirmed: bool, late: bool = False) -> None:
        super().settled(request, confirmed=confirmed, late=late)
        if confirmed or request.kind != names.SUBSCRIBE:
            return
        nonces = [nonce for nonce, of in self._expected.items() if of == request.job_id]
        for nonce in nonces:
            del self._expected[nonce]
        if nonces and not self._expected:
            self.view.receiver.take_all(self.release(), self._since)

    def _ended(self, nonce: str, now: float) -> None:
        """Called at the pong that follows a subscription."""
        if self._expected.pop(nonce, None) is None or self._expected:
            return
        if self._is_complete:
            self.view.receiver.take_all(self.release(), now)
        elif self._due_at is not None:
            # The time in which a missing number may still arrive. After it, a resume requests the
            # number.
            self._due_at = min(self._due_at, now + self.hole_patience)

    @property
    def _is_complete(self) -> bool:
        """Whether every history has ended and no number among them is missing."""
        if self._expected:
            return False
        cursor = self.view.receiver.cursor
        return not self._numbers or max(self._numbers) - cursor == len(self._numbers)

    def opened(self, now: float, *, resumed: bool) -> None:
        super().opened(now, resumed=resumed)
        if not resumed:
            self._sorted.clear()

    # -- time

    @property
    def deadline(self) -> float | None:
        return self._due_at

    def tick(self, now: float) -> Iterable[Received]:
        if not self.holding:
            return
        if self.view.out.heartbeat.paused:
            self._since = now  # reading is paused: silence means nothing
            self._wait(now)
        elif self._due_at is not None and now >= self._due_at:
            yield from self.release()

    def _wait(self, now: float) -> None:
        self._due_at = min(now + PAUSE, self._since + LONGEST)

    # -- frames

    def incoming(self, frame: Incoming, data: bytes, now: float) -> Iterable[Received]:
        for received in super().incoming(frame, data, now):
            yield from self._hold(received, now)

    def _hold(self, received: Received, now: float) -> Iterator[Received]:
        """Hold a frame until the history has ended, if one has begun."""
        frame = received.frame
        if isinstance(frame, ControlFrame) and frame.type not in names.TERMINALS:
            if frame.event_seq is not None and self.holding:
                yield from self._keep(
                    Received(ControlFrame(type="", event_seq=frame.event_seq), b""), now
                )
                frame.event_seq = None
            yield received
            return
        of_history = frame.job_id in self._mixed
        is_repeat = frame.event_seq is not None and frame.event_seq <= self.view.receiver.cursor
        if is_repeat or not (self.holding or of_history):
            yield received
            return
        if frame.event_seq in self._numbers:
            self.repeated += 1
            return
        if not self.holding:
            self.holding = True
            self._since = now
        if of_history and isinstance(frame, EventFrame) and frame.job_id is not None and frame.id:
            key = (frame.job_id, frame.id)
            if key in self._known:
                received = skipped(frame)
            self._known.add(key)
        yield from self._keep(received, now)

    def _keep(self, received: Received, now: float) -> Iterator[Received]:
        self._wait(now)
        self._waiting.append(received)
        if received.frame.event_seq is not None:
            self._numbers.add(received.frame.event_seq)
        if len(self._waiting) >= self.view.receiver.limit or self._is_complete:
            yield from self.release()

    def release(self) -> Iterable[Received]:
        waiting, mixed = self._waiting, self._mixed
        self.transparent, self.holding, self._due_at = True, False, None
        self._waiting, self._mixed = [], set()
        self._expected.clear()
        self._known.clear()
        self._numbers.clear()
        _sort_by_number(waiting)
        for job_id in mixed:
            self._sort(waiting, job_id)
        self.view.receiver.look()
        return waiting

    def _sort(self, items: list[Received], job_id: str) -> None:
        """Sort the events of one job within the places that they take. The job's end stays last."""
        places: list[int] = []
        keys: list[tuple[bool, int]] = []
        last = 0
        for place, item in enumerate(items):
            if _is_sortable(item.frame, job_id):
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
        numbers = [item.frame.event_seq for item in came]
        for at, of in enumerate(order):
            came[of].frame.event_seq = numbers[at]
            items[places[at]] = came[of]
        displaced = [n for n in numbers[moved[0] : moved[-1] + 1] if n is not None]
        if displaced:
            self._sorted.append((displaced[0], displaced[-1]))

    # -- numbers of events that were sorted

    def reorder_block_end(self, number: int) -> int:
        for first, last in self._sorted:
            if first <= number < last:
                return last
        return number

    def ackable(self, mark: int) -> int:
        # The runtime numbered the sorted events in another order. Each of them is acknowledged
        # only once all of them are processed.
        self._sorted = [(first, last) for first, last in self._sorted if last > mark]
        return min([mark, *(first - 1 for first, _ in self._sorted)])


def _sort_by_number(items: list[Received]) -> None:
    """Sort frames by number. A frame without a number stays behind the frames before it."""
    keys: list[int] = []
    highest = 0
    for item in items:
        number = item.frame.event_seq
        highest = max(highest, number or 0)
        keys.append(number or highest)
    order = sorted(range(len(items)), key=keys.__getitem__)
    items[:] = [items[at] for at in order]


def _is_sortable(frame: Incoming, job_id: str) -> bool:
    """Whether a frame is an event or the end of that job."""
    if frame.job_id != job_id or isinstance(frame, BadFrame):
        return False
    return isinstance(frame, EventFrame) or frame.type in names.TERMINALS
