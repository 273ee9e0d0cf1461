"""Frames in, with numbers or without, the same in order out (§8.3, S2, S3).

The numbers themselves are `sequence`'s business. Here stands which frames have one that counts, and
what follows from a hole: the session is resumed, or it is lost once the replay is over.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from arcp_client._protocol.delivery import Delivery, Incoming, Terminal, rotates
from arcp_client._protocol.histories import Held, Histories
from arcp_client._protocol.jobs import KnownJobs
from arcp_client._protocol.leaving import Leaving
from arcp_client._protocol.outbox import Outbox
from arcp_client._protocol.recovery import Recovery
from arcp_client._protocol.sequence import Hole, Sequence, TolerantSequence, Verdict
from arcp_client._protocol.terms import Terms
from arcp_client._wire import dialect
from arcp_client._wire.bodies import StatusPayload, TypedEvent
from arcp_client._wire.build import BUILDERS
from arcp_client._wire.codec import ControlFrame
from arcp_client.errors import LinkLost
from arcp_client.events import Event

__all__ = ["Ordering"]

Item = Held

PARTED: Final = 256
"""How many jobs that are over are known to be numbered apart: their last events may yet come."""
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
        leaving: the jobs of which nothing is wanted any more.
        limit: how many items may wait behind a hole.
    """

    def __init__(
        self,
        terms: Terms,
        out: Outbox,
        delivery: Delivery,
        jobs: KnownJobs,
        recovery: Recovery[Terminal],
        leaving: Leaving,
        *,
        limit: int,
    ) -> None:
        self._terms = terms
        self._out = out
        self._delivery = delivery
        self._jobs = jobs
        self._recovery = recovery
        self._leaving = leaving.marks
        self._limit = limit
        self._sequence: Sequence[Item] = Sequence(limit=limit)
        self._histories: Histories[Hole] = Histories(limit=limit)
        self._repeats = delivery.repeats
        self._remembered = self._repeats.ids
        self._apart: set[str] = set()
        self._parted: OrderedDict[str, None] = OrderedDict()
        self._plain = delivery.plain
        self._warned = False
        self._rounds = 0
        self._probed_for = -1
        self._answered = False

    # -- questions

    @property
    def cursor(self) -> int:
        """Every number up to it was received."""
        return self._sequence.cursor

    @property
    def received(self) -> int:
        """Every number up to it was received and delivered."""
        first = self._histories.first if self._histories.waiting else None
        return self.cursor if first is None else min(self.cursor, first - 1)

    @property
    def missing(self) -> bool:
        """Whether something came that waits: behind a hole, or for the end of a history."""
        return self._sequence.missing or self._histories.waiting

    @property
    def repeated(self) -> int:
        """How many repeats were dropped."""
        return self._sequence.repeated + self._repeats.found

    @property
    def deadline(self) -> float | None:
        """When `settle` must be called."""
        one, other = self._sequence.deadline, self._histories.deadline
        return other if one is None else one if other is None else min(one, other)

    def whole(self, number: int) -> int:
        """The last number that belongs to the same place in order as this one."""
        return self._histories.whole(number)

    def told(self, mark: int) -> int:
        """How far a mark tells the runtime what was processed: it may have another order."""
        limit = self._histories.told(mark)
        return mark if limit is None else min(mark, limit)

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
            self._histories.restarted()
            self._apart.clear()
            self._parted.clear()
        if not resumed or (self._repeats.tolerant is None and not self._terms.dialect.strict):
            self._start(self.cursor if resumed else 0)
        self._sequence.patience = self._terms.dialect.patience
        if resumed:
            self._sequence.opened(now)
        self._repeats.begun(renamed=self._terms.dialect.renames_copies, resumed=resumed)
        self._look()

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

    def step_over(self, now: float) -> None:
        """The next number ends every link: it is given up, and the next resume begins behind it."""
        number = self._sequence.skip()
        self._delivery.gap(number, number, "undecodable")
        self._deliver_all(self._sequence.release(), now)

    def lost(self) -> None:
        """The link is gone: what waits for the end of a history waits for nothing more."""
        self.let_go()

    # -- subscriptions

    def subscribing(
        self, job_id: str, *, history: bool, apart: bool, ends_with: str | None = None
    ) -> None:
        """A subscription is asked for; its history may come before its confirmation.

        Args:
            job_id: to which job.
            history: whether its past is asked for.
            apart: its events are numbered apart, in some dialects.
            ends_with: the nonce of a ping whose answer ends a history that may be mixed up.
        """
        self._repeats.opened(job_id, history=history)
        if ends_with is not None:
            self._repeats.remember(job_id)
            self._histories.expect(job_id, ends_with)
            self._look()
        if apart:
            self._set_apart(job_id)

    def subscribed(self, job_id: str) -> None:
        """A subscription was confirmed."""
        self._repeats.closed(job_id)
        self._set_apart(job_id)

    def unsubscribed(self, job_id: str, *, late: bool) -> None:
        """A subscription was refused; or not answered in time, and its history may yet come."""
        if not late:
            self._repeats.closed(job_id)
        if self._histories.refused(job_id):
            self.let_go()
        if self._jobs.get(job_id) is None:
            self._repeats.forget(job_id)
            self.over(job_id)

    def over(self, job_id: str) -> None:
        """A job has ended, or nothing more is wanted of it. Something may still be on its way."""
        if job_id not in self._apart:
            return
        self._parted[job_id] = None
        if len(self._parted) > PARTED:
            oldest, _ = self._parted.popitem(last=False)
            self._apart.discard(oldest)

    def answered(self, nonce: object) -> bool:
        """A ping was answered; whether that was the end of a history."""
        ended = isinstance(nonce, str) and self._histories.ended(nonce)
        if ended:
            self._histories.last = self._sequence.top
            self._end_history()
        return ended

    def _end_history(self) -> None:
        """Let a history go that has ended, once no event is missing that is numbered among it.

        A live event may come behind the end of the history, and has its place in it.
        """
        last = self._histories.last
        if last is not None and self._sequence.cursor >= last:
            self.let_go()

    def ends_history(self, frame: ControlFrame) -> bool:
        """Whether a message ends a history, and so has its place behind the events of it."""
        return frame.type == dialect.PONG and self._histories.awaits(
            frame.payload.get("ping_nonce")
        )

    def let_go(self) -> None:
        """Deliver what waits for the end of a history: there is no more of it to wait for."""
        if not self._histories.expected:
            return
        for item in self._histories.release():
            self._pass(item)
        self._look()

    def _set_apart(self, job_id: str) -> None:
        """From now on the job's events are numbered apart, in some dialects."""
        space = self._terms.dialect.watched_space
        if space == "own" or (space == "submitter" and not self._is_home_of(job_id)):
            self._parted.pop(job_id, None)
            self._apart.add(job_id)

    def _is_home_of(self, job_id: str) -> bool:
        """Whether this session submitted the job."""
        job = self._jobs.get(job_id)
        return job is not None and job.home == self._terms.session_id

    # -- frames

    def next(self, frame: TypedEvent, data: bytes) -> Event | None:
        """The event that a frame is, if it is the next one and there is nothing else to it."""
        seq = frame.event_seq
        if (
            not self._plain
            or seq is None
            or self._recovery.busy
            or frame.job_id in self._remembered
            or frame.job_id in self._leaving
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
        if frame.job_id in self._leaving or self._repeats.came(frame, self._sequence.cursor):
            if seq is None:
                return
            frame = ControlFrame(type="")  # its number counts all the same
        item = Held(frame, data)
        if seq is None:
            if self._sequence.after(item):
                self._give(item, now)
        elif self._sequence.advance(seq):
            self._give(item, now)
        else:
            self._take_odd(seq, item, now)
        self._end_history()
        self._look()

    def _take_odd(self, seq: int, item: Item, now: float) -> None:
        sequence = self._sequence
        verdict = sequence.offer(seq, item, now)
        if verdict is Verdict.REPEAT:
            self._repeat(seq)
            if seq <= sequence.cursor and self._ends_open_job(item.frame):
                self._give(item, now)
        elif verdict is Verdict.LATE:
            self._give(item, now)
        elif verdict is Verdict.BEYOND:
            self._delivery.stray(item.frame, sequence.cursor)
        elif verdict is Verdict.NEXT:
            self._give(item, now)
            if sequence.holding:
                self._deliver_all(sequence.release(), now)

    def _ends_open_job(self, frame: Incoming) -> bool:
        """Whether it cannot have come before, whatever its number: the job has not ended here.

        So it is with a runtime that numbers from 1 again after a resume; nobody is to wait for ever
        for a job of it.
        """
        is_end = isinstance(frame, ControlFrame) and frame.type in dialect.TERMINALS
        return is_end and self._jobs.get(frame.job_id) is not None

    def settle(self, now: float, *, resumable: bool) -> None:
        """Do what the time calls for about a hole: ask for it again, or give it up (S3)."""
        sequence = self._sequence
        if self._histories.waiting:
            if self._out.liveness.paused:
                self._histories.postpone(now)
            elif self._histories.due(now):
                self.let_go()
        if sequence.should_resume(now):
            wanted = sequence.cursor + 1
            if resumable:
                text = f"event {wanted} is missing (§8.3): asking for it again"
                self._out.relink(LinkLost(text))
                return
            sequence.opened(now)  # nobody can be asked: it may still come by itself
        if self._repeats.tolerant is None and sequence.missing:
            self._probe(now)
        self._deliver_all(sequence.expire(now), now)
        self._end_history()

    def _probe(self, now: float) -> None:
        """Tell a replay that is over from a link that stands still: nothing is lost by the latter.

        Without a heartbeat nothing can be asked, and a few rounds of patience have to do.
        """
        sequence, heartbeat = self._sequence, self._terms.offer(dialect.HEARTBEAT)
        heard = self._answered or self._out.liveness.heard_at > sequence.quiet_since
        if sequence.expires(now) and not heard:
            self._rounds += 1
            if heartbeat or self._rounds < ROUNDS:
                sequence.opened(now)
        else:
            self._rounds = 0
        if heartbeat and self._probed_for != sequence.waits:
            self._probed_for, self._answered = sequence.waits, False
            self._out.ping(now)

    def ponged(self) -> None:
        """A ping was answered, be it at the reading of the clock at which it was sent."""
        self._answered = True

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
        self.let_go()
        self._delivery.gap(self.cursor + 1, None, "lost", job_id=job_id, doubt=False)
        if self._repeats.tolerant is not None:
            for item in self._repeats.tolerant.rebase():
                self._pass(item)

    def _deliver_all(self, items: Iterator[Hole | Item], now: float) -> None:
        for item in items:
            self._give(item, now)

    def _give(self, item: Hole | Item, now: float) -> None:
        if not (self._histories.expected and self._histories.hold(item, now)):
            self._pass(item)

    def _pass(self, item: Hole | Item) -> None:
        if isinstance(item, Hole):
            self._delivery.gap(item.first, item.last, "lost")
        else:
            self._delivery.deliver(*item)

    def _look(self) -> None:
        """Whether an event that is the next one can be delivered without a further thought."""
        plain = self._repeats.tolerant is None and self._delivery.plain
        self._plain = plain and not self._histories.expected
