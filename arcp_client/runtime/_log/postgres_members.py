"""The membership of a replica: its lease, and the end of replicas whose lease is past."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import Any

from arcp_client._postgres.database import Database
from arcp_client._wire import names
from arcp_client.errors import StorageError, StoreLocked
from arcp_client.runtime._log.directory import Bounds, ReplicaHost
from arcp_client.runtime._log.postgres_rows import (
    END_COLUMNS,
    TIMELINE,
    end_jobs,
    failed_payload,
)
from arcp_client.runtime._log.wakeups import LOOK

__all__ = ["Leases", "Membership"]

_log = logging.getLogger("arcp_client.runtime")


class Membership:
    """This replica's id and epoch, and the epochs of the sessions that it holds.

    Args:
        id: the replica's id.
    """

    def __init__(self, id: str) -> None:
        self.id = id
        self.epoch = 0
        self.until = 0.0
        self.held: dict[str, int] = {}
        self.host: ReplicaHost | None = None

    @property
    def joined(self) -> bool:
        """Whether this replica takes part, as far as it knows."""
        return self.epoch > 0

    def lose(self, session_id: str) -> None:
        """Drop a session that another replica holds."""
        self.held.pop(session_id, None)
        if self.host is not None:
            self.host.session_lost(session_id)

    def fence(self) -> None:
        """Drop everything, because the lease was past. Idempotent until the next `join`."""
        if self.epoch:
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
        self._host: ReplicaHost | None = None
        self._bounds = Bounds()
        self._announced = ""

    async def join(self, host: ReplicaHost) -> None:
        """Register this replica.

        Raises:
            StorageError: the database cannot be used.
            StoreLocked: another live replica has this one's id.
        """
        self._host = self._member.host = host
        self._bounds = host.bounds
        await self._enter()

    async def _enter(self) -> None:
        member, loop = self._member, asyncio.get_running_loop()
        assert self._host is not None
        begun, inventory = loop.time(), json.dumps(self._host.inventory())
        await self.reap(member.id)  # of an earlier process with this id
        async with self._db.connection() as connection:
            epoch = await connection.fetchval(
                "INSERT INTO replicas (id, epoch, until, agents, timeline)"
                " VALUES ($1, nextval('epochs'), clock_timestamp() + $2, $3, timeline())"
                " ON CONFLICT (id) DO NOTHING RETURNING epoch",
                member.id,
                self._lease,
                inventory,
            )
            await connection.execute(TIMELINE)
        if epoch is None:
            raise StoreLocked(f"another replica named {member.id} is alive")
        self._announced = inventory
        self._tell([LOOK])
        member.epoch = epoch
        member.until = begun + self._lease.total_seconds()

    async def renew(self) -> bool:
        """Renew the lease; False if it was past already."""
        assert self._host is not None
        begun = asyncio.get_running_loop().time()
        inventory = json.dumps(self._host.inventory())
        async with self._db.connection() as connection:
            renewed = await connection.fetchval(
                "UPDATE replicas AS r SET until = clock_timestamp() + $3, agents = $4,"
                " timeline = timeline() FROM replicas AS old WHERE old.id = r.id AND r.id = $1"
                " AND r.epoch = $2 AND r.until > clock_timestamp() AND (r.timeline = timeline()"
                " OR EXISTS (SELECT 1 FROM timelines AS t"
                " WHERE t.timeline = r.timeline AND t.safe))"
                " RETURNING old.timeline <> r.timeline",
                self._member.id,
                self._member.epoch,
                self._lease,
                inventory,
            )
            if renewed:  # a synchronous standby was promoted
                await connection.execute(TIMELINE)
                await connection.execute(
                    "UPDATE sessions SET timeline = timeline() WHERE holder = $1", self._member.id
                )
        if inventory != self._announced:
            self._announced = inventory
            self._tell([LOOK])
        if renewed is not None:
            self._member.until = begun + self._lease.total_seconds()
        return renewed is not None

    async def keep(self, rejoined: Callable[[], None]) -> None:
        """Renew the lease. If it is past, drop everything, and take part anew."""
        member, loop = self._member, asyncio.get_running_loop()
        pause = self._lease.total_seconds() / 4
        while True:
            await asyncio.sleep(pause if member.joined else min(pause, 0.5))
            try:
                if not member.joined:
                    await self._enter()
                    rejoined()
                else:
                    left = member.until - loop.time()
                    async with asyncio.timeout(max(left, 0.0)):
                        alive = await self.renew()
                    if not alive:
                        member.fence()
            except (StorageError, StoreLocked, TimeoutError) as error:
                if member.joined and loop.time() >= member.until:
                    member.fence()
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
        await end_jobs(connection, jobs, gone, names.ERROR)
        await connection.execute(
            "UPDATE sessions SET holder = NULL, epoch = nextval('epochs'),"
            " expires_at = clock_timestamp() + $2 WHERE holder = $1",
            replica,
            timedelta(seconds=self._bounds.resume_window),
        )
        await connection.execute("DELETE FROM replicas WHERE id = $1", replica)
        return [row["id"] for row in jobs]
