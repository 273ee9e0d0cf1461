"""Jobs that wait in PostgreSQL for a replica that has their agent: claimed, released, given up."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from arcp_client._log_fields import log_fields
from arcp_client._postgres.database import Database
from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.ids import parse_time
from arcp_client.errors import StorageError
from arcp_client.runtime._log.directory import ReplicaHost
from arcp_client.runtime._log.entries import JobInput, LoggedJobState
from arcp_client.runtime._log.postgres_members import Leases, Membership
from arcp_client.runtime._log.postgres_rows import (
    END_COLUMNS,
    decode_job,
    encoded,
    end_jobs,
    failed_payload,
)

__all__ = ["UNCLAIMED", "UnclaimedJobs"]

_log = logging.getLogger("arcp_client.runtime")

UNCLAIMED = "+"
"""In a wake-up: a job waits for a replica that has its agent."""
_POLL = 1.0
_AT_ONCE = 16
"""Jobs that one statement claims, so that the other replicas get a share."""

_CLAIM = (
    "WITH chosen AS (SELECT id FROM jobs WHERE runner IS NULL"
    " AND ended_at IS NULL AND cancel_reason IS NULL AND agent = ANY($2)"
    " AND waits_until > clock_timestamp()"
    " AND NOT (SELECT draining FROM replicas WHERE id = $1)"
    " ORDER BY tx, number LIMIT $3 FOR UPDATE SKIP LOCKED)"
    " UPDATE jobs AS j SET runner = $1, waits_until = NULL"
    " FROM chosen WHERE j.id = chosen.id RETURNING j.state, j.authorities, j.request"
)

decode_input = msgspec.msgpack.Decoder(JobInput).decode


class UnclaimedJobs:
    """The jobs that no replica runs yet.

    A claim is a job's ``runner``; what it needs to run stays in its row until the claimant has
    started it. So a claim that was stored, and whose answer was lost with the connection, is found
    by the claimant's next look.

    Args:
        database: the connections.
        member: this replica.
        leases: its lease, without which no job is handed on.
        tasks: owns the task that claims jobs.
        tell: wakes the other replicas.
        ended: called with the ids of jobs that have ended without having run.
    """

    def __init__(
        self,
        database: Database,
        member: Membership,
        leases: Leases,
        tasks: TaskOwner,
        tell: Callable[[Sequence[str]], None],
        ended: Callable[[Sequence[str]], None],
    ) -> None:
        self._db = database
        self._member = member
        self._leases = leases
        self._tasks = tasks
        self._tell = tell
        self._ended = ended
        self._look_now = asyncio.Event()
        self._more = False
        self._started: set[str] = set()  # claimed jobs whose inputs are still stored

    def begin(self, host: ReplicaHost) -> None:
        """Claim jobs from now on."""
        self._tasks.spawn(self._run(host), name="claim")

    def look(self) -> None:
        """Look for unclaimed jobs now."""
        self._look_now.set()

    def vacant(self) -> None:
        """Look for unclaimed jobs, if the last look left any for want of a slot."""
        if self._more:
            self._look_now.set()

    async def _run(self, host: ReplicaHost) -> None:
        """Look each second, and at each wake-up."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_POLL):
                    await self._look_now.wait()
            self._look_now.clear()
            if not self._member.joined:
                continue
            try:
                async with self._db.connection() as connection:
                    waiting = await connection.fetchval(
                        "SELECT EXISTS (SELECT 1 FROM jobs"
                        " WHERE runner IS NULL AND ended_at IS NULL) OR EXISTS (SELECT 1 FROM jobs"
                        " WHERE runner = $1 AND ended_at IS NULL AND request IS NOT NULL)",
                        self._member.id,
                    )
                self._more = False
                if waiting or self._started:
                    await self._give_up()
                    while await self.claim(host):
                        pass
            except StorageError as error:
                _log.warning("replica %s cannot claim jobs: %s", self._member.id, error)

    async def claim(self, host: ReplicaHost) -> bool:
        """Claim jobs that this replica can start; return whether there may be more of them.

        Raises:
            StorageError: the database cannot be used.
        """
        member = self._member
        epoch, room = member.epoch, min(host.vacancies, _AT_ONCE)
        if not member.joined:
            return False
        await self._forget_inputs()
        async with self._db.transaction() as connection:
            await connection.execute("SELECT fence($1, $2)", member.id, epoch)
            # Of an earlier claim, whose answer was lost.
            rows = await connection.fetch(
                "SELECT state, authorities, request FROM jobs WHERE runner = $1"
                " AND ended_at IS NULL AND request IS NOT NULL AND id <> ALL($2)",
                member.id,
                list(self._started),
            )
            if room > 0:
                rows += await connection.fetch(_CLAIM, member.id, host.references, room)
        if member.epoch != epoch:  # fenced meanwhile: the other replicas end these jobs
            return False
        for row in rows:
            state = msgspec.structs.replace(
                decode_job(row["state"]), authorities=tuple(row["authorities"])
            )
            _log.info(
                "job %s (%s) is claimed by replica %s",
                state.id,
                state.agent,
                member.id,
                extra=log_fields(job=state.id),
            )
            self._started.add(state.id)
            host.claimed(state, decode_input(row["request"]))
        await self._forget_inputs()
        if room <= 0:
            self._more = True
            return False
        return len(rows) >= room

    async def _forget_inputs(self) -> None:
        """Delete the stored inputs of jobs that this replica has started."""
        if not self._started:
            return
        mine = list(self._started), self._member.id
        async with self._db.connection() as connection:
            await connection.execute(  # it waits for no lock: the rest is for the next look
                "UPDATE jobs SET request = NULL WHERE id IN (SELECT id FROM jobs"
                " WHERE id = ANY($1) AND runner = $2 FOR UPDATE SKIP LOCKED)",
                *mine,
            )
            rows = await connection.fetch(
                "SELECT id FROM jobs WHERE id = ANY($1) AND runner = $2 AND request IS NOT NULL",
                *mine,
            )
        self._started.intersection_update(row["id"] for row in rows)

    async def put(self, connection: Any, job: LoggedJobState, given: JobInput, wait: float) -> None:
        """Let a job wait for a replica that has its agent, in the transaction of the caller.

        A job that another replica has claimed meanwhile stays with it.
        The job waits until its lease ends, but at most ``wait`` seconds.
        """
        await connection.execute(
            "UPDATE jobs SET runner = NULL, request = $2,"
            " waits_until = least(clock_timestamp() + $3, $4::timestamptz)"
            " WHERE id = $1 AND runner = $5 AND ended_at IS NULL",
            job.id,
            encoded(given),
            timedelta(seconds=wait),
            parse_time(job.expires_at),
            self._member.id,
        )

    async def release(
        self, jobs: Sequence[tuple[LoggedJobState, JobInput]], wait: float
    ) -> frozenset[str]:
        """Hand jobs that this replica has not started to the others; return their ids.

        Raises:
            StorageError: the database cannot be used.
        """
        member = self._member

        async def hand(connection: Any) -> None:
            await connection.execute("SELECT fence($1, $2)", member.id, member.epoch)
            for state, given in jobs:
                await self.put(connection, state, given, wait)

        # Until the outcome is known: this replica would run jobs that others may run already.
        await self._leases.transaction(hand)
        self._started.difference_update(state.id for state, _ in jobs)
        self._tell([UNCLAIMED])
        return frozenset(state.id for state, _ in jobs)

    async def _give_up(self) -> None:
        """End the jobs that have waited for too long, or were cancelled while they waited."""
        async with self._db.transaction() as connection:
            rows = await connection.fetch(
                f"SELECT {END_COLUMNS}, cancel_reason FROM jobs WHERE runner IS NULL"
                " AND ended_at IS NULL"
                " AND (cancel_reason IS NOT NULL OR waits_until < clock_timestamp())"
                " FOR UPDATE SKIP LOCKED"
            )
            for row in rows:
                await end_jobs(connection, [row], *_why(row))
        if rows:
            self._ended([row["id"] for row in rows])

    async def cancel(self, job_id: str, reason: str) -> bool:
        """Record that a job must end; return whether it has, because no replica runs it.

        Raises:
            StorageError: the database cannot be used.
        """
        async with self._db.transaction() as connection:
            row = await connection.fetchrow(
                f"SELECT {END_COLUMNS}, runner, coalesce(cancel_reason, $2) AS cancel_reason"
                " FROM jobs WHERE id = $1 AND ended_at IS NULL FOR UPDATE",
                job_id,
                reason,
            )
            if row is None:
                return False
            if row["runner"] is None:
                await end_jobs(connection, [row], *_why(row))
                return True
            await connection.execute(
                "UPDATE jobs SET cancel_reason = $2 WHERE id = $1", job_id, row["cancel_reason"]
            )
            return False


def _why(row: Any) -> tuple[bytes, str]:
    """Return the terminal event and the status of a job that no replica has run."""
    if row["cancel_reason"] is not None:
        return failed_payload(
            names.CODE_CANCELLED,
            row["cancel_reason"],
            status=names.STATUS_CANCELLED,
            retryable=False,
        ), names.STATUS_CANCELLED
    job = decode_job(row["state"])
    lease_end = parse_time(job.expires_at)
    if lease_end is not None and lease_end <= datetime.now(UTC):
        return failed_payload(
            names.LEASE_EXPIRED, "the lease expired before the job was started", retryable=False
        ), names.ERROR
    return failed_payload(
        names.INTERNAL_ERROR,
        f"no replica with the agent {job.agent} had room for the job in time",
        retryable=True,
    ), names.ERROR
