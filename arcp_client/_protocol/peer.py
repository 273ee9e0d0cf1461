"""The seam between the protocol and the runtime at the other end of the link.

`Peer` is a runtime that does what the specification says. A runtime that does something else has a
subclass in ``_dialects``, which overrides what it must: it turns frames into those that a
conforming runtime would have sent, and requests into those that the runtime understands, and it
chooses the recovery plans. The session calls it; it knows the session by its `View` only.
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

__all__ = ["FrameReceiver", "Incoming", "Next", "Peer", "Received", "View", "skipped"]

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
    """What remains of a frame that is not delivered: its number counts, and its job is alive."""
    return Received(ControlFrame(type="", job_id=frame.job_id, event_seq=frame.event_seq), b"")


class FrameReceiver(Protocol):
    """The receiver of the session, as a peer sees it."""

    limit: int

    @property
    def cursor(self) -> int:
        """Every number up to it was received."""

    @property
    def missing(self) -> bool:
        """Whether frames wait behind a hole."""

    def take_all(self, received: Iterable[Received], now: float) -> None:
        """Take frames."""

    def look(self) -> None:
        """`Peer.transparent` has changed."""

    def remember(self, job_id: str) -> None:
        """Recognise the events of a job by their ids from now on, because a history may come."""

    def subscribed(self, job_id: str) -> None:
        """A subscription was confirmed."""

    def skip_past(self, job: JobState) -> bool:
        """Whether a history tells what was missed of a job that is watched from now on."""

    def events_lost(self, job_id: str) -> None:
        """Deliver a `Gap` for an unknown number of lost events of a job."""


class Next(enum.Enum):
    """What follows a refused resume (§6.3)."""

    AGAIN = "again"
    """The same resume on a new link: the runtime may not have noticed that the old one died."""
    STEP_BACK = "step back"
    """The resume from one event earlier, at once."""
    FRESH = "fresh"
    """A new session: this one is gone."""
    GIVE_UP = "give up"
    """No hello will do, unless the token changes."""


class View(msgspec.Struct):
    """What a peer may see of its session.

    Attributes:
        negotiated: the agreed terms.
        out: takes actions.
        jobs: the jobs of the session.
        pending: the requests that wait for an answer.
        barriers: tell when the runtime has read up to a point.
        cancel_read: told of a cancel that the runtime has read and not refused.
        receiver: takes frames and says how far they came.
    """

    negotiated: Negotiated
    out: ActionQueue
    jobs: Jobs
    pending: PendingRequests
    barriers: Barriers
    cancel_read: Callable[[Request, float], None]
    receiver: FrameReceiver = None  # type: ignore[assignment]  # set before any verb is called

    @property
    def blind(self) -> bool:
        """Whether a job's end may be here already: behind a hole, or not yet read."""
        return self.receiver.missing or self.out.heartbeat.paused


class Peer:
    """A runtime that keeps to the specification.

    One instance serves one client for as long as the runtime at the other end is of this kind.

    Args:
        view: the session.

    Attributes:
        name: what ``SessionInfo.dialect`` says.
        transparent: `incoming` is not called: frames are taken as they come.
        holding: frames wait here, for `release` or `tick`.
        hole_patience: seconds in which a hole in the numbers may fill itself.
        max_frame: bytes of the longest frame that the runtime takes over a WebSocket.
        max_line: bytes of the longest line that the runtime takes over stdio, without its end.
        may_lose_events: events that a job emits while the link is down may be gone.
        accepts_acks: acknowledging is of use, and destroys nothing that others may ask for (§6.5).
        repeats_trace: a repeated acceptance has the trace id of the submit that started the job
            (§7.2), not that of the one that it answers.
        recognises_by_id: events may come again under numbers that do not show it.
        doubts_acceptances: an acceptance under a key of the caller may be of an old job, of which
            nothing comes.
        may_fall_silent: after a lost link nothing may come of a job that it calls running.
        exact_sizes: ``result_size`` is the length of a streamed result in bytes (§8.4); else it may
            count characters, or be an estimate.
        session_ends_jobs: a session that is closed, or whose link is lost, takes its jobs with it.
        poll_if_silent: a job that was led back is looked after while nothing comes of it.
        repeated: how many frames came again and were dropped here.
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
    recognises_by_id: ClassVar[bool] = False

    def __init__(self, view: View) -> None:
        self.view = view
        self.holding = False
        self.repeated = 0

    # -- the session and its links

    def opened(self, now: float, *, resumed: bool) -> None:
        """A welcome came: a session began, or was resumed."""

    def link_lost(self) -> None:
        """The link is gone."""

    def job_ended(self, job: JobState) -> None:
        """A job has ended, or nothing more is wanted of it."""

    def job_forgotten(self, job: JobState) -> None:
        """No history may bring events of a job again."""

    @property
    def deadline(self) -> float | None:
        """When `tick` must be called next."""
        return None

    def tick(self, now: float) -> Iterable[Received]:
        """Time has passed. Gives the frames that need not wait any longer."""
        return ()

    # -- frames from the runtime

    def incoming(self, frame: Incoming, data: bytes, now: float) -> Iterable[Received]:
        """The frames that a conforming runtime would have sent in place of this one."""
        return (Received(frame, data),)

    def release(self) -> Iterable[Received]:
        """Every frame that is kept here, since there is nothing more to wait for."""
        return ()

    def identities(self, frame: EventFrame | BadFrame) -> list[str]:
        """The marks by which an event is recognised when a history brings it again."""
        return [frame.id] if frame.id else []

    def reassembly(self, cursor: int, limit: int) -> Reassembly[Received]:
        """The order of this runtime's frames."""
        return Reassembly(cursor=cursor, limit=limit)

    # -- requests to the runtime

    def sendable(self) -> list[Request]:
        """The waiting requests that may be sent now."""
        return self.view.pending.waiting()

    def outgoing(self, request: Request, now: float) -> Iterator[Message | Request]:
        """The messages to send for a request: itself, and what must go before or behind it."""
        yield request

    def settled(self, request: Request, *, confirmed: bool, late: bool = False) -> None:
        """A request has ended: it was answered, or else refused; or, ``late``, is out of time."""

    def refuses_submit(self, code: object) -> bool:
        """Whether a job.error of this code, of an unknown job, answers a submit."""
        return code in SUBMIT_REFUSALS

    def ends_by_number(self, frame: ControlFrame) -> bool:
        """Whether the number of a job.error shows that it ends its job."""
        return frame.event_seq is not None and "final_status" in frame.payload

    def ackable(self, mark: int) -> int:
        """The highest number that may be acknowledged, if all up to ``mark`` are processed."""
        return mark

    def reorder_block_end(self, number: int) -> int:
        """The last number of the block of events that were put into order around this one."""
        return number

    def goodbye(self) -> Message | None:
        """The message that ends the session; ``None`` where any message would end its jobs."""
        return Close()

    @property
    def confirms_goodbye(self) -> bool:
        """Whether the runtime answers `goodbye`."""
        return True

    # -- refused resumes

    def resume_refused(self) -> Next:
        """What follows a resume that was refused as expired (§6.3)."""
        return Next.FRESH

    # -- recovery: a plan for each job whose events or outcome may be missed; None: nothing to do

    def means(self, job: JobState) -> Means:
        """What this runtime can be asked about a job."""
        return Means(
            subscribe=self.view.negotiated.offers(names.SUBSCRIPTIONS),
            list=self.view.negotiated.offers(names.LISTING),
        )

    def after_resume(self, job: JobState) -> Recover | None:
        """After a resumed link: the replay brings everything (§6.3)."""
        return None

    def after_new_session(self, job: JobState) -> Recover | None:
        """In a new session: its history goes on from what was received in the old one (S5)."""
        return Recover(history=self.wants_history(job), after=self.history_start(job), watch=False)

    def after_gap(self, job: JobState, position: int | None) -> Recover:
        """After a gap: find out whether the job still runs (S4)."""
        return Recover(history=False, after=position, watch=self.poll_if_silent, list_first=True)

    def after_acceptance(
        self,
        job: JobState,
        *,
        elsewhere: bool,
        sent_before: bool,
        resent: bool,
        fresh: bool,
        now: float,
    ) -> Recover | None:
        """After an acceptance that may be of an older job, of which nothing comes by itself (S6).

        Args:
            job: the accepted job.
            elsewhere: it was accepted in another session.
            sent_before: it was accepted over an earlier link.
            resent: the submit was sent over an earlier link, too.
            fresh: the key was made for this submit, so it names no earlier job.
            now: the time.
        """
        if elsewhere or not fresh:
            return Recover(history=True, watch=False)
        return None

    def outcome_wanted(self, job: JobState) -> Recover:
        """Get the outcome of a job whose terminal message was delivered and forgotten."""
        return Recover(history=True, watch=False, only_outcome=True)

    def wants_history(self, job: JobState) -> bool:
        """Whether the past of a job is wanted; of a job watched from now on, what was missed."""
        return not job.from_now_on or self.view.receiver.skip_past(job)

    def history_start(self, job: JobState) -> int | None:
        """From which number on a history is asked for (S11)."""
        return job.resume_after
