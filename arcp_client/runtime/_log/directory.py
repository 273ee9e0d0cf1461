"""The `Directory` interface, through which a replica finds sessions and jobs of other replicas.

Each replica has tables of the sessions that it holds and of the jobs that it runs. A request that
these tables cannot answer goes to the directory, which has the sessions and jobs of all replicas. A
runtime that does not share its event log uses a `LocalDirectory` in the same way.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from arcp_client._wire.messages import ListJobsMessage
from arcp_client._wire.stamp import Record
from arcp_client.runtime._log.dialogue import (
    AnswersOffered,
    MessagesOffered,
    QuestionsMoved,
    SharedDialogue,
)
from arcp_client.runtime._log.entries import (
    Appended,
    JobInput,
    KeyState,
    LoggedJobState,
    SessionState,
    Watch,
    WebhookCall,
)
from arcp_client.runtime._log.inventories import Offer

__all__ = [
    "Bounds",
    "CallsLeft",
    "CancelRequested",
    "Change",
    "Directory",
    "JobDelegated",
    "JobMoved",
    "KnownJob",
    "KnownJobs",
    "ReplicaGone",
    "ReplicaHost",
    "Replicated",
    "Resync",
    "SessionTaken",
    "SharedJobs",
    "SharedSessions",
    "TakenSession",
]


@dataclass(frozen=True, slots=True)
class JobMoved:
    """A job may have new events, another status, or a cancellation."""

    job_id: str


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A job that this replica runs must end."""

    job_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class JobDelegated:
    """A job of another replica was delegated by one that a session of this replica submitted."""

    watch: Watch


@dataclass(frozen=True, slots=True)
class SessionTaken:
    """Another replica has taken over a session of this one."""

    session_id: str


@dataclass(frozen=True, slots=True)
class ReplicaGone:
    """A replica no longer takes part. With ``replica_id=None`` it is this one: its lease is past.

    This replica must then end its links and its jobs, without storing anything.
    """

    replica_id: str | None


@dataclass(frozen=True, slots=True)
class CallsLeft:
    """Calls of webhooks that another replica has left are made by this one."""

    calls: Sequence[WebhookCall]


@dataclass(frozen=True, slots=True)
class Resync:
    """Changes may have been missed: everything that this replica follows must be read again."""


Change = (
    JobMoved
    | CancelRequested
    | JobDelegated
    | SessionTaken
    | ReplicaGone
    | Resync
    | QuestionsMoved
    | AnswersOffered
    | MessagesOffered
    | CallsLeft
)


@dataclass(frozen=True, slots=True)
class TakenSession:
    """A session that this replica has taken over.

    Attributes:
        state: its present state.
        last: its highest number.
        events: the numbers and events that its client has not acknowledged, in order.
        watches: its subscriptions, and the position of the jobs that were submitted in it.
        open_jobs: ids of the jobs that were submitted in it and have not ended.
    """

    state: SessionState
    last: int
    events: Sequence[tuple[int, Record]] = ()
    watches: Sequence[Watch] = ()
    open_jobs: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KnownJob:
    """A job as the directory knows it.

    Attributes:
        state: its present state.
        last_seq: the number of its last event in the submitting session.
        end: the index of its next event.
        runner: the replica that runs it; ``None`` if it waits for one, or its replica is gone.
    """

    state: LoggedJobState
    last_seq: int = 0
    end: int = 0
    runner: str | None = None


@dataclass(frozen=True, slots=True)
class KnownJobs:
    """One page of a listing, in order of acceptance, and the cursor of the next page."""

    jobs: Sequence[KnownJob] = field(default_factory=tuple)
    next_cursor: str | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of a runtime that hold over all replicas; see `Limits`. Times are in seconds."""

    jobs: int = 4096
    sessions: int = 4096
    retention: float = 600.0
    key_window: float = 86_400.0
    resume_window: float = 600.0
    unclaimed: float = 60.0
    answer_window: float = 604_800.0
    answers: int = 10_000
    answer_bytes: int = 64 * 1024 * 1024


class ReplicaHost(Protocol):
    """The replica that joins a directory."""

    @property
    def bounds(self) -> Bounds:
        """The limits that hold over all replicas."""

    def inventory(self) -> list[dict[str, Any]]:
        """Return its agents."""

    @property
    def references(self) -> list[str]:
        """The full references of its agents."""

    @property
    def vacancies(self) -> int:
        """The number of further jobs that it would start now."""

    def claimed(self, state: LoggedJobState, given: JobInput) -> None:
        """Run a job that another replica accepted. Never raises."""

    async def flushed(self) -> None:
        """Wait until all changes that wait to be stored are stored, or were refused."""

    @property
    def webhooks(self) -> Mapping[str, Sequence[str]]:
        """What its webhooks are called for, by endpoint; those with room for more calls."""

    def session_lost(self, session_id: str) -> None:
        """Drop a session without storing anything, because another replica holds it."""

    def fenced(self) -> None:
        """Drop all sessions and jobs without storing anything, because the lease was past."""


class SharedSessions(Protocol):
    """The sessions of all replicas, each of which one replica holds.

    Each method may wait and raises as those of a `Directory` do.
    """

    async def open(self, state: SessionState) -> None:
        """Register a new session, which this replica holds.

        Raises:
            RequestError: the principal has too many sessions.
        """

    async def take(
        self, principal: str, session_id: str | None, token: bytes, last: int
    ) -> TakenSession | None:
        """Take over a session that a client wants to resume; ``None`` if this replica decides.

        The hash of the token, the principal and ``last`` are checked first; a refusal changes
        nothing.

        Raises:
            PermissionDenied: the token or the principal is not the session's.
            RequestError: RESUME_WINDOW_EXPIRED: the session, or an event above ``last``, is no
                longer held.
        """


class SharedJobs(Protocol):
    """The jobs of all replicas and their events, as other replicas see them.

    Each method may wait and raises as those of a `Directory` do.
    """

    async def find(self, job_id: str) -> KnownJob | None:
        """Return a job; ``None`` if there is none, or this replica has all jobs."""

    async def page(
        self,
        principal: str | None,
        request: ListJobsMessage,
        visible: Callable[[LoggedJobState], bool],
    ) -> KnownJobs | None:
        """List the jobs of a principal, or with ``None`` of all; ``None`` if this replica decides.

        Paging neither misses nor repeats a job that existed when the listing began.
        """

    async def history(self, job_id: str, after: int, limit: int) -> Sequence[Appended]:
        """Return events of a job from an index on, in order, of about ``limit`` bytes at most."""

    def follow(self, job_id: str, index: int) -> None:
        """Report, soon, that a job has moved, if it has events from an index on.

        A job whose `history` was read is followed from there. Never waits.
        """

    async def index_after(self, job_id: str, seq: int) -> int | None:
        """Return the index of the first event above a number of the submitting session.

        ``None`` if this replica decides.
        """


class Directory(Protocol):
    """Knows the sessions and jobs of all replicas of one runtime.

    Every method may wait for the other replicas' store, for a bounded time, and raises
    ``RequestError`` (INTERNAL_ERROR, retryable) if it cannot be reached.
    """

    withheld: frozenset[str]
    """Features that this runtime cannot offer, because their state stays in one process."""
    shared: bool
    """Whether there may be other replicas, which act on what the directory has stored."""

    @property
    def dialogue(self) -> SharedDialogue | None:
        """The questions and messages of all replicas; ``None`` if this replica has them all."""

    @property
    def sessions(self) -> SharedSessions:
        """The sessions of all replicas."""

    @property
    def jobs(self) -> SharedJobs:
        """The jobs of all replicas, to be read."""

    async def join(self, host: ReplicaHost) -> None:
        """Take part from now on.

        Raises:
            StorageError: the store of the directory cannot be used.
            StoreLocked: another live replica has this one's id.
        """

    @property
    def ready(self) -> bool:
        """Whether this replica may accept sessions and jobs."""

    async def drain(self, *, timeout: float) -> bool:
        """Announce that this replica ends soon; return whether its clients can go elsewhere.

        Tries for ``timeout`` seconds, and returns False if the store cannot be reached.
        """

    async def leave(self, *, timeout: float) -> None:
        """Free this replica's sessions for the others, and take part no longer. Idempotent."""

    def inventory(self, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the agents of all replicas, given this replica's."""

    async def find_key(
        self, principal: str, key: str, parameters: bytes, session_id: str
    ) -> Mapping[str, Any] | None:
        """Return the acceptance of an earlier submit with this key; the session may cancel its job.

        Raises:
            DuplicateKey: the key was used before with other parameters.
        """

    async def accept(
        self, job: LoggedJobState, key: KeyState | None, unclaimed: JobInput | None = None
    ) -> Mapping[str, Any] | None:
        """Register a new job together with its key.

        With ``unclaimed``, the job waits for a replica that has its agent and a free slot, for at
        most ``Bounds.unclaimed`` seconds.

        Returns the acceptance of an earlier submit with the key, if there is one: then the new job
        does not exist. Of several submits with one key, the others wait for the first.

        Raises:
            DuplicateKey: the key was used before with other parameters.
            RequestError: the principal has too many jobs.
        """

    async def offer(self, reference: str) -> Offer | None:
        """Return the agent that a reference names on another replica, if there is one."""

    def vacant(self) -> None:
        """Note that this replica has a free slot for a job. Never waits."""

    async def release(self, jobs: Sequence[tuple[LoggedJobState, JobInput]]) -> frozenset[str]:
        """Hand jobs that have not started to the other replicas; return the ids of those handed on.

        A job stays if no other replica has its agent.
        """

    async def authorize(self, job_id: str, session_id: str) -> None:
        """Let a session cancel a job, because it has repeated the job's submit."""

    async def cancel(self, job_id: str, reason: str) -> None:
        """Record that a job must end, for the replica that runs it."""

    def changes(self) -> AsyncIterator[Change]:
        """Yield what other replicas change, until `leave`. One consumer at a time."""


@runtime_checkable
class Replicated(Protocol):
    """An event log that several replicas of one runtime share."""

    def directory(self) -> Directory:
        """Return the directory of this log."""
