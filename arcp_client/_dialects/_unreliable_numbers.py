"""Repairs the frames of runtimes whose ``event_seq`` may repeat, collide or be missing.

Repeats are recognised by their envelope ids. If the runtime sends an event again under a new id,
they are recognised by their contents. A number that is not of the session's own sequence is removed
from its frame.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator
from typing import ClassVar, Final, Literal, TypeVar

import msgspec

from arcp_client._protocol.jobs import JobState
from arcp_client._protocol.peer import Incoming, Peer, Received, View, skipped
from arcp_client._protocol.pending import Request
from arcp_client._protocol.reassembly import SETTLE, LostNumbers, Placement, Reassembly
from arcp_client._wire import names
from arcp_client._wire.codec import BadFrame, ControlFrame, EventFrame, fingerprint
from arcp_client._wire.messages import Message

__all__ = ["TolerantReassembly", "UnreliableNumbers"]

T = TypeVar("T")

REMEMBERED: Final = 65536
"""The largest number of remembered envelope ids, and of remembered contents of one job."""
PARTED: Final = 256
"""The largest number of ended jobs, numbered apart, whose last events may still come."""


class _JobMemory(msgspec.Struct):
    """The contents of one job's events that have arrived, and of those that may arrive again.

    Attributes:
        apart: its events are numbered apart from the session's.
        came: how often each content has arrived.
        passes: how many histories and replays may arrive, here called passes. A pass has every
            event of the job once.
        left: how often the passes may bring each content again; None if no pass is expected.
    """

    apart: bool = False
    came: Counter[str] = msgspec.field(default_factory=Counter)
    passes: int = 0
    left: Counter[str] | None = None

    def close(self) -> None:
        """Expect no more passes."""
        self.passes = 0
        self.left = None


class UnreliableNumbers(Peer):
    """A runtime whose event numbers do not identify events.

    Attributes:
        renames: the runtime gives an event a new envelope id each time it sends it to a subscriber.
            A repeat is then recognised by its content, which includes a time.
        numbers_apart: how events of watched jobs are numbered: "own": in a sequence of their own;
            "submitter": as in the session that submitted the job; empty: in the session's own
            sequence.
    """

    transparent = False
    hole_patience: ClassVar[float] = 0.0  # `TolerantReassembly` has a wait of its own
    recognises_by_id: ClassVar[bool] = True
    renames: ClassVar[bool] = False
    numbers_apart: ClassVar[Literal["", "own", "submitter"]] = ""

    def __init__(self, view: View) -> None:
        super().__init__(view)
        self._seen: OrderedDict[tuple[str | None, str], None] = OrderedDict()
        self._parted: OrderedDict[JobState, None] = OrderedDict()

    def reassembly(self, cursor: int, limit: int) -> Reassembly[Received]:
        return TolerantReassembly(cursor=cursor, limit=limit)

    def ends_by_number(self, frame: ControlFrame) -> bool:
        return False

    # -- subscriptions

    def outgoing(self, request: Request, now: float) -> Iterator[Message | Request]:
        if request.kind == names.SUBSCRIBE and request.job_id is not None:
            history = bool(request.payload.get("history"))
            if history or request.owner is None:
                self._set_apart(request.job_id)
            if history and self.renames:
                memory = _memory_of(self.view.jobs.state(request.job_id))
                memory.passes += 1
                memory.left = (memory.left or Counter()) + memory.came
        yield from super().outgoing(request, now)

    def settled(self, request: Request, *, confirmed: bool, late: bool = False) -> None:
        super().settled(request, confirmed=confirmed, late=late)
        if request.kind == names.SUBSCRIBE and request.job_id is not None and not late:
            job = self.view.jobs.state(request.job_id)
            if job.peer is not None:
                job.peer.close()
            if confirmed:
                self._set_apart(request.job_id)
            elif not job.open:
                self.job_ended(job)

    def job_ended(self, job: JobState) -> None:
        super().job_ended(job)
        if job.delivered is None:
            self.job_forgotten(job)
        memory = job.peer
        if memory is None or not memory.apart:
            return
        self._parted[job] = None
        if len(self._parted) > PARTED:
            oldest, _ = self._parted.popitem(last=False)
            oldest.peer = None
            self.view.jobs.tidy(oldest)

    def job_forgotten(self, job: JobState) -> None:
        super().job_forgotten(job)
        if job.peer is not None:
            job.peer.came.clear()
            job.peer.close()
            if not job.peer.apart:
                job.peer = None
                self.view.jobs.tidy(job)

    def _set_apart(self, job_id: str) -> None:
        job = self.view.jobs.state(job_id)
        here = job.open and job.origin_session == self.view.negotiated.session_id
        if self.numbers_apart == "own" or (self.numbers_apart == "submitter" and not here):
            self._parted.pop(job, None)
            _memory_of(job).apart = True

    def opened(self, now: float, *, resumed: bool) -> None:
        super().opened(now, resumed=resumed)
        for job in self.view.jobs.table.values():
            if job.peer is None:
                continue
            if resumed:
                job.peer.passes += 1  # a resume may replay its events, an unfinished history too
            else:
                job.peer.close()
                job.peer.apart = False
        if not resumed:
            self._parted.clear()

    # -- frames

    def incoming(self, frame: Incoming, data: bytes, now: float) -> Iterable[Received]:
        for received in super().incoming(frame, data, now):
            yield self._true(received)

    def _true(self, received: Received) -> Received:
        frame = received.frame
        job = self.view.jobs.table.get(frame.job_id)
        if frame.event_seq is not None and self.counts_apart(frame):
            # The number does not count in this session, so it moves no cursor.
            frame.event_seq = None
        if job is not None and job.unsubscribing:
            return received
        return skipped(frame) if self._came(frame) else received

    def counts_apart(self, frame: Incoming) -> bool:
        """Whether a frame is numbered outside of this session's sequence."""
        job = self.view.jobs.table.get(frame.job_id)
        return job is not None and job.peer is not None and job.peer.apart

    def _came(self, frame: Incoming) -> bool:
        """Remember a frame. Returns whether it came before.

        Always False for terminal messages, because the Python runtime sends a stored one again
        under its old id.
        """
        if isinstance(frame, ControlFrame):
            return False
        if self._is_known(frame.job_id, frame.id):
            self.repeated += 1
            return True
        if isinstance(frame, BadFrame):
            # Without an id only the number is left to compare; else every replay had a gap.
            seq = frame.event_seq
            return not frame.id and seq is not None and seq <= self.view.receiver.cursor
        return self.renames and frame.job_id is not None and self._is_copy(frame, frame.job_id)

    def _is_known(self, job_id: str | None, envelope_id: str) -> bool:
        """Remember an envelope id of a job. Returns whether it came before."""
        if not envelope_id:
            return False
        key = (job_id, envelope_id)
        if key in self._seen:
            return True
        self._seen[key] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        return False

    def _is_copy(self, frame: EventFrame, job_id: str) -> bool:
        """Whether an event repeats one that came before.

        A pass has every event once. So if ``n`` events of equal content came before, the first
        ``n`` of them in a pass are repeats.
        """
        content = fingerprint(frame)
        if content is None:
            return False
        memory = _memory_of(self.view.jobs.state(job_id))
        if memory.left is not None and memory.left[content] > 0:
            memory.left[content] -= 1
            return True
        if content in memory.came or len(memory.came) < REMEMBERED:
            memory.came[content] += 1
            if memory.left is not None and memory.passes > 1:
                memory.left[content] += memory.passes - 1  # it is of one of these passes
        return False


def _memory_of(job: JobState) -> _JobMemory:
    if job.peer is None:
        job.peer = _JobMemory()
    memory: _JobMemory = job.peer
    return memory


class TolerantReassembly(Reassembly[T]):
    """Orders the frames of a session whose numbers may repeat, collide or be missing.

    A hole is given up after `SETTLE` seconds, or as soon as ``limit`` items wait behind it. The
    session is never resumed to fill it.

    Args:
        cursor: every number up to it was received.
        limit: how many items may wait behind a hole.
        reach: as of `Reassembly`.
    """

    refetches: ClassVar[bool] = False

    def __init__(self, *, cursor: int = 0, limit: int = 8192, reach: int | None = None) -> None:
        super().__init__(cursor=cursor, limit=limit, reach=reach)
        self._rebased = False

    def offer(self, seq: int, item: T, now: float) -> Placement:
        """Like `Reassembly.offer`, but an item with an old number is delivered, not dropped."""
        if self._rebased and seq > self.cursor:
            self._rebased = False
            self.cursor = seq - 1
        if seq <= self.cursor or seq in self._held:
            return Placement.NEXT if self.after(item) else Placement.HELD
        if seq == self.cursor + 1:
            return super().offer(seq, item, now)
        if self._is_beyond(seq):
            return Placement.BEYOND
        if len(self._held) >= self._limit:
            # No resume would bring a forgotten item again, so the hole is given up now.
            self._held[seq] = item
            self._top = max(self._top, seq)
            self._settles_at = now
            return Placement.HELD
        return self._hold(seq, item, now)

    def should_resume(self, now: float) -> bool:
        """Always False, because a resume of these runtimes loses more events than it brings."""
        return False

    def expire(self, now: float) -> Iterator[LostNumbers | T]:
        """Give up the holes that were not filled in time."""
        self._asked, self._answered = self.cursor, True
        yield from super().expire(now)

    def rebase(self) -> Iterator[T]:
        """Give up all holes, which a `Gap` has reported; return the items behind them.

        The next number that arrives, whatever it is, counts as the next in order.
        """
        for item in self.abandon():
            if not isinstance(item, LostNumbers):
                yield item
        self._rebased = True

    def _wait(self, now: float) -> None:
        self._replaying = False
        self._settles_at = now + SETTLE
