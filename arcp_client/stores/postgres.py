"""Checkpoints in PostgreSQL, with which a client can continue on another machine."""

from __future__ import annotations

import asyncio
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec

from arcp_client import _arguments as check
from arcp_client._postgres.database import Database, checked_dsn, checked_schema
from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client._wire.ids import new_id
from arcp_client.errors import StorageError, StoreLocked
from arcp_client.models import Checkpoint
from arcp_client.stores._transactions import Transactions

__all__ = ["PostgresStore"]

_log = logging.getLogger("arcp_client.stores")

_KEPT_FOR = timedelta(days=30)
_AT_ONCE = 10_000
"""Rows of handled events that are deleted at a time."""
_PRUNE_EVERY = 3600.0
"""Seconds between two searches for such rows."""
_decode = msgspec.json.Decoder(Checkpoint).decode


class PostgresStore:
    """A `CheckpointStore` in PostgreSQL (14 or newer); it needs the extra ``postgres``.

    A client holds its checkpoint by a lease, which is renewed while the client is connected to the
    database. When its process is gone, another one with the same target and key can take over after
    the lease. From then on, a save of the earlier client changes nothing, and closes that client
    with StoreLocked. The database contains resume tokens, never bearer tokens. Pieces of streamed
    results are kept in memory.

    Args:
        dsn: ``postgresql://user:password@host:port/database``; it may name several hosts.
        lease: seconds.
        schema: the schema; created on first use. It may be that of a `PostgresEventLog`.
        every: events between two checkpoints.
        interval: seconds between two checkpoints.
        relaxed: accept ``synchronous_commit = off``: a loss of power may then lose the last
            checkpoints, and with them which events were handled.
    """

    durable = True

    def __init__(
        self,
        dsn: str,
        *,
        lease: float = 10.0,
        schema: str = "arcp",
        every: int = 256,
        interval: float = 0.25,
        relaxed: bool = False,
    ) -> None:
        checked_dsn(dsn)
        checked_schema(schema)
        check.seconds("lease", lease, above=True)
        check.a_number("every", every, least=1)
        check.seconds("interval", interval, above=True)
        check.a_flag("relaxed", relaxed)
        self.every = every
        self.interval = interval
        self._lease = timedelta(seconds=lease)
        self._db = Database(dsn, schema, timeout=max(lease, 1.0), relaxed=relaxed)
        self._id = new_id()
        self._opening = asyncio.Lock()
        self._tasks = TaskOwner("postgres store", on_failure=_noted)  # `acquire` raises it
        self._held: dict[tuple[str, str], int] = {}
        self._undoing: set[asyncio.Task[None]] = set()
        self._renewing: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        return f"<PostgresStore {self._db.place} {self._db.schema}>"

    async def acquire(self, target: str, key: str) -> Checkpoint | None:
        """Lock a checkpoint and return it; ``None`` if there is none yet.

        Raises:
            StoreLocked: another client holds it; after its end, wait for its lease.
            StorageError: the database cannot be used. The checkpoint is then not locked.
        """
        while self._undoing:
            await asyncio.wait(tuple(self._undoing))
        # In a task of its own: a connection must not be interrupted while it is made.
        work = self._tasks.spawn(self._acquire(target, key), name="acquire")
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            undo = self._tasks.spawn(self._undo(work, target, key), name="undo")
            self._undoing.add(undo)
            undo.add_done_callback(self._undoing.discard)
            raise
        return work.result()

    async def _undo(self, work: asyncio.Task[Checkpoint | None], target: str, key: str) -> None:
        await asyncio.wait({work})
        if work.exception() is None:
            await self.release(target, key)

    async def _acquire(self, target: str, key: str) -> Checkpoint | None:
        if (target, key) in self._held:
            raise _locked(target, key)
        async with self._opening:
            await self._db.open()
        try:
            async with self._db.connection() as connection:
                row = await connection.fetchrow(
                    "INSERT INTO checkpoints AS c VALUES ($1, $2, $4, nextval('epochs'),"
                    " clock_timestamp() + $3, clock_timestamp(), NULL)"
                    " ON CONFLICT (target, key) DO UPDATE SET holder = excluded.holder,"
                    " epoch = excluded.epoch, until = excluded.until"
                    " WHERE c.holder IS NULL OR c.until < clock_timestamp()"
                    " RETURNING c.epoch, c.checkpoint",
                    target,
                    key,
                    self._lease,
                    self._id,
                )
            if row is None:
                raise _locked(target, key)
            kept = None if row["checkpoint"] is None else _decode(row["checkpoint"])
        except BaseException as error:
            if not self._held:
                await self._db.close()
            if isinstance(error, msgspec.MsgspecError):
                raise StorageError(
                    f"the checkpoint {key!r} in PostgreSQL at {self._db.place} is damaged",
                    path=self._db.place,
                    permanent=True,
                ) from error
            raise
        self._held[target, key] = row["epoch"]
        if self._renewing is None:
            self._renewing = self._tasks.spawn(self._renew(), name="lease")
        return kept

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint atomically.

        Raises:
            StoreLocked: another client has taken over the checkpoint.
            StorageError: the checkpoint could not be saved.
        """
        changed = await self._change(
            target, key, "checkpoint = $4", msgspec.json.encode(checkpoint)
        )
        if not changed:
            raise _locked(target, key)

    async def delete(self, target: str, key: str) -> None:
        """Delete the checkpoint. Idempotent; no effect if another client has taken over."""
        await self._change(target, key, "checkpoint = $4", None)

    async def _change(self, target: str, key: str, change: str, value: bytes | None) -> bool:
        epoch = self._held.get((target, key))
        if epoch is None:
            return False
        async with self._db.connection() as connection:
            found = await connection.fetchval(
                f"UPDATE checkpoints SET {change}, saved_at = clock_timestamp(),"
                " until = clock_timestamp() + $5"
                " WHERE target = $1 AND key = $2 AND epoch = $3 AND holder = $6 RETURNING true",
                target,
                key,
                epoch,
                value,
                self._lease,
                self._id,
            )
        return bool(found)

    async def release(self, target: str, key: str) -> None:
        """Unlock the checkpoint. The last release closes the connections. Idempotent."""
        epoch = self._held.pop((target, key), None)
        if epoch is None:
            return
        try:
            async with self._db.connection() as connection:
                await connection.execute(
                    "UPDATE checkpoints SET holder = NULL, until = NULL"
                    " WHERE target = $1 AND key = $2 AND epoch = $3 AND holder = $4",
                    target,
                    key,
                    epoch,
                    self._id,
                )
                await connection.execute(
                    "DELETE FROM checkpoints WHERE holder IS NULL"
                    " AND (checkpoint IS NULL OR saved_at < clock_timestamp() - $1::interval)",
                    _KEPT_FOR,
                )
        except StorageError as error:
            _log.warning("the checkpoint %r is not released, its lease will pass: %s", key, error)
        if not self._held and self._renewing is not None:
            renewing, self._renewing = self._renewing, None
            await cancel_and_wait([renewing])
            await self._db.close()

    def spool(self, target: str, key: str) -> Path | None:
        """Return ``None``: pieces of streamed results are kept in memory."""
        return None

    def transactions(self, target: str, key: str, pool: Any) -> Transactions:
        """Return the transactions of handlers that are registered with ``tx=pool`` (rule D22).

        Args:
            target: the address of the runtime.
            key: the client's key.
            pool: a pool of asyncpg for the store's database, which the caller opens and closes.

        Raises:
            TypeError: ``pool`` is something else.
        """
        return Transactions(
            self._db,
            pool,
            target,
            key,
            epoch=lambda: self._held.get((target, key)),
            holder=self._id,
        )

    async def _renew(self) -> None:
        prune_at = 0.0
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(self._lease.total_seconds() / 3)
            try:
                async with self._db.connection() as connection:
                    await connection.execute(
                        "UPDATE checkpoints SET until = clock_timestamp() + $1"
                        " WHERE epoch = ANY($2) AND holder = $3",
                        self._lease,
                        list(self._held.values()),
                        self._id,
                    )
                    if loop.time() >= prune_at and await _prune(connection) < _AT_ONCE:
                        prune_at = loop.time() + _PRUNE_EVERY
            except StorageError as error:  # a save tells whether another client has taken over
                _log.warning("the lease of a checkpoint cannot be renewed: %s", error)


async def _prune(connection: Any) -> int:
    """Delete records of handled events of jobs that have had no event for 30 days."""
    done: str = await connection.execute(
        "DELETE FROM handled WHERE ctid = ANY(ARRAY(SELECT h.ctid FROM handled AS h"
        " WHERE h.at < clock_timestamp() - $1::interval AND NOT EXISTS (SELECT 1"
        " FROM handled AS n WHERE n.cursor_id = h.cursor_id AND n.job_id = h.job_id"
        " AND n.at >= clock_timestamp() - $1::interval) LIMIT $2))",
        _KEPT_FOR,
        _AT_ONCE,
    )
    return int(done.rpartition(" ")[2])


def _noted(error: BaseException) -> None:
    _log.debug("a checkpoint was not acquired: %s", error)


def _locked(target: str, key: str) -> StoreLocked:
    return StoreLocked(f"another client holds the checkpoint {key!r} of {target}")
