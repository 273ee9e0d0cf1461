"""The membership of a replica: its lease, and the end of replicas whose lease is past."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from arcp_client._postgres.database import Database
from arcp_client._postgres.functions import FENCED
from arcp_client._wire import names
from arcp_client.errors import StorageError, StoreLocked
from arcp_client.runtime._log.directory import Bounds, ReplicaHost
from arcp_client.runtime._log.postgres_calls import free_calls, register
from arcp_client.runtime._log.postgres_rows import (
    END_COLUMNS,
    closing_events,
    end_jobs,
    failed_payload,
)
from arcp_client.runtime._log.wakeups import LOOK

__all__ = ["Leases", "Membership"]

T = TypeVar("T")

_log = logging.getLogger("arcp_client.runtime")

_LOOK_AGAIN = 0.1
_FIRST_RETRY = 0.05
_LAST_RETRY = 0.5


class Membership:
    """This replica's id and epoch, and the epochs of the sessions that it holds.

    Args:
        id: the replica's id.

    Attributes:
        host: the runtime, once it has joined.
        bounds: the limits that hold over all replicas.
        until: end of the lease, as a time of the event loop.
        renewed: the epoch, the timeline of the database, and the end of the lease by its clock.
        numbered: a session and its number that was stored last. Like `renewed`, it must still be
            there after a standby was promoted, and is kept for this after the lease.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = 0
        self.until = 0.0
        self.held: dict[str, int] = {}
        self.host: ReplicaHost | None = None
        self.bounds = Bounds()
        self.renewed: tuple[int, str, datetime | None] = (0, "", None)
        self.numbered: tuple[str, int] = ("", 0)

    @property
    def joined(self) -> bool:
        """Whether this replica takes part, as far as it knows."""
        return self.epoch > 0

    def lose(self, session_id: str) -> None:
        """Drop a session that another replica holds."""
        self.held.pop(session_id, None)
        if self.host is not None:
            self.host.session_lost(session_id)

    def fence(self, epoch: int) -> None:
        """Drop everything, because the lease of an epoch was past. Idempotent."""
        if self.epoch and self.epoch == epoch:
            self.epoch = 0
            self.held.clear()
            if self.host is not None:
                self.host.fenced()


class Leases:
    """Keeps the lease of this replica, and ends replicas whose lease is past.

    Args:
        database: the connections.
        member: this replica.
        lease: seconds.
        tell: wakes the other replicas for jobs.
    """

    def __init__(
        self,
        database: Database,
        member: Membership,
        lease: float,
        tell: Callable[[Iterable[str]], None],
    ) -> None:
        self._db = database
        self._member = member
        self._lease = timedelta(seconds=lease)
        self._tell = tell
        self._announced = ""
        self._entering = 0  # the epoch of an attempt to join

    async def join(self, host: ReplicaHost) -> None:
        """Register this replica.

        Raises:
            StorageError: the database cannot be used.
            StoreLocked: another live replica has this one's id.
        """
        self._member.host = host
        self._member.bounds = host.bounds
        await self._enter()

    async def _enter(self) -> None:
        member, loop = self._member, asyncio.get_running_loop()
        host = member.host
        assert host is not None
        begun, inventory = loop.time(), json.dumps(host.inventory())
        await self.reap(member.id)  # of an earlier process with this id
        async with self._db.connection() as connection:
            known = member.renewed[0] > 0
            if known:
                await connection.execute(
                    "SELECT testify($1, $2, $3, $4, $5, $6)",
                    member.id,
                    *member.renewed,
                    *member.numbered,
                )
            enter = "SELECT enter_timeline($1)"
            while not await connection.fetchval(enter, not known):  # noqa: ASYNC110 - of others
                await asyncio.sleep(_LOOK_AGAIN)
            if not self._entering:
                self._entering = await connection.fetchval("SELECT nextval('epochs')")
            row = await connection.fetchrow(
                "INSERT INTO replicas AS r (id, epoch, until, agents, timeline)"
                " VALUES ($1, $4, clock_timestamp() + $2, $3, timeline()) ON CONFLICT (id)"
                # This replica, in an attempt whose outcome was not known.
                " DO UPDATE SET until = excluded.until WHERE r.epoch = $4"
                " RETURNING epoch, timeline, until",
                member.id,
                self._lease,
                inventory,
                self._entering,
            )
            if row is not None and host.webhooks:
                await register(connection, member.id, host.webhooks)
        if row is None:
            raise StoreLocked(f"another replica named {member.id} is alive")
        self._entering = 0
        self._announced = inventory
        self._tell([LOOK])
        member.renewed, member.numbered = tuple(row), ("", 0)
        member.epoch = row["epoch"]
        member.until = begun + self._lease.total_seconds()

    async def renew(self) -> bool:
        """Renew the lease; False if it was past, or if a standby that was behind was promoted."""
        member, begun = self._member, asyncio.get_running_loop().time()
        assert member.host is not None
        epoch, inventory = member.epoch, json.dumps(member.host.inventory())
        async with self._db.connection() as connection:
            row = await connection.fetchrow(
                "SELECT * FROM renew($1, $2, $3, $4, $5, $6, $7, $8)",
                member.id,
                epoch,
                *member.renewed[1:],
                *member.numbered,
                self._lease,
                inventory,
            )
        if inventory != self._announced:
            self._announced = inventory
            self._tell([LOOK])
        if row is None or member.epoch != epoch:
            return False
        if row["on_timeline"] != member.renewed[1]:
            _log.warning("replica %s continues on a standby that was promoted", member.id)
        member.renewed = (epoch, row["on_timeline"], row["lease_until"])
        member.until = begun + self._lease.total_seconds()
        return True

    async def keep(self, rejoined: Callable[[], None]) -> None:
        """Renew the lease. If it is past, drop everything, and take part anew."""
        member, loop = self._member, asyncio.get_running_loop()
        pause = self._lease.total_seconds() / 4
        while True:
            await asyncio.sleep(pause if member.joined else min(pause, 0.5))
            epoch = member.epoch
            try:
                if not member.joined:
                    await self._enter()
                    rejoined()
                else:
                    left = member.until - loop.time()
                    async with asyncio.timeout(max(left, 0.0)):
                        alive = await self.renew()
                    if not alive:
                        member.fence(epoch)
            except (StorageError, StoreLocked, TimeoutError) as error:
                if loop.time() >= member.until:
                    member.fence(epoch)
                _log.warning("replica %s: the lease cannot be renewed: %s", member.id, error)

    async def leave(self, epoch: int, *, timeout: float) -> None:
        """Free this replica's sessions, given its last epoch."""
        member = self._member
        try:
            async with asyncio.timeout(timeout):
                await self._free(member.id, epoch)
        except (StorageError, TimeoutError) as error:
            _log.warning("replica %s: not freed, its lease will pass: %s", member.id, error)
        member.held.clear()

    async def _free(self, replica: str, epoch: int) -> None:
        async with self._db.transaction() as connection:
            found = await connection.fetchval(
                "SELECT true FROM replicas WHERE id = $1 AND epoch = $2 FOR UPDATE", replica, epoch
            )
            if found:
                await self._end(connection, replica)

    async def transaction(self, work: Callable[[Any], Awaitable[T]]) -> T:
        """Run a transaction that checks the lease, until its outcome is known.

        A connection that is lost in a commit leaves the outcome open, so ``work`` is repeated, and
        must allow for its own success. It ends at the latest with the lease.
        """
        member, delay = self._member, _FIRST_RETRY
        epoch = member.epoch
        while True:
            try:
                async with self._db.transaction() as connection:
                    return await work(connection)
            except StorageError as error:
                if error.sqlstate == FENCED:  # or a standby was promoted, and the lease continues
                    with contextlib.suppress(StorageError):  # an earlier attempt may have succeeded
                        if await self.renew():
                            continue
                        member.fence(epoch)
                elif error.sqlstate or error.permanent:
                    raise
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LAST_RETRY)
                if member.epoch != epoch or not epoch:
                    raise

    # ----------------------------------------------------------------------------- death

    async def reap(self, replica: str) -> bool:
        """End a replica whose lease is past; False if it is alive, or another one ends it."""
        async with self._db.transaction() as connection:
            found = await connection.fetchval(
                "SELECT true FROM replicas WHERE id = $1 AND until < clock_timestamp()"
                " FOR UPDATE SKIP LOCKED",
                replica,
            )
            if not found:
                return False
            ended = await self._end(connection, replica)
        _log.warning("replica %s is gone; %d jobs of it have ended", replica, len(ended))
        self._tell(ended)
        return True

    async def _end(self, connection: Any, replica: str) -> list[str]:
        """End the open jobs of a replica and free its sessions. Its row is locked."""
        jobs = await connection.fetch(
            f"SELECT {END_COLUMNS} FROM jobs WHERE runner = $1 AND ended_at IS NULL FOR UPDATE",
            replica,
        )
        gone = failed_payload(
            names.INTERNAL_ERROR, "the replica that ran the job is gone", retryable=True
        )
        closing = await closing_events(connection, replica, [row["id"] for row in jobs])
        await end_jobs(connection, jobs, gone, names.ERROR, before=closing)
        await connection.execute(
            "UPDATE sessions SET holder = NULL, epoch = nextval('epochs'),"
            " expires_at = clock_timestamp() + $2 WHERE holder = $1",
            replica,
            timedelta(seconds=self._member.bounds.resume_window),
        )
        await free_calls(connection, replica)
        await connection.execute("DELETE FROM replicas WHERE id = $1", replica)
        return [row["id"] for row in jobs]
