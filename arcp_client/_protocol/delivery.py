"""Frames in order in, events and gaps out: what is delivered, and as what (S1, S3, S4).

Not delivered are copies that a history brings, the end of a job that has ended, and what a
checkpoint says was processed. A frame that cannot be read, and numbers that do not come, are a
`Gap`.
"""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import SecretStr

from arcp_client._protocol import effects
from arcp_client._protocol.jobs import KnownJobs
from arcp_client._protocol.outbox import Outbox
from arcp_client._protocol.recovery import Recovery
from arcp_client._protocol.repeats import Repeats
from arcp_client._protocol.sequence import Ranges
from arcp_client._protocol.terms import Terms
from arcp_client._wire import dialect
from arcp_client._wire.bodies import ChunkPayload, LoosePayload, StatusPayload
from arcp_client._wire.build import rotated_credential, terminal_event, to_event
from arcp_client._wire.codec import BadFrame, ControlFrame, EventFrame
from arcp_client.errors import RemoteProtocolError
from arcp_client.events import Gap
from arcp_client.models import Checkpoint

__all__ = ["Delivery", "Incoming", "Terminal", "rotates"]

Incoming = EventFrame | ControlFrame | BadFrame
Terminal = tuple[ControlFrame, bytes]


class Delivery:
    """Makes events of what a session received, once it is in order.

    Args:
        terms: what was agreed on.
        out: takes what is to be delivered.
        jobs: the jobs that the session knows.
        recovery: the jobs that are on their way back.
        checkpoint: what was processed before.

    Attributes:
        reserved: what comes again up to this number may have been seen by a handler before.
        gaps: how many gaps were delivered.
        repeats: what may come again.
        plain: whether nothing is to be passed over.
    """

    def __init__(
        self,
        terms: Terms,
        out: Outbox,
        jobs: KnownJobs,
        recovery: Recovery[Terminal],
        *,
        checkpoint: Checkpoint | None,
    ) -> None:
        self.reserved = checkpoint.reserved if checkpoint is not None else 0
        self.gaps = 0
        self.repeats = Repeats()
        self._terms = terms
        self._out = out
        self._jobs = jobs
        self._recovery = recovery
        self._processed = Ranges(checkpoint.processed if checkpoint is not None else ())
        self.plain = not self._processed
        self._began: dict[str, datetime | None] = {}
        self._skipping: set[str] = set()
        self._ended: list[str] = []
        self._doubtful: dict[str, int] = {}

    def restarted(self) -> None:
        """A new session: nothing of it was processed before."""
        self.reserved = 0
        self._processed = Ranges()
        self.plain = True
        self.repeats.restarted()

    def deliver(self, frame: Incoming, data: bytes) -> None:
        again = False
        if frame.event_seq is not None:
            again = frame.event_seq <= self.reserved
            if self._processed and self._was_processed(frame.event_seq):
                self._pass_over(frame, data)
                return
        if isinstance(frame, BadFrame):
            self._bad(frame)
        elif isinstance(frame, ControlFrame):
            if frame.type in dialect.TERMINALS:
                self.end(frame, data, again)
        elif not self.repeats.delivered(frame) and (
            not self._recovery.busy
            or self._recovery.wants(frame.job_id, of_result=type(frame.payload) is ChunkPayload)
        ):
            if self._began and frame.job_id in self._began and self._is_past(frame.job_id, frame):
                return
            self._rotated(frame, data)
            self._out.emit(to_event(frame, data, again))

    # -- jobs of whose past nothing is wanted

    def from_now_on(self, job_id: str) -> None:
        """A job is watched without its history."""
        self._began.setdefault(job_id, None)

    def skip_past(self, job_id: str) -> bool:
        """Whether a history tells what was missed: what is older than the watch is passed over.

        It does not if no event has come since the job is watched, or none with a time.
        """
        if self._began.get(job_id) is None:
            return False
        self._skipping.add(job_id)
        return True

    def _is_past(self, job_id: str, frame: EventFrame) -> bool:
        """Whether an event is older than the watch of its job, which wants only its result then."""
        moment = frame.payload.ts
        if moment is None:
            return False
        began = self._began[job_id]
        if began is None:
            self._began[job_id] = moment
            return False
        past = job_id in self._skipping and moment < began
        return past and type(frame.payload) is not ChunkPayload

    def _was_processed(self, seq: int) -> bool:
        """Whether the checkpoint says so: such events come again and are passed over (S1)."""
        self.plain = seq > self._processed.last
        return seq in self._processed

    def _pass_over(self, frame: Incoming, data: bytes) -> None:
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
            self._out.report(f"a {frame.type} names no job; it was dropped")
            return
        here = frame.session_id == self._terms.session_id
        if self._recovery.keep(job_id, (frame, data), here=here):
            return
        if not self._jobs.end(job_id):
            self.repeats.ended(job_id)
            return
        self._recovery.ended(job_id)
        self._forget(job_id)
        self.repeats.ended(job_id)
        self._out.emit(event)
        self._ended.append(job_id)

    def forget(self, job_id: str) -> None:
        """Nothing more comes of a job, or it is to be told anew."""
        self._forget(job_id)
        self.repeats.forget(job_id)

    def _forget(self, job_id: str) -> None:
        self._doubtful.pop(job_id, None)
        self._began.pop(job_id, None)
        self._skipping.discard(job_id)

    def _bad(self, frame: BadFrame) -> None:
        """Report what could not be read; where its number could, it counts as received (S3)."""
        if self.repeats.delivered(frame):
            return
        self._out.report(str(frame.error), frame.error)
        if frame.event_seq is not None:
            self.gap(frame.event_seq, frame.event_seq, "undecodable", job_id=frame.job_id)
            self.repeats.delivered(frame)  # its job is remembered only now

    def stray(self, frame: Incoming, cursor: int) -> None:
        """A frame with a number that cannot be believed was not taken (S17)."""
        number = frame.event_seq
        assert number is not None
        text = f"a frame is numbered {number}, and {cursor} was the last: it was not taken"
        self._out.report(text, RemoteProtocolError(text))
        if not isinstance(frame, ControlFrame) or frame.type:  # else it says no more than a number
            self.gap(number, number, "undecodable", job_id=frame.job_id, after=cursor)

    def _rotated(self, frame: EventFrame, data: bytes) -> None:
        """A new credential goes to its job before the event, in which it is masked (§9.8)."""
        if frame.job_id is None or not rotates(frame.payload):
            return
        rotated = rotated_credential(data)
        if rotated is not None:
            name, value = rotated
            self._out.emit(effects.Rotated(frame.job_id, name, SecretStr(value)))

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
        """Say that events will not be delivered.

        Args:
            first: the first number.
            last: the last one, if it is known.
            reason: why.
            job_id: of which job; of any by default.
            doubt: check the jobs that they may be of (S4).
            after: the cursor, where the numbers have no place in order.
        """
        self.gaps += 1
        self._out.emit(
            Gap(
                seq=first if after is None else None,
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
            if job_id in (None, job.job_id) and job.ours:
                self.repeats.remember(job.job_id)
                self._doubtful.setdefault(job.job_id, first if after is None else after + 1)

    def abandoned(self) -> None:
        """The session is gone: what its gaps put in doubt is looked after with all the others."""
        self._doubtful.clear()
        for job in self._jobs:
            self.repeats.remember(job.job_id)

    def take_ended(self) -> list[str]:
        """The jobs whose ends were delivered since this was called last."""
        ended, self._ended = self._ended, []
        return ended

    def take_doubtful(self) -> dict[str, int]:
        """The open jobs that are to be checked, each with the first number that it may miss."""
        doubtful, self._doubtful = self._doubtful, {}
        return doubtful


def rotates(payload: object) -> bool:
    """Whether an event brings a new credential (§9.8)."""
    if type(payload) is StatusPayload:
        return payload.body.phase == dialect.CREDENTIAL_ROTATED
    if type(payload) is LoosePayload and isinstance(payload.body, dict):
        return payload.body.get("phase") == dialect.CREDENTIAL_ROTATED
    return False
