"""Turns frames into events and gaps (rules S1–S4 in docs/explanation/rules.md).

The receiver lets `reassembly`, the layer below, put the frames in order. The *history* of a job is
the past events that the runtime sends for a subscription. The receiver drops events that a history
repeats (see `dedup`). It also drops a second terminal message of a job, and events that the
checkpoint covers. It delivers a `Gap` for a frame that cannot be read, and for missing numbers that
`reassembly` no longer waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final, Literal

from pydantic import SecretStr

from arcp_client._protocol import actions
from arcp_client._protocol.actions import ActionQueue, EventRun
from arcp_client._protocol.dedup import Deduplication
from arcp_client._protocol.jobs import Jobs, JobState
from arcp_client._protocol.negotiated import Negotiated
from arcp_client._protocol.peer import Incoming, Peer, Received
from arcp_client._protocol.reassembly import LostNumbers, Placement, Ranges
from arcp_client._wire import names
from arcp_client._wire.bodies import ChunkPayload, LoosePayload, StatusPayload
from arcp_client._wire.build import BUILDERS, rotated_credential, terminal_event, to_event
from arcp_client._wire.codec import (
    BadFrame,
    ControlFrame,
    EventFrame,
    decode_control,
    decode_event,
)
from arcp_client.errors import LinkLost, RemoteProtocolError
from arcp_client.events import Gap
from arcp_client.models import Checkpoint

__all__ = ["Receiver", "rotates"]

ROUNDS: Final = 3
"""Without a heartbeat, a missing event of a silent link counts as lost after this many waits."""


class Receiver:
    """Receives the frames of one session.

    Args:
        negotiated: the agreed terms.
        out: gets events, gaps, and reports of faulty frames.
        jobs: the jobs of the session.
        peer: the adapter for the dialect of the runtime.
        limit: how many frames may wait while an earlier one is missing.
        checkpoint: states which events an earlier process has processed.

    Attributes:
        peer: the adapter for the dialect of the runtime.
        reserved: events up to this number may have reached a handler before a restart of the
            process.
        limit: how many frames may wait while an earlier one is missing.
        gaps: the number of delivered gaps.
        dedup: recognises repeated events.
        holds: decides whether a terminal message is held back: `PlanRunner.holds`.
        seen: called for each frame of a job that has a recovery plan: `PlanRunner.seen`.
        ended: called for each job whose terminal message was delivered.
    """

    holds: Callable[[JobState | None, ControlFrame, bytes], bool]
    seen: Callable[[JobState, Incoming, float], None]
    ended: Callable[[str, float], None]

    def __init__(
        self,
        negotiated: Negotiated,
        out: ActionQueue,
        jobs: Jobs,
        peer: Peer,
        *,
        limit: int,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.peer = peer
        self.reserved = checkpoint.reserved if checkpoint is not None else 0
        self.gaps = 0
        self.dedup = Deduplication(jobs, self._forgotten)
        self._negotiated = negotiated
        self._out = out
        self._jobs = jobs
        self._table = jobs.table
        self.limit = limit
        self._reassembly = peer.reassembly(checkpoint.mark if checkpoint is not None else 0, limit)
        self._processed = Ranges(checkpoint.processed if checkpoint is not None else ())
        self._doubtful = False
        self._warned = False
        self._rounds = 0
        self._probed_for = -1
        self._ponged = False
        self._now = 0.0
        self._plain = False
        self.look()

    def _forgotten(self, job: JobState) -> None:
        self.peer.job_forgotten(job)

    # -- questions

    @property
    def cursor(self) -> int:
        """Every number up to this one was received."""
        return self._reassembly.cursor

    @property
    def missing(self) -> bool:
        """Whether frames wait for a missing number or for the end of a history."""
        return self._reassembly.missing or self.peer.holding

    @property
    def repeated(self) -> int:
        """The number of dropped repeats."""
        return self._reassembly.repeated + self.dedup.found + self.peer.repeated

    @property
    def deadline(self) -> float | None:
        """The time at which `settle` must be called."""
        return self._reassembly.deadline

    def take_doubtful(self) -> list[JobState]:
        """The open jobs to check after a gap; each is returned once."""
        if not self._doubtful:
            return []
        self._doubtful = False
        return [job for job in self._jobs if job.first_missing is not None]

    # -- sessions

    def abandon(self, *, histories: bool) -> None:
        """Close the sequence of a session that cannot be resumed, with a `Gap`.

        Frames behind a hole are delivered, except for jobs that the new session subscribes to: the
        histories of these jobs bring the events again, in order. Their terminal messages are stored
        in case no history comes. Call this before the new session is negotiated.

        Args:
            histories: whether the new session has subscriptions.
        """
        missing = self.cursor + 1
        refetched = histories and self._reassembly.refetches
        for item in self._reassembly.abandon():
            if isinstance(item, LostNumbers):
                continue
            frame, data = item
            job = self._jobs.get(frame.job_id)
            if refetched and job is not None and job.wanted:
                if isinstance(frame, ControlFrame):
                    job.stored_end = frame, data
                continue
            seq = frame.event_seq
            if seq is not None and seq > missing:
                self.gap(missing, seq - 1, "lost", doubt=False)
            missing = max(missing, seq + 1 if seq is not None else 0)
            self._deliver(frame, data)
        self.gap(missing, None, "unknown_end", doubt=False)
        for job in self._jobs:
            job.first_missing = None
            self.dedup.remember(job)

    def opened(self, peer: Peer, now: float, *, resumed: bool) -> None:
        """Begin a session after its welcome. The numbers of a new session begin at 1."""
        self._warned = False
        if not resumed:
            self.reserved = 0
            self._processed = Ranges()
            self.dedup.restarted()
            self._jobs.restarted()
        if not resumed or peer is not self.peer:
            self.peer = peer
            repeated = self._reassembly.repeated
            self._reassembly = peer.reassembly(self.cursor if resumed else 0, self.limit)
            self._reassembly.repeated = repeated
        self._reassembly.patience = peer.hole_patience
        if resumed:
            self._reassembly.opened(now)
        self.look()

    # -- subscriptions

    def subscribing(self, job_id: str, *, history: bool) -> None:
        """Note that a subscription was sent. Its history may come before its confirmation."""
        self.dedup.requested(self._jobs.state(job_id), history=history)

    def subscribed(self, job_id: str) -> None:
        """Note that a subscription was confirmed."""
        self.dedup.answered(self._jobs.state(job_id))

    def unsubscribed(self, job_id: str, *, late: bool) -> None:
        """Note that a subscription was refused, or that it timed out (``late``).

        After a time-out the history may still come.
        """
        if late and self._jobs.has_ended(job_id):
            return  # the rest of its history is recognised
        job = self._jobs.state(job_id)
        if not late:
            self.dedup.answered(job)
        if not job.open:
            self.dedup.forget(job)

    def skip_past(self, job: JobState) -> bool:
        """Skip the events of the next history that are older than the subscription.

        Returns False if no event with a time has arrived since the subscription: then the events of
        the history cannot be told from older ones.
        """
        job.skips_past = job.skips_past or job.began_at is not None
        return job.began_at is not None

    def forget(self, job_id: str) -> None:
        """Forget a job that ended, or whose events come again from the beginning."""
        self.dedup.forget(self._jobs.state(job_id))

    # -- frames

    def deliver_run(
        self, frames: Sequence[bytes], now: float, start: int
    ) -> tuple[EventRun, Received | None]:
        """The fast path: deliver the frames that are next in order and need no further check.

        Args:
            frames: encoded frames, in order.
            now: the time of their arrival.
            start: the position of the first one to deliver.

        Returns:
            Their events, and the first other frame, if there is one. An event that must not be
            delivered also ends the run. It is counted as received, and needs nothing else.
        """
        run, other = EventRun(), None
        reassembly, table, reserved = self._reassembly, self._table, self.reserved
        plain, cursor = self._plain and not reassembly.holding, reassembly.cursor
        last: JobState | None = None
        checked, jobs = False, 0
        for data in islice(frames, start, None):
            try:
                frame = decode_event(data)
            except (ValueError, RecursionError):
                other = Received(decode_control(data), data)
                break
            seq, payload = frame.event_seq, frame.payload
            job = table.get(frame.job_id)
            kind = type(payload)
            if (
                job is None
                or seq != cursor + 1
                or not plain
                or (kind is StatusPayload and rotates(payload))
                or (job is not last and (checking := not job.plain) and not job.orderly)
            ):
                other = Received(frame, data)
                break
            cursor = seq
            if job is not last:
                last, checked = job, checking
                jobs += 1
            if checked:
                if job.recovering is not None:
                    self.seen(job, frame, now)
                if not self._is_new(frame, job):
                    run.more = True
                    break
            run.append(BUILDERS[kind](frame, data, seq <= reserved))
        reassembly.cursor = cursor
        if run and not run[0].redelivered:
            run.envelopes = frames[start : start + len(run)]
        run.one_job = jobs == 1
        run.more = run.more or other is not None
        return run, other

    def look(self) -> None:
        """Decide whether `deliver_run` may deliver frames."""
        self._plain = self.peer.transparent and self._reassembly.refetches and not self._processed

    def take_all(self, received: Iterable[Received], now: float) -> None:
        """Bring frames into order, and deliver those that are now in order."""
        for frame, data in received:
            self.take(frame, data, now)

    def take(self, frame: Incoming, data: bytes, now: float) -> None:
        """Bring a frame into order. If it is next, deliver it and the frames that waited for it."""
        self._now = now
        job = self._table.get(frame.job_id)
        if job is not None:
            if job.recovering is not None:
                self.seen(job, frame, now)
            if job.unsubscribing:
                frame = ControlFrame(type="", event_seq=frame.event_seq)
        seq = frame.event_seq
        item = Received(frame, data)
        if seq is None:
            if self._reassembly.after(item):
                self._deliver(frame, data)
        elif self._reassembly.advance(seq):
            self._deliver(frame, data)
        else:
            self._take_odd(seq, item, now)

    def _take_odd(self, seq: int, item: Received, now: float) -> None:
        reassembly = self._reassembly
        verdict = reassembly.offer(seq, item, now)
        if verdict is Placement.REPEAT:
            self._repeat(seq)
            if seq <= reassembly.cursor and self._ends_open_job(item.frame):
                self._deliver(*item)
        elif verdict is Placement.LATE:
            self._deliver(*item)
        elif verdict is Placement.BEYOND:
            self._stray(item.frame)
        elif verdict is Placement.NEXT:
            self._deliver(*item)
            if reassembly.holding:
                for each in reassembly.release():
                    self._deliver(*each)

    def _stray(self, frame: Incoming) -> None:
        """Report a frame whose number is too far ahead, and drop it (rule S17)."""
        number, cursor = frame.event_seq, self.cursor
        assert number is not None
        text = f"a frame is numbered {number}, and {cursor} was the last: it was not taken"
        self._out.report(text, RemoteProtocolError(text), job_id=frame.job_id, seq=number)
        if not isinstance(frame, ControlFrame) or frame.type:  # else it is no more than a number
            self.gap(number, number, "undecodable", job_id=frame.job_id, after=cursor)

    def _ends_open_job(self, frame: Incoming) -> bool:
        """Whether a frame is the terminal message of an open job, and so no repeat of an old frame.

        A runtime that restarts its numbers at 1 after a resume sends such frames.
        """
        is_end = isinstance(frame, ControlFrame) and frame.type in names.TERMINALS
        return is_end and self._jobs.get(frame.job_id) is not None

    def _repeat(self, seq: int) -> None:
        if not self._warned:
            self._warned = True
            self._out.report(f"the runtime sent event {seq} again; repeats are dropped", seq=seq)

    # -- holes

    def settle(self, now: float, *, resumable: bool) -> None:
        """Request a hole again, or give it up, when it is due (rule S3)."""
        self._now = now
        reassembly = self._reassembly
        if reassembly.should_resume(now):
            wanted = reassembly.cursor + 1
            if resumable:
                text = f"event {wanted} is missing (§8.3): asking for it again"
                self._out.relink(LinkLost(text))
                return
            reassembly.opened(now)  # it cannot be asked for: it may still come by itself
        if reassembly.refetches and reassembly.missing:
            self._probe(now)
        for item in reassembly.expire(now):
            if isinstance(item, LostNumbers):
                self.gap(item.first, item.last, "lost")
            else:
                self._deliver(*item)

    def _probe(self, now: float) -> None:
        """Find out whether the replay has ended, or the link only stalls and nothing is lost.

        A ping decides; without a heartbeat, `ROUNDS` waits do.
        """
        reassembly, heartbeat = self._reassembly, self._negotiated.offers(names.HEARTBEAT)
        heard = self._ponged or self._out.heartbeat.heard_at > reassembly.quiet_since
        if reassembly.expires(now) and not heard:
            self._rounds += 1
            if heartbeat or self._rounds < ROUNDS:
                reassembly.opened(now)
        else:
            self._rounds = 0
        if heartbeat and self._probed_for != reassembly.waits:
            self._probed_for, self._ponged = reassembly.waits, False
            self._out.ping(now)

    def ponged(self) -> None:
        """Note a pong. It counts even if it has the same time as its ping."""
        self._ponged = True

    def step_over(self, now: float) -> None:
        """Give up the next number, because its frame ends every link (see `obstacle`)."""
        self._now = now
        number = self._reassembly.skip()
        self.gap(number, number, "undecodable")
        for item in self._reassembly.release():
            self._deliver(*item)

    def events_lost(self, job_id: str) -> None:
        """Deliver a `Gap` for an unknown number of lost events of a job."""
        self.take_all(self.peer.release(), self._now)
        self.gap(self.cursor + 1, None, "lost", job_id=job_id, doubt=False)
        for item in self._reassembly.rebase():
            self._deliver(*item)

    def gap(
        self,
        first: int,
        last: int | None,
        reason: Literal["lost", "unknown_end", "undecodable"],
        *,
        job_id: str | None = None,
        doubt: bool = True,
        after: int | None = None,
    ) -> None:
        """Deliver a `Gap` for events that will not be delivered.

        Args:
            first: the first number.
            last: the last one, if it is known.
            reason: the reason.
            job_id: the job of the events; any job by default.
            doubt: a terminal message may be among the events: check the jobs (rule S4).
            after: the last received number, for a gap without ``seq``, which is not part of the
                sequence.
        """
        self.gaps += 1
        self._out.emit(
            Gap(
                seq=first if after is None else None,
                first=first,
                last=last,
                reason=reason,
                session_id=self._negotiated.session_id,
                job_id=job_id,
            )
        )
        if not doubt:
            return
        for job in self._jobs:
            if job_id in (None, job.job_id) and job.wanted:
                self.dedup.remember(job)
                self._doubtful = True
                if job.first_missing is None:
                    job.first_missing = first if after is None else after + 1

    # -- deliveries

    def _deliver(self, frame: Incoming, data: bytes) -> None:
        again = False
        if frame.event_seq is not None:
            again = frame.event_seq <= self.reserved
            if self._processed and self._was_processed(frame.event_seq):
                self._pass_over(frame, data)
                return
        if isinstance(frame, BadFrame):
            self._bad(frame)
        elif isinstance(frame, ControlFrame):
            if frame.type in names.TERMINALS:
                self.end(frame, data, again)
        elif self._is_new(frame, self._table.get(frame.job_id)):
            self._rotated(frame, data)
            self._out.emit(to_event(frame, data, again))

    def _is_new(self, frame: EventFrame, job: JobState | None) -> bool:
        """Whether to deliver an event: it is new, and not older than the subscription."""
        if job is None:
            if frame.job_id is not None:
                self._jobs.came_early(frame.job_id)
            return True
        if job.delivered is not None and self.dedup.repeats(job, self.peer.identities(frame)):
            return False
        recovering = job.recovering
        if recovering is None and not job.from_now_on:
            return True
        of_result = type(frame.payload) is ChunkPayload
        if recovering is not None and recovering.only_outcome and not of_result:
            return False
        if job.from_now_on and self._is_past(job, frame, of_result):
            return False
        if recovering is not None:
            recovering.behind_gap = False
        return True

    def _is_past(self, job: JobState, frame: EventFrame, of_result: bool) -> bool:
        """Whether an event is older than the subscription. Chunks never count as older."""
        moment = frame.payload.ts
        if moment is None:
            return False
        if job.began_at is None:
            job.began_at = moment
            return False
        return job.skips_past and moment < job.began_at and not of_result

    def _was_processed(self, seq: int) -> bool:
        """Whether the checkpoint covers an event; if so, it is not delivered again (rule S1)."""
        self.look()
        return seq in self._processed

    def _pass_over(self, frame: Incoming, data: bytes) -> None:
        """Apply the effects of an event on the session, without delivering the event again."""
        if isinstance(frame, ControlFrame):
            job_id = terminal_event(frame, data).job_id
            if frame.type in names.TERMINALS and job_id is not None:
                self._jobs.end(job_id)
        elif not isinstance(frame, BadFrame):
            self._rotated(frame, data)

    def end(self, frame: ControlFrame, data: bytes, again: bool = False) -> None:
        """Deliver a terminal message, unless the job has had one."""
        event = terminal_event(frame, data, again)
        job_id = event.job_id
        if job_id is None:
            self._out.report(f"a {frame.type} names no job; it was dropped")
            return
        job = self._table.get(job_id)
        if self.holds(job, frame, data):
            return
        is_first = self._jobs.end(job_id)
        self.dedup.ended(job_id)
        if is_first:
            self._out.emit(event)
            self.ended(job_id, self._now)

    def _bad(self, frame: BadFrame) -> None:
        """Report a frame that could not be read; with a number it counts as received (rule S3)."""
        job = self._table.get(frame.job_id)
        marks = self.peer.identities(frame)
        if self.dedup.repeats(job, marks):
            return
        self._out.report(str(frame.error), frame.error, job_id=frame.job_id, seq=frame.event_seq)
        if frame.event_seq is not None:
            self.gap(frame.event_seq, frame.event_seq, "undecodable", job_id=frame.job_id)
            self.dedup.repeats(job, marks)  # its job is remembered only now

    def _rotated(self, frame: EventFrame, data: bytes) -> None:
        """Emit a new credential before its event, in which it is masked (§9.8)."""
        if frame.job_id is None or not rotates(frame.payload):
            return
        rotated = rotated_credential(data)
        if rotated is not None:
            name, value = rotated
            self._out.emit(actions.Rotated(frame.job_id, name, SecretStr(value)))


def rotates(payload: object) -> bool:
    """Whether an event brings a new credential (§9.8)."""
    if type(payload) is StatusPayload:
        return payload.body.phase == names.CREDENTIAL_ROTATED
    if type(payload) is LoosePayload and isinstance(payload.body, dict):
        return payload.body.get("phase") == names.CREDENTIAL_ROTATED
    return False
