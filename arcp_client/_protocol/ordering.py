"""Frames in, with numbers or without, events and gaps out: what is delivered, and when (§8.3).

Order itself is decided in ``sequence``. Here stands what is delivered at all: repeats by number, by
envelope id or by content are not, nor is what a checkpoint says was processed; a frame that cannot
be read, and numbers that do not come, are delivered as a `Gap` (S1 to S3).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal

from pydantic import SecretStr

from .._wire import dialect
from .._wire.bodies import ChunkPayload, LoosePayload, StatusPayload, TypedEvent
from .._wire.build import rotated_credential, terminal_event, to_event
from .._wire.codec import BadFrame, ControlFrame, EventFrame
from ..errors import ArcpError, LinkLost
from ..events import Event, Gap
from ..models import Checkpoint
from . import effects
from .jobs import KnownJobs
from .outbox import Outbox
from .recovery import Recovery
from .repeats import Repeats
from .sequence import Hole, Sequence, TolerantSequence, Verdict
from .terms import Terms

__all__ = ["Ordering", "Terminal"]

_Numbered = EventFrame | ControlFrame | BadFrame
Item = tuple[_Numbered, bytes]
Terminal = tuple[ControlFrame, bytes]


class Ordering:
    """Brings what a session receives into order.

    Args:
        terms: what was agreed on.
        out: takes what is to be delivered.
        jobs: the jobs that the session knows.
        recovery: the jobs that are on their way back.
        limit: how many items may wait behind a hole.
        checkpoint: what was received and processed before.

    Attributes:
        reserved: what comes again up to this number may have been seen by a handler before.
        gaps: how many gaps were delivered.
        bad_frames: how many frames could not be read.
    """

    def __init__(
        self,
        terms: Terms,
        out: Outbox,
        jobs: KnownJobs,
        recovery: Recovery[Terminal],
        *,
        limit: int,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.reserved = checkpoint.reserved if checkpoint is not None else 0
        self.gaps = 0
        self.bad_frames = 0
        self._ended: list[str] = []
        self._doubtful: dict[str, int] = {}
        self._terms = terms
        self._emit = out.emit
        self._report = out.report
        self._jobs = jobs
        self._recovery = recovery
        self._limit = limit
        mark = checkpoint.mark if checkpoint is not None else 0
        self._sequence: Sequence[Item] = Sequence(cursor=mark, limit=limit)
        self._processed = deque(sorted(checkpoint.processed)) if checkpoint is not None else deque()
        self._repeats = Repeats()
        self._remembered = self._repeats.ids
        self._apart: set[str] = set()
        self._warned = False
        self._plain = not self._processed

    # -- questions

    @property
    def cursor(self) -> int:
        """Every number up to it was received."""
        return self._sequence.cursor

    @property
    def repeated(self) -> int:
        """How many repeats were dropped."""
        return self._sequence.repeated + self._repeats.found

    @property
    def deadline(self) -> float | None:
        """When `settle` must be called."""
        return self._sequence.deadline

    # -- sessions

    def abandoned(self) -> None:
        """The session is gone: deliver what waited behind a hole, and say that the end is lost.

        To be called while `Terms` still names the session that is gone.
        """
        for job in self._jobs:
            self._repeats.remember(job.job_id)  # its history will come, with some of this in it
        self._deliver_all(self._sequence.abandon(), doubt=False)
        self.gap(self.cursor + 1, None, "unknown_end")
        self._doubtful.clear()

    def opened(self, now: float, *, resumed: bool) -> None:
        """A welcome came. A session that goes on keeps its numbers, a new one begins at 1."""
        self._warned = False
        if not resumed:
            self.reserved = 0
            self._processed.clear()
            self._apart.clear()
        if not resumed or (self._repeats.tolerant is None and not self._terms.dialect.strict):
            self._start(self.cursor if resumed else 0)
        if resumed:
            self._sequence.opened(now)
        self._repeats.begun(renamed=self._terms.dialect.renames_copies)
        self._plain = self._repeats.tolerant is None and not self._processed

    def _start(self, cursor: int) -> None:
        repeated, tolerant = self._sequence.repeated, self._repeats.tolerant
        if self._terms.dialect.strict:
            self._repeats.tolerant = None
            self._sequence = Sequence(cursor=cursor, limit=self._limit)
        else:
            self._sequence = self._repeats.tolerant = TolerantSequence(
                cursor=cursor, limit=self._limit, after=tolerant
            )
        self._sequence.repeated = repeated

    def lost(self) -> None:
        """The link is gone, and with it every history that was on its way."""
        self._repeats.lost()

    # -- subscriptions

    def subscribing(self, job_id: str, *, history: bool, apart: bool) -> None:
        """A subscription is asked for; its history may come before its confirmation."""
        self._repeats.opened(job_id, history=history)
        if apart:
            self._set_apart(job_id)

    def subscribed(self, job_id: str) -> None:
        """A subscription was confirmed."""
        self._repeats.closed(job_id)
        self._set_apart(job_id)

    def unsubscribed(self, job_id: str) -> None:
        """A subscription was refused, or not answered."""
        self._repeats.closed(job_id)

    def _set_apart(self, job_id: str) -> None:
        """From now on the job's events are numbered apart, in some dialects."""
        if self._terms.dialect.watched_space == "own":
            self._apart.add(job_id)

    # -- frames

    def next(self, frame: TypedEvent, data: bytes) -> Event | None:
        """The event that a frame is, if it is the next one and there is nothing else to it."""
        seq = frame.event_seq
        if (
            self._plain
            and seq is not None
            and not self._recovery.busy
            and frame.job_id not in self._remembered
            and not (type(frame.payload) is StatusPayload and _rotates(frame.payload))
            and self._sequence.advance(seq)
        ):
            return to_event(frame, data, seq <= self.reserved)
        return None

    def number(self, seq: int, now: float) -> None:
        """A frame that is no event took a number, as control frames of some runtimes do."""
        self.take(ControlFrame(type="", event_seq=seq), b"", now)

    def take(self, frame: _Numbered, data: bytes, now: float) -> None:
        """Bring a frame into order, and deliver it and what it lets go."""
        if self._recovery.busy:
            self._recovery.seen(frame.job_id, now)
        seq = frame.event_seq
        if seq is not None and frame.job_id in self._apart and not self._stored(frame):
            # The number is none of this session's: it moves no cursor, here or anywhere.
            frame.event_seq = seq = None
        if self._repeats.came(frame, self._sequence.cursor):
            if seq is None:
                return
            frame = ControlFrame(type="")  # its number counts all the same
        if seq is None:
            if self._sequence.after((frame, data)):
                self._deliver(frame, data)
        elif self._sequence.advance(seq):
            self._deliver(frame, data)
        else:
            self._take_odd(seq, (frame, data), now)

    def _take_odd(self, seq: int, item: Item, now: float) -> None:
        sequence = self._sequence
        verdict = sequence.offer(seq, item, now)
        if verdict is Verdict.REPEAT:
            self._repeat(seq)
        elif verdict is Verdict.NEXT:
            self._deliver(*item)
            if sequence.holding:
                self._deliver_all(sequence.release())

    def settle(self, now: float, *, resumable: bool) -> ArcpError | None:
        """Do what the time calls for about a hole; gives why the link must be made anew (S3)."""
        sequence = self._sequence
        if sequence.should_resume(now):
            wanted = sequence.cursor + 1
            if resumable:
                return LinkLost(f"event {wanted} is missing (§8.3): asking for it again")
            sequence.opened(now)  # nobody can be asked: it may still come by itself
        self._deliver_all(sequence.expire(now))
        return None

    # -- what is not delivered

    def _stored(self, frame: _Numbered) -> bool:
        """Whether it is a stored outcome, which is numbered with the session's own events."""
        if not isinstance(frame, ControlFrame) or not self._terms.dialect.stored_outcomes:
            return False
        return frame.session_id != self._terms.session_id or (
            frame.job_id is not None and self._recovery.fetching(frame.job_id)
        )

    def _repeat(self, seq: int) -> None:
        if not self._warned:
            self._warned = True
            self._report(f"the runtime sent event {seq} again; repeats are dropped")

    def _was_processed(self, seq: int | None) -> bool:
        """Whether the checkpoint says so: such events come again and are passed over (S1)."""
        ranges = self._processed
        while seq is not None and ranges:
            first, last = ranges[0]
            if seq <= last:
                return seq >= first
            ranges.popleft()
        self._plain = self._repeats.tolerant is None and not ranges
        return False

    # -- delivery

    def _deliver_all(self, items: Iterator[Hole | Item], *, doubt: bool = True) -> None:
        for item in items:
            if isinstance(item, Hole):
                self.gap(item.first, item.last, "lost", doubt=doubt)
            else:
                self._deliver(*item)

    def _deliver(self, frame: _Numbered, data: bytes) -> None:
        again = False
        if frame.event_seq is not None:
            again = frame.event_seq <= self.reserved
            if self._processed and self._was_processed(frame.event_seq):
                self._pass_over(frame, data)
                return
        if isinstance(frame, BadFrame):
            self._bad(frame)
            self._repeats.note(frame)
        elif isinstance(frame, ControlFrame):
            if frame.type in dialect.TERMINALS:
                self.end(frame, data, again)
        elif not self._recovery.busy or self._recovery.wants(
            frame.job_id, of_result=type(frame.payload) is ChunkPayload
        ):
            self._repeats.note(frame)
            self._rotated(frame, data)
            self._emit(to_event(frame, data, again))

    def _pass_over(self, frame: _Numbered, data: bytes) -> None:
        """What it did to the session counts; handlers had it."""
        if isinstance(frame, ControlFrame):
            job_id = terminal_event(frame, data).job_id
            if frame.type in dialect.TERMINALS and job_id is not None:
                self._jobs.end(job_id)
        elif not isinstance(frame, BadFrame):
            self._rotated(frame, data)

    def end(self, frame: ControlFrame, data: bytes, again: bool = False) -> None:
        """Deliver a terminal message, unless its job's end was delivered before."""
        event = terminal_event(frame, data, again)
        job_id = event.job_id
        if job_id is None:
            self._report(f"a {frame.type} names no job; it was dropped")
            return
        here = frame.session_id == self._terms.session_id
        if self._recovery.keep(job_id, (frame, data), here=here) or not self._jobs.end(job_id):
            return
        self._recovery.ended(job_id)
        self.forget(job_id)
        self._emit(event)
        self._ended.append(job_id)

    def forget(self, job_id: str) -> None:
        """Nothing more comes of a job."""
        self._doubtful.pop(job_id, None)
        self._repeats.forget(job_id)

    def _bad(self, frame: BadFrame) -> None:
        """Report what could not be read; where its number could, it counts as received (S3)."""
        self.bad_frames += 1
        self._report(str(frame.error), frame.error)
        if frame.event_seq is not None:
            self.gap(frame.event_seq, frame.event_seq, "undecodable", job_id=frame.job_id)

    def _rotated(self, frame: EventFrame, data: bytes) -> None:
        """A new credential goes to its job before the event, in which it is masked (§9.8)."""
        if frame.job_id is None or not _rotates(frame.payload):
            return
        rotated = rotated_credential(data)
        if rotated is not None:
            name, value = rotated
            self._emit(effects.Rotated(frame.job_id, name, SecretStr(value)))

    def gap(
        self,
        first: int,
        last: int | None,
        reason: Literal["lost", "unknown_end", "undecodable"],
        *,
        job_id: str | None = None,
        doubt: bool = True,
    ) -> None:
        """Say that events will not be delivered; with ``doubt``, their jobs are checked (S4)."""
        self.gaps += 1
        self._emit(
            Gap(
                seq=first,
                first=first,
                last=last,
                reason=reason,
                session_id=self._terms.session_id,
                job_id=job_id,
            )
        )
        if not doubt:
            return
        for job in self._jobs:
            if job_id in (None, job.job_id) and (job.mine or job.watched):
                self._repeats.remember(job.job_id)
                self._doubtful.setdefault(job.job_id, first)

    def announced(self, job_id: str) -> None:
        """Events of a job went nowhere, as some runtimes let them; nobody knows how many."""
        self.gap(self.cursor + 1, None, "lost", job_id=job_id, doubt=False)
        if self._repeats.tolerant is not None:
            self._deliver_all(self._repeats.tolerant.rebase())

    def take_ended(self) -> list[str]:
        """The jobs whose ends were delivered since this was called last."""
        ended, self._ended = self._ended, []
        return ended

    def take_doubtful(self) -> dict[str, int]:
        """The open jobs that are to be checked, each with the first number that it may miss."""
        doubtful, self._doubtful = self._doubtful, {}
        return doubtful


def _rotates(payload: object) -> bool:
    if type(payload) is StatusPayload:
        return payload.body.phase == dialect.CREDENTIAL_ROTATED
    if type(payload) is LoosePayload and isinstance(payload.body, dict):
        return payload.body.get("phase") == dialect.CREDENTIAL_ROTATED
    return False
