"""Frames in, with numbers or without, the same in order out (§8.3, S2, S3).

The numbers themselves are `sequence`'s business. Here stands which frames have one that counts, and
what follows from a hole: the session is resumed, or it is lost once the replay is over.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .._wire import dialect
from .._wire.bodies import StatusPayload, TypedEvent
from .._wire.build import BUILDERS
from .._wire.codec import ControlFrame
from ..errors import LinkLost
from ..events import Event
from .delivery import Delivery, Incoming, Terminal, rotates
from .jobs import KnownJobs
from .outbox import Outbox
from .recovery import Recovery
from .sequence import Hole, Sequence, TolerantSequence, Verdict
from .terms import Terms

__all__ = ["Ordering"]

Item = tuple[Incoming, bytes]

ROUNDS: Final = 3
"""How often a silent link is waited for that has no heartbeat."""


class Ordering:
    """Brings what a session receives into order.

    Args:
        terms: what was agreed on.
        out: the way out.
        delivery: takes what is in order.
        jobs: the jobs that the session knows.
        recovery: the jobs that are on their way back.
        limit: how many items may wait behind a hole.
    """

    def __init__(
        self,
        terms: Terms,
        out: Outbox,
        delivery: Delivery,
        jobs: KnownJobs,
        recovery: Recovery[Terminal],
        *,
        limit: int,
    ) -> None:
        self._terms = terms
        self._out = out
        self._delivery = delivery
        self._jobs = jobs
        self._recovery = recovery
        self._limit = limit
        self._sequence: Sequence[Item] = Sequence(limit=limit)
        self._repeats = delivery.repeats
        self._remembered = self._repeats.ids
        self._apart: set[str] = set()
        self._plain = delivery.plain
        self._warned = False
        self._rounds = 0
        self._probed_for = -1.0

    # -- questions

    @property
    def cursor(self) -> int:
        """Every number up to it was received."""
        return self._sequence.cursor

    @property
    def missing(self) -> bool:
        """Whether something waits behind a hole."""
        return self._sequence.missing

    @property
    def repeated(self) -> int:
        """How many repeats were dropped."""
        return self._sequence.repeated + self._repeats.found

    @property
    def deadline(self) -> float | None:
        """When `settle` must be called."""
        return self._sequence.deadline

    # -- sessions

    def abandoned(self, *, histories: bool) -> dict[str, Terminal]:
        """The session is gone: say that its end is lost.

        What waits behind a hole is delivered, but for events of jobs that are subscribed to again:
        their histories bring all of it, and in order. Gives the ends among them, which count where
        a history does not come. To be called while `Terms` still names the session that is gone.

        Args:
            histories: whether the new session has subscriptions.
        """
        ends: dict[str, Terminal] = {}
        missing = self.cursor + 1
        for item in self._sequence.abandon():
            if isinstance(item, Hole):
                continue
            frame, data = item
            job = self._jobs.get(frame.job_id)
            if histories and self._repeats.tolerant is None and job is not None and job.ours:
                if isinstance(frame, ControlFrame):
                    ends[job.job_id] = frame, data
                continue
            seq = frame.event_seq
            if seq is not None and seq > missing:
                self._delivery.gap(missing, seq - 1, "lost", doubt=False)
            missing = max(missing, seq + 1 if seq is not None else 0)
            self._delivery.deliver(frame, data)
        self._delivery.gap(missing, None, "unknown_end", doubt=False)
        self._delivery.abandoned()
        return ends

    def begin(self, mark: int) -> None:
        """Everything up to this number was received by somebody before."""
        self._sequence.cursor = mark

    def opened(self, now: float, *, resumed: bool) -> None:
        """A welcome came. A session that goes on keeps its numbers, a new one begins at 1."""
        self._warned = False
        if not resumed:
            self._delivery.restarted()
            self._apart.clear()
        if not resumed or (self._repeats.tolerant is None and not self._terms.dialect.strict):
            self._start(self.cursor if resumed else 0)
        if resumed:
            self._sequence.opened(now)
        self._repeats.begun(renamed=self._terms.dialect.renames_copies)
        self._plain = self._repeats.tolerant is None and self._delivery.plain

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
            not self._plain
            or seq is None
            or self._recovery.busy
            or frame.job_id in self._remembered
        ):
            return None
        payload = frame.payload
        kind = type(payload)
        if kind is StatusPayload and rotates(payload):
            return None
        if not self._sequence.advance(seq):
            return None
        return BUILDERS[kind](frame, data, seq <= self._delivery.reserved)

    def number(self, seq: int | None, now: float) -> None:
        """A frame that is no event may have a number too, in some runtimes."""
        if seq is not None:
            self.take(ControlFrame(type="", event_seq=seq), b"", now)

    def take(self, frame: Incoming, data: bytes, now: float) -> None:
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
                self._delivery.deliver(frame, data)
        elif self._sequence.advance(seq):
            self._delivery.deliver(frame, data)
        else:
            self._take_odd(seq, (frame, data), now)
        self._plain = self._repeats.tolerant is None and self._delivery.plain

    def _take_odd(self, seq: int, item: Item, now: float) -> None:
        sequence = self._sequence
        verdict = sequence.offer(seq, item, now)
        if verdict is Verdict.REPEAT:
            self._repeat(seq)
        elif verdict is Verdict.NEXT:
            self._delivery.deliver(*item)
            if sequence.holding:
                self._deliver_all(sequence.release())

    def settle(self, now: float, *, resumable: bool) -> None:
        """Do what the time calls for about a hole: ask for it again, or give it up (S3)."""
        sequence = self._sequence
        if sequence.should_resume(now):
            wanted = sequence.cursor + 1
            if resumable:
                text = f"event {wanted} is missing (§8.3): asking for it again"
                self._out.relink(LinkLost(text))
                return
            sequence.opened(now)  # nobody can be asked: it may still come by itself
        if self._repeats.tolerant is None and sequence.missing:
            self._probe(now)
        self._deliver_all(sequence.expire(now))

    def _probe(self, now: float) -> None:
        """Tell a replay that is over from a link that stands still: nothing is lost by the latter.

        Without a heartbeat nothing can be asked, and a few rounds of patience have to do.
        """
        sequence, heartbeat = self._sequence, self._terms.offer(dialect.HEARTBEAT)
        if sequence.expires(now) and self._out.liveness.heard_at <= sequence.quiet_since:
            self._rounds += 1
            if heartbeat or self._rounds < ROUNDS:
                sequence.opened(now)
        else:
            self._rounds = 0
        if heartbeat and self._probed_for != sequence.quiet_since:
            self._probed_for = sequence.quiet_since
            self._out.ping(now)

    # -- what is not delivered

    def _stored(self, frame: Incoming) -> bool:
        """Whether it is a stored outcome, which is numbered with the session's own events."""
        if not isinstance(frame, ControlFrame) or not self._terms.dialect.stored_outcomes:
            return False
        return frame.session_id != self._terms.session_id or (
            frame.job_id is not None and self._recovery.fetching(frame.job_id)
        )

    def _repeat(self, seq: int) -> None:
        if not self._warned:
            self._warned = True
            self._out.report(f"the runtime sent event {seq} again; repeats are dropped")

    def announced(self, job_id: str) -> None:
        """Events of a job went nowhere, as some runtimes let them; nobody knows how many."""
        self._delivery.gap(self.cursor + 1, None, "lost", job_id=job_id, doubt=False)
        if self._repeats.tolerant is not None:
            self._deliver_all(self._repeats.tolerant.rebase())

    def _deliver_all(self, items: Iterator[Hole | Item]) -> None:
        for item in items:
            if isinstance(item, Hole):
                self._delivery.gap(item.first, item.last, "lost")
            else:
                self._delivery.deliver(*item)
