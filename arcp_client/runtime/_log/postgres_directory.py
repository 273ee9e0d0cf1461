"""The directory of a runtime whose replicas share PostgreSQL: accepts jobs, and finds changes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from arcp_client._postgres.database import Database
from arcp_client._postgres.functions import LOST, TOO_MANY
from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.ids import parse_time
from arcp_client.errors import StorageError, request_error
from arcp_client.runtime._log.directory import (
    CancelRequested,
    Change,
    JobDelegated,
    JobMoved,
    ReplicaGone,
    ReplicaHost,
    Resync,
    SessionTaken,
)
from arcp_client.runtime._log.entries import JobInput, KeyState, LoggedJobState, Watch
from arcp_client.runtime._log.inventories import Offer
from arcp_client.runtime._log.postgres_agents import OtherAgents
from arcp_client.runtime._log.postgres_dialogue import PostgresDialogue
from arcp_client.runtime._log.postgres_jobs import PostgresJobs
from arcp_client.runtime._log.postgres_members import Leases, Membership
from arcp_client.runtime._log.postgres_rows import (
    AUTHORIZE,
    away,
    encoded,
    refusals,
    same_submit,
)
from arcp_client.runtime._log.postgres_sessions import PostgresSessions
from arcp_client.runtime._log.postgres_unclaimed import UNCLAIMED, UnclaimedJobs
from arcp_client.runtime._log.wakeups import LOOK, Wakeups

__all__ = ["PostgresDirectory"]

_log = logging.getLogger("arcp_client.runtime")

_POLL = 1.0
_MOST_WAITING = 100_000
_SWEEP_EVERY = 10
_LEAVE = 2.0
_EXISTS = "23505"
"""SQLSTATE: a row with this id exists."""


class PostgresDirectory:
    """A `Directory` in PostgreSQL. Only the database's clock decides about leases and deadlines.

    Args:
        database: the connections.
        member: this replica.
        lease: seconds.
    """

    withheld = frozenset({names.CREDENTIALS})
    shared = True

    def __init__(self, database: Database, member: Membership, lease: float) -> None:
        self._db = database
        self._member = member
        self._tasks = TaskOwner(f"replica {member.id}")
        self._changes: asyncio.Queue[Change] = asyncio.Queue()
        self._look_now = asyncio.Event()
        self._delegated: set[tuple[str, str]] = set()
        self._polls = 0
        self._wakeups = Wakeups(database, member.id, self._tasks, self._heard)
        self._leases = Leases(database, member, lease, self._wakeups.tell)
        self._unclaimed = UnclaimedJobs(
            database, member, self._leases, self._tasks, self.moved, self._ended
        )
        self._agents = OtherAgents(database, member)
        self.sessions = PostgresSessions(member, self._leases, self._wakeups.tell)
        self.jobs = PostgresJobs(database)
        self.dialogue = PostgresDialogue(
            database, member, self._wakeups.tell, self._changes.put_nowait
        )

    # ------------------------------------------------------------------------ membership

    async def join(self, host: ReplicaHost) -> None:
        """Take part: register this replica, listen, and keep the lease.

        Raises:
            StorageError: the database cannot be used.
            StoreLocked: another live replica has this one's id.
        """
        await self._leases.join(host)
        try:
            await self.dialogue.begin(host.bounds)
            async with self._db.connection() as connection:
                await self._agents.refresh(connection)
            await self._wakeups.begin()
        except BaseException:  # a later attempt would find this replica alive
            await self.leave(timeout=_LEAVE)
            raise
        self._unclaimed.begin(host)
        resync = partial(self._changes.put_nowait, Resync())
        self._tasks.spawn(self._leases.keep(resync), name="lease")
        self._tasks.spawn(self._poll(), name="poll")
        self._tasks.spawn(self.dialogue.poll(), name="dialogue")

    async def renew(self) -> bool:
        """Renew the lease; False if it was past already."""
        return await self._leases.renew()

    @property
    def ready(self) -> bool:
        """Whether this replica has a lease, as far as it knows."""
        return self._member.joined

    async def drain(self, *, timeout: float) -> bool:
        """Announce that this replica ends soon; return whether another one is alive."""

        async def announce(connection: Any) -> int:
            await connection.execute(
                "UPDATE replicas SET draining = true WHERE id = $1", self._member.id
            )
            await self._agents.refresh(connection)
            others: int = await connection.fetchval(
                "SELECT count(*) FROM replicas WHERE NOT draining AND until > clock_timestamp()"
            )
            return others

        try:
            async with asyncio.timeout(timeout):
                others = await self._leases.transaction(announce)
        except (StorageError, TimeoutError) as error:
            _log.warning("replica %s cannot announce its end: %s", self._member.id, error)
            return False
        self._wakeups.tell([LOOK])
        return bool(others)

    async def leave(self, *, timeout: float) -> None:
        """Free this replica's sessions, and take part no longer. Idempotent."""
        epoch, self._member.epoch = self._member.epoch, 0
        await self._tasks.close()
        if epoch:
            await self._leases.leave(epoch, timeout=timeout)

    # --------------------------------------------------------------------------- changes

    async def changes(self) -> AsyncIterator[Change]:
        """Yield what other replicas change."""
        while True:
            yield await self._changes.get()

    def moved(self, jobs: Sequence[str] | set[str]) -> None:
        """Tell the other replicas that jobs have new events."""
        self._wakeups.tell(jobs)

    def _ended(self, jobs: Sequence[str]) -> None:
        """Tell this replica and the others that jobs have ended, which no replica has run."""
        self._heard(jobs)
        self._wakeups.tell(jobs)

    def questions_moved(self) -> None:
        """Report that questions have changed, here and to the other replicas."""
        self.dialogue.heard()
        self._wakeups.tell([PostgresDialogue.CHANGED])

    def _heard(self, job_ids: Sequence[str] | None) -> None:
        """Take the ids of a notification; ``None`` after a connection was lost."""
        if job_ids is None:
            self._changes.put_nowait(Resync())
        elif self._changes.qsize() < _MOST_WAITING:  # else the poll finds what has changed
            for job_id in job_ids:
                if job_id == LOOK:
                    self._look_now.set()
                elif job_id == UNCLAIMED:
                    self._unclaimed.look()
                elif job_id in (PostgresDialogue.OFFERED, PostgresDialogue.CHANGED):
                    self.dialogue.heard()
                else:
                    self._changes.put_nowait(JobMoved(job_id))

    def _spans(self) -> tuple[timedelta, timedelta]:
        bounds = self._member.bounds
        return timedelta(seconds=bounds.retention), timedelta(seconds=bounds.key_window)

    async def _poll(self) -> None:
        """Find, each second, what no notification has told."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL):
                    await self._look_now.wait()
            self._look_now.clear()
            self._polls += 1
            if not self._member.joined:
                continue
            try:
                await self._look()
            except StorageError as error:
                _log.warning("replica %s cannot poll: %s", self._member.id, error)

    async def _look(self) -> None:
        member = self._member
        held = dict(member.held)
        async with self._db.connection() as connection:
            replicas = await connection.fetch(
                "SELECT id, until < clock_timestamp() AS dead FROM replicas"
            )
            lost = await connection.fetch(
                "SELECT u.id FROM unnest($1::text[], $2::bigint[]) AS u(id, epoch) WHERE NOT EXISTS"
                " (SELECT 1 FROM sessions AS s WHERE s.id = u.id AND s.epoch = u.epoch)",
                list(held),
                list(held.values()),
            )
            cancelled = await connection.fetch(
                "SELECT id, cancel_reason FROM jobs WHERE runner = $1 AND ended_at IS NULL"
                " AND cancel_reason IS NOT NULL",
                member.id,
            )
            delegated = await connection.fetch(
                "SELECT session_id, job_id, next, first FROM watches"
                " WHERE session_id = ANY($1) AND delegated",
                list(held),
            )
            moved = await self.jobs.behind(connection)
            await self._agents.refresh(connection)
            if self._polls % _SWEEP_EVERY == 0:
                await connection.execute("SELECT sweep($1, $2)", *self._spans())
        for row in lost:
            if member.held.get(row["id"]) == held[row["id"]]:
                member.held.pop(row["id"])
                self._changes.put_nowait(SessionTaken(row["id"]))
        for row in cancelled:
            self._changes.put_nowait(CancelRequested(row["id"], row["cancel_reason"]))
        watches = {(row["session_id"], row["job_id"]): Watch(*row) for row in delegated}
        for name in watches.keys() - self._delegated:
            self._changes.put_nowait(JobDelegated(watches[name]))
        self._delegated = set(watches)
        for job_id in moved:
            self.jobs.unfollow(job_id)
            self._changes.put_nowait(JobMoved(job_id))
        for row in replicas:
            if row["dead"] and await self._leases.reap(row["id"]):
                self._changes.put_nowait(ReplicaGone(row["id"]))

    def inventory(self, own: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return the agents of all replicas, given this replica's."""
        return self._agents.merged(own)

    async def offer(self, reference: str) -> Offer | None:
        """Return the agent that a reference names on another replica that accepts jobs."""
        with refusals():
            return await self._agents.offer(reference)

    # ------------------------------------------------------------------------------ jobs

    async def find_key(
        self, principal: str, key: str, parameters: bytes, session_id: str
    ) -> Mapping[str, Any] | None:
        """Return the acceptance of an earlier submit with this key."""
        with refusals():
            async with self._db.connection() as connection:
                row = await connection.fetchrow(
                    "SELECT parameters, accepted, job_id FROM keys WHERE principal = $1"
                    " AND key = $2 AND at >= clock_timestamp() - $3::interval",
                    principal,
                    key,
                    timedelta(seconds=self._member.bounds.key_window),
                )
                if row is None:
                    return None
                await connection.execute(AUTHORIZE, row["job_id"], session_id)
        return same_submit(row, parameters)

    async def authorize(self, job_id: str, session_id: str) -> None:
        """Let a session cancel a job."""
        with refusals():
            async with self._db.connection() as connection:
                await connection.execute(AUTHORIZE, job_id, session_id)

    async def accept(
        self, job: LoggedJobState, key: KeyState | None, unclaimed: JobInput | None = None
    ) -> Mapping[str, Any] | None:
        """Register a new job together with its key; return that of an earlier submit."""
        member = self._member
        epoch = member.held.get(job.owner_id)

        async def register(connection: Any) -> Any:
            row = await connection.fetchrow(
                f"SELECT * FROM accept_job({', '.join(f'${n}' for n in range(1, 18))})",
                member.id,
                member.epoch,
                None if epoch is None else job.owner_id,
                epoch,
                job.id,
                job.principal,
                job.agent,
                job.owner_id,
                list(job.authorities),
                job.trace_id,
                parse_time(job.created) or datetime.now(UTC),
                encoded(job),
                job.accepted,
                None if key is None else key.key,
                None if key is None else key.parameters,
                timedelta(seconds=self._member.bounds.key_window),
                self._member.bounds.jobs,
            )
            if row is None and epoch is None:
                await connection.execute(
                    "UPDATE watches SET delegated = true WHERE session_id = $1 AND job_id = $2",
                    job.owner_id,
                    job.id,
                )
            if row is None and unclaimed is not None:
                await self._unclaimed.put(connection, job, unclaimed, self._member.bounds.unclaimed)
            return row

        try:
            row = await self._leases.transaction(register)
        except StorageError as error:
            if error.sqlstate == _EXISTS:  # by an attempt whose outcome was open
                return None
            if error.sqlstate == LOST:
                member.lose(job.owner_id)
                if job.parent_id is not None and key is None:
                    # An agent delegates: its session has moved, which does not concern it.
                    return await self.accept(job, key, unclaimed)
            if error.sqlstate == TOO_MANY:
                raise request_error(
                    names.INTERNAL_ERROR, "too many jobs of this principal are open", retryable=True
                ) from None
            raise away(error) from error
        if row is not None and row["job_id"] != job.id:
            return same_submit(row, b"" if key is None else key.parameters)
        if unclaimed is not None:
            self._wakeups.tell([UNCLAIMED])
        if epoch is None:
            self._wakeups.tell([LOOK])
        return None

    def vacant(self) -> None:
        """Look for a job that waits for a replica, because a slot is free."""
        self._unclaimed.vacant()

    async def release(self, jobs: Sequence[tuple[LoggedJobState, JobInput]]) -> frozenset[str]:
        """Hand jobs that have not started to the other replicas that have their agents."""
        wanted = [pair for pair in jobs if self._agents.has(pair[0].agent)]
        if not wanted:
            return frozenset()
        with refusals():
            return await self._unclaimed.release(wanted, self._member.bounds.unclaimed)

    async def cancel(self, job_id: str, reason: str) -> None:
        """Record that a job must end."""
        with refusals():
            ended = await self._unclaimed.cancel(job_id, reason)
        if ended:
            self._ended([job_id])
        else:
            self._wakeups.tell([LOOK])
