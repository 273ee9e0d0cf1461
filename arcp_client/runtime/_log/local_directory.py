"""The directory of a runtime without further replicas, whose own tables are complete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import Any

from arcp_client._wire.messages import ListJobsMessage
from arcp_client.runtime._log.dialogue import SharedDialogue
from arcp_client.runtime._log.directory import (
    Change,
    KnownJob,
    KnownJobs,
    ReplicaHost,
    TakenSession,
)
from arcp_client.runtime._log.entries import (
    Appended,
    JobInput,
    KeyState,
    LoggedJobState,
    SessionState,
)
from arcp_client.runtime._log.inventories import Offer

__all__ = ["LocalDirectory"]

_NO_CHANGES: tuple[Change, ...] = ()


class LocalSessions:
    """The sessions of a runtime without further replicas. No method suspends."""

    async def open(self, state: SessionState) -> None:
        """Do nothing: the journal stores the session."""

    async def take(
        self, principal: str, session_id: str | None, token: bytes, last: int
    ) -> TakenSession | None:
        """Return ``None``: this runtime has all sessions."""
        return None


class LocalJobs:
    """The jobs of a runtime without further replicas. No method suspends."""

    async def find(self, job_id: str) -> KnownJob | None:
        """Return ``None``: this runtime has all jobs."""
        return None

    async def page(
        self,
        principal: str | None,
        request: ListJobsMessage,
        visible: Callable[[LoggedJobState], bool],
    ) -> KnownJobs | None:
        """Return ``None``: this runtime has all jobs."""
        return None

    async def history(self, job_id: str, after: int, limit: int) -> Sequence[Appended]:
        """Return nothing: this runtime has all events."""
        return ()

    def follow(self, job_id: str, index: int) -> None:
        """Do nothing: this runtime has all jobs."""

    async def index_after(self, job_id: str, seq: int) -> int | None:
        """Return ``None``: this runtime has all events."""
        return None


class LocalDirectory:
    """The directory of a runtime without further replicas: its own tables are complete.

    No method suspends.
    """

    withheld: frozenset[str] = frozenset()
    shared = False
    dialogue: SharedDialogue | None = None

    def __init__(self) -> None:
        self.sessions = LocalSessions()
        self.jobs = LocalJobs()

    async def join(self, host: ReplicaHost) -> None:
        """Do nothing."""

    @property
    def ready(self) -> bool:
        """True: there is nothing to wait for."""
        return True

    async def drain(self, *, timeout: float) -> bool:
        """Return False: there is no other replica."""
        return False

    async def leave(self, *, timeout: float) -> None:
        """Do nothing."""

    def inventory(self, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return this runtime's agents."""
        return own

    async def find_key(
        self, principal: str, key: str, parameters: bytes, session_id: str
    ) -> Mapping[str, Any] | None:
        """Return ``None``: this runtime has all keys."""
        return None

    async def accept(
        self, job: LoggedJobState, key: KeyState | None, unclaimed: JobInput | None = None
    ) -> Mapping[str, Any] | None:
        """Return ``None``: the journal stores the job and its key."""
        return None

    async def offer(self, reference: str) -> Offer | None:
        """Return ``None``: there is no other replica."""
        return None

    def vacant(self) -> None:
        """Do nothing: no job waits for a replica."""

    async def release(self, jobs: Sequence[tuple[LoggedJobState, JobInput]]) -> frozenset[str]:
        """Return nothing: there is no other replica."""
        return frozenset()

    async def authorize(self, job_id: str, session_id: str) -> None:
        """Do nothing: the journal stores the job."""

    async def cancel(self, job_id: str, reason: str) -> None:
        """Do nothing: this runtime runs all jobs."""

    async def changes(self) -> AsyncIterator[Change]:
        """Yield nothing."""
        for change in _NO_CHANGES:
            yield change
