"""Adapts the session to the runtime at the other end of the link.

The class `Peer` is for runtimes that keep to the specification. ``_dialects`` has a subclass for
each other kind of runtime, which does three things: it replaces incoming frames with those that a
conforming runtime would have sent, replaces requests with those that the runtime understands, and
chooses the recovery plan of each job. `session` calls the peer. The peer sees only a `View` of the
session.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Final, NamedTuple, Protocol

import msgspec

from arcp_client._protocol.actions import ActionQueue
from arcp_client._protocol.barriers import Barriers
from arcp_client._protocol.jobs import Jobs, JobState
from arcp_client._protocol.negotiated import Negotiated
from arcp_client._protocol.pending import PendingRequests, Request
from arcp_client._protocol.plans import Means, Recover
from arcp_client._protocol.reassembly import Reassembly
from arcp_client._wire import names
from arcp_client._wire.codec import BadFrame, ControlFrame, EventFrame
from arcp_client._wire.messages import Close, Message

__all__ = [
    "AcceptanceContext",
    "FrameReceiver",
    "Incoming",
    "Next",
    "Peer",
    "Received",
    "View",
    "skipped",
]

Incoming = EventFrame | ControlFrame | BadFrame


SUBMIT_REFUSALS: Final = frozenset(
    {
        names.PERMISSION_DENIED,
        names.JOB_NOT_FOUND,
        names.DUPLICATE_KEY,
        names.INVALID_REQUEST,
        names.AGENT_NOT_AVAILABLE,
        names.AGENT_VERSION_NOT_AVAILABLE,
        names.LEASE_SUBSET_VIOLATION,
        names.UNAUTHENTICATED,
    }
)
"""Codes that, in a job.error of an unknown job, answer a submit."""


class Received(NamedTuple):
    """A frame and its bytes."""

    frame: Incoming
    data: bytes


def skipped(frame: Incoming) -> Received:
    """A frame without content: its number counts as received, and its job as alive."""
    return Received(ControlFrame(type="", job_id=frame.job_id, event_seq=frame.event_seq), b"")


class FrameReceiver(Protocol):
    """The session's receiver, as a peer sees it.

    Attributes:
        limit: how many frames may wait for a missing one.
    """

    limit: int

    @property
    def cursor(self) -> int:
        """The number up to which every event was received."""

    @property
    def missing(self) -> bool:
        """Whether frames wait behind a missing number."""

    def take_all(self, received: Iterable[Received], now: float) -> None:
        """Process frames."""

    def look(self) -> None:
        """Read `Peer.transparent` again, because it has changed."""

    def subscribed(self, job_id: str) -> None:
        """Note that the runtime confirmed a subscription."""

    def skip_past(self, job: JobState) -> bool:
        """Skip the events of the next history that are older than the subscription.

        False if their times cannot be compared.
        """

    def events_lost(self, job_id: str) -> None:
        """Deliver a `Gap` for an unknown number of lost events of a job."""


class Next(enum.Enum):
    """The next attempt after a refused resume (§6.3)."""

    AGAIN = "again"
    """The same resume on a new link: the runtime may not have noticed the end of the old one."""
    STEP_BACK = "step back"
    """The resume from one event earlier, at once."""
    FRESH = "fresh"
    """A new session: the runtime no longer has this one."""
    GIVE_UP = "give up"
    """None: every hello will be refused until the token changes."""


class AcceptanceContext(msgspec.Struct, frozen=True, kw_only=True):
    """How a job was accepted.

    Attributes:
        elsewhere: another session got the acceptance first.
        sent_before: the job was accepted before the welcome of the current link.
        resent: the submit was also sent over an earlier link.
        fresh: the key was made for this submit, so it names no earlier job.
    """

    elsewhere: bool
    sent_before: bool
    resent: bool
    fresh: bool


class View(msgspec.Struct):
    """The parts of the session that a peer may use.

    Attributes:
        negotiated: what the welcome agreed on.
        out: queues actions.
        jobs: the jobs of the session.
        pending: the requests that wait for an answer.
        barriers: report when the runtime has read everything up to a point.
        cancel_read: to be called when the runtime has read a cancel without refusing it.
        receiver: processes frames.
    """

    negotiated: Negotiated
    out: ActionQueue
    jobs: Jobs
    pending: PendingRequests
    barriers: Barriers
    cancel_read: Callable[[Request, float], None]
    receiver: FrameReceiver = None  # type: ignore[assignment]  # set before any method is called

    @property
    def blind(self) -> bool:
        """Whether a frame that is not yet processed may be the end of a job."""
        return self.receiver.missing or self.out.heartbeat.paused


class Peer:
    """A runtime that keeps to the specification.

    One instance serves one client for as long as the runtime at the other end is of this kind.

    Args:
        view: the session.

    Attributes:
        name: the value of ``SessionInfo.dialect``.
        transparent: the session processes frames directly, without calling `incoming`.
        holding: the peer has frames that it returns only at `release` or `tick`.
        hole_patience: seconds to wait for a missing number before the session resumes to request
            it.
        max_frame: bytes of the longest frame that the runtime accepts over a WebSocket.
        max_line: bytes of the longest line that the runtime accepts over stdio, without line end.
        may_lose_events: the runtime may drop events that a job emits while the link is down.
        accepts_acks: whether to send acknowledgements (§6.5). False if the runtime deletes
            acknowledged events that other clients may still request.
        repeats_trace: a repeated acceptance has the trace id of the submit that started the job
            (§7.2), not that of the submit that it answers.
        names_requests: answers to submits name their request, other than by its trace id.
        confirms_first: a history is never sent before the confirmation of its subscription.
        recognises_by_id: repeated events may have new numbers and must be recognised by their ids.
        doubts_acceptances: an acceptance may belong to an earlier job with the same key, whose
            events come only on request.
        may_fall_silent: after a lost link, the runtime may send no events of a job that it reports
            as running.
        exact_sizes: ``result_size`` is the length of a streamed result in bytes (§8.4). If False,
            it may count characters, or be an estimate.
        session_ends_jobs: the runtime ends jobs when their session is closed or its link is lost.
        poll_if_silent: the client polls a recovered job while no events of it arrive.
        repeated: the number of repeated frames that the peer dropped.
    """

    name: ClassVar[str] = "unknown"
    transparent: bool = True
    hole_patience: ClassVar[float] = 0.5
    max_frame: ClassVar[int | None] = None
    max_line: ClassVar[int | None] = None
    may_lose_events: ClassVar[bool] = False
    may_fall_silent: ClassVar[bool] = False
    exact_sizes: ClassVar[bool] = True
    session_ends_jobs: ClassVar[bool] = False
    poll_if_silent: ClassVar[bool] = False
    doubts_acceptances: ClassVar[bool] = False
    accepts_acks: ClassVar[bool] = True
    repeats_trace: ClassVar[bool] = True
    confirms_first: ClassVar[bool] = False
    recognises_by_id: ClassVar[bool] = False
    names_requests: ClassVar[bool] = False

    def __init__(self, view: View) -> None:
        self.view = view
        self.holding = False
        self.repeated = 0

    # -- the session and its links

    def opened(self, now: float, *, resumed: bool) -> None:
        """Called at each welcome: a session began, or was resumed."""

    def link_lost(self) -> None:
        """Called when the link was lost."""

    def job_ended(self, job: JobState) -> None:
        """Called when a job has ended, or its events are no longer wanted."""

    def job_forgotten(self, job: JobState) -> None:
        """Called when no history can bring events of a job again."""

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called next."""
        return None

    def tick(self, now: float) -> Iterable[Received]:
        """Called at `deadline`; returns the held frames that need not wait any longer."""
        return ()

    # -- frames from the runtime

    def incoming(self, frame: Incoming, data: bytes, now: float) -> Iterable[Received]:
        """Return the frames that a conforming runtime would have sent in place of this one."""
        return (Received(frame, data),)

    def release(self) -> Iterable[Received]:
        """Return all held frames, because there is nothing more to wait for."""
        return ()

    def identities(self, frame: EventFrame | BadFrame) -> list[str]:
        """The marks by which an event is recognised when a history repeats it; see `dedup`."""
        return [frame.id] if frame.id else []

    def reassembly(self, cursor: int, limit: int) -> Reassembly[Received]:
        """Make the object that puts this runtime's frames in order."""
        return Reassembly(cursor=cursor, limit=limit)

    # -- requests to the runtime

    def sendable(self) -> list[Request]:
        """The waiting requests that may be sent now."""
        return self.view.pending.waiting()

    def outgoing(self, request: Request, now: float) -> Iterator[Message | Request]:
        """The messages to send for a request, in order: the request and others that it needs."""
        yield request

    def settled(self, request: Request, *, confirmed: bool, late: bool = False) -> None:
        """Called when a request was confirmed or refused, or (``late``) has timed out."""

    def refuses_submit(self, code: object) -> bool:
        """Whether a ``job.error`` with this code, for an unknown job, refuses a submit."""
        return code in SUBMIT_REFUSALS

    def ends_by_number(self, frame: ControlFrame) -> bool:
        """Whether the number of a ``job.error`` shows that it ends its job."""
        return frame.event_seq is not None and "final_status" in frame.payload

    def ackable(self, mark: int) -> int:
        """The highest number that may be acknowledged when all up to ``mark`` are processed."""
        return mark

    def reorder_block_end(self, number: int) -> int:
        """The last number of the block of reordered events that contains this number."""
        return number

    def goodbye(self) -> Message | None:
        """The message that ends the session; ``None`` if any such message would end its jobs."""
        return Close()

    @property
    def confirms_goodbye(self) -> bool:
        """Whether the runtime answers `goodbye`: only ``session.close`` has an answer (§6.7)."""
        return isinstance(self.goodbye(), Close)

    # -- refused resumes

    def resume_refused(self) -> Next:
        """The next attempt after a resume was refused as expired (§6.3)."""
        return Next.FRESH

    # -- recovery: plans for jobs whose events or outcome may be missing; None: none is needed

    def means(self, job: JobState) -> Means:
        """The requests by which this runtime can tell the state of a job."""
        return Means(
            subscribe=self.view.negotiated.offers(names.SUBSCRIPTIONS),
            list=self.view.negotiated.offers(names.LISTING),
        )

    def after_resume(self, job: JobState) -> Recover | None:
        """The needs of a job after a resume: none, because the replay brings everything (§6.3)."""
        return None

    def after_new_session(self, job: JobState) -> Recover | None:
        """The needs of a job in a new session: history after the last received event (rule S5)."""
        return Recover(
            history=self.wants_history(job), after=self.history_start(job), poll_if_silent=False
        )

    def after_gap(self, job: JobState, position: int | None) -> Recover:
        """The needs of a job after a gap: whether it still runs must be found out (rule S4)."""
        return Recover(
            history=False, after=position, poll_if_silent=self.poll_if_silent, list_first=True
        )

    def after_acceptance(
        self, job: JobState, acceptance: AcceptanceContext, now: float
    ) -> Recover | None:
        """The needs of an accepted job: a subscription, if its events need one (rule S6).

        Args:
            job: the accepted job.
            acceptance: how it was accepted.
            now: the time.
        """
        if acceptance.elsewhere or not acceptance.fresh:
            return Recover(history=True, poll_if_silent=False)
        return None

    def outcome_wanted(self, job: JobState) -> Recover:
        """The needs of a job whose terminal message is wanted again."""
        return Recover(history=True, poll_if_silent=False, only_outcome=True)

    def wants_history(self, job: JobState) -> bool:
        """Whether the plan asks for past events of a job."""
        return not job.from_now_on or self.view.receiver.skip_past(job)

    def history_start(self, job: JobState) -> int | None:
        """The number after which a history starts; ``None`` for the whole history (rule S11)."""
        return job.resume_after
