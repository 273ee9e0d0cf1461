"""Runs handlers in transactions that also record which events were handled.

The caller passes each event as a pair: the job's id, and a mark that identifies the event in its
job. A transaction has three steps: read which of its events were handled before, call the handler
for the others, and record these. The last step also checks that the client still holds its
checkpoint. This check locks the checkpoint's row. It comes last, because an earlier lock would
block the renewal of the client's hold on the checkpoint while a slow handler runs.

See rule D22 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from arcp_client._postgres.database import Database, asyncpg, postgres_errors
from arcp_client.errors import LocalProtocolError, StorageError, StoreLocked
from arcp_client.stores.base import TransactionsEnded

__all__ = ["Transactions"]

_log = logging.getLogger("arcp_client.stores")

_FIRST = 0.05
_LONGEST = 1.0
"""Seconds until a transaction is tried again: from the first failure on, and at most."""
_PASSING = ("08", "25006", "40", "53", "55P03", "57P")
"""SQLSTATEs, or how they begin, after which the same transaction may succeed: a lost connection, a
server that has become a standby, a serialization failure or a deadlock, too few resources, a lock
that was not available, a server that stops or starts."""
_RECALLED = 100_000
"""Marks in memory of events that were handled, so that a history is skipped quickly."""
_NO_SUCH_TABLE = ("42P01", "3F000")
_THE_POOL = "the pool given as tx"


class Transactions:
    """Transactions of a client's handlers on one pool of connections of the application.

    Args:
        database: the database of the store.
        pool: the pool.
        target: names the checkpoint, together with the key.
        key: see ``target``.
        epoch: returns the number under which the client holds its checkpoint; ``None`` if it does
            not.
        holder: identifies the store, so that no other database has the same checkpoint.
    """

    def __init__(
        self,
        database: Database,
        pool: Any,
        target: str,
        key: str,
        *,
        epoch: Callable[[], int | None],
        holder: str,
    ) -> None:
        if not isinstance(pool, asyncpg.Pool):
            raise TypeError(f"tx must be a pool of asyncpg, not {type(pool).__name__}")
        self._database = database
        self._pool = pool
        self._checkpoint = target, key
        self._epoch = epoch
        self._holder = holder
        self._checked = False
        self._cursors: dict[str, int] = {}
        self._recalled: dict[tuple[int, str], set[str]] = {}
        self._failing = False
        schema = database.schema
        self._held = (
            f"SELECT 1 FROM {schema}.checkpoints"
            " WHERE target = $1 AND key = $2 AND epoch = $3 AND holder = $4 FOR SHARE"
        )
        self._known = (
            "SELECT u.job_id, u.mark FROM unnest($2::text[], $3::text[]) AS u(job_id, mark)"
            f" JOIN {schema}.handled AS h"
            " ON h.cursor_id = $1 AND h.job_id = u.job_id AND h.mark = u.mark"
        )
        self._of_job = (
            f"SELECT mark FROM {schema}.handled WHERE cursor_id = $1 AND job_id = $2"
            f" LIMIT {_RECALLED}"
        )
        self._record = (
            f"WITH held AS ({self._held}) INSERT INTO {schema}.handled (cursor_id, job_id, mark)"
            " SELECT $5, u.job_id, u.mark FROM held, unnest($6::text[], $7::text[])"
            " AS u(job_id, mark) ON CONFLICT DO NOTHING RETURNING true"
        )

    async def check(self) -> None:
        """Check, once, that the pool leads to the database of the store, and may write there.

        Raises:
            StorageError: it does not, or the database cannot be used; the message says why.
            StoreLocked: another client holds the checkpoint.
        """
        if self._checked:
            return
        table = f"{self._database.schema}.handled"
        try:
            with postgres_errors(_THE_POOL):
                async with self._pool.acquire() as connection, connection.transaction():
                    found = await connection.fetchval(self._held, *self._holding())
                    writes = found and await connection.fetchval(
                        "SELECT has_table_privilege($1, 'SELECT')"
                        " AND has_table_privilege($1, 'INSERT')",
                        table,
                    )
        except StorageError as error:
            if error.sqlstate in _NO_SUCH_TABLE:
                raise self._elsewhere() from None
            raise
        if not found:
            async with self._database.connection() as connection:
                if not await connection.fetchval(self._held, *self._holding()):
                    raise self._locked()
            raise self._elsewhere()
        if not writes:
            raise StorageError(
                f"the user of {_THE_POOL} may not read and write the table {table}: grant SELECT"
                " and INSERT",
                path=self._database.place,
                permanent=True,
            )
        self._checked = True

    async def run(
        self,
        handler: str,
        events: Sequence[tuple[str, str]],
        call: Callable[[Any, list[int]], Awaitable[object]],
    ) -> None:
        """Call a handler in a transaction, for those of the events that it has not handled.

        A transaction that fails for a passing reason is made again until it succeeds. If the
        outcome of a commit is unknown, because the connection was lost, the next transaction finds
        out.

        Args:
            handler: the name of the handler, under which its events are recorded.
            events: the events, each as the id of its job and a mark that is unique in the job.
            call: calls the handler with a connection and the positions of the new events; not
                called if there is none.

        Raises:
            TransactionsEnded: the client cannot continue, because another one has taken over the
                checkpoint, or the pool cannot be used. Nothing was committed.
            Exception: what ``call`` raised, or a failed commit. Nothing was committed.
        """
        delay = _FIRST
        while True:
            try:
                await self._attempt(handler, events, call)
            except _Passing as passing:
                if not self._failing:
                    self._failing = True
                    _log.error(
                        "transactions of handlers fail (%s): they are tried again until they"
                        " succeed, and later events wait",
                        type(passing.__cause__).__name__,
                    )
                await asyncio.sleep(delay)
                delay = min(2 * delay, _LONGEST)
            else:
                if self._failing:
                    self._failing = False
                    _log.warning("transactions of handlers succeed again")
                return

    async def _attempt(
        self,
        handler: str,
        events: Sequence[tuple[str, str]],
        call: Callable[[Any, list[int]], Awaitable[object]],
    ) -> None:
        with _own_errors(self._database.place):
            await self.check()
            cursor = await self._cursor(handler)
        if all(mark in self._recalled.get((cursor, job_id), ()) for job_id, mark in events):
            return
        with _own_errors(_THE_POOL):
            connection = await self._acquired()
        try:
            async with connection.transaction(isolation="read_committed"):
                await self._handle(connection, cursor, events, call)
        except Exception as error:
            if _is_passing(error) or _is_closed(connection):
                raise _Passing from error
            raise
        finally:
            await self._pool.release(connection)

    async def _acquired(self) -> Any:
        try:
            return await self._pool.acquire()
        except asyncpg.InternalClientError as error:  # during a failover, no server may be writable
            raise _Passing from error
        except asyncpg.InterfaceError as error:
            text = f"{_THE_POOL} cannot be used: {error!s:.200}"
            raise StorageError(text, path=self._database.place, permanent=True) from error

    async def _handle(
        self,
        connection: Any,
        cursor: int,
        events: Sequence[tuple[str, str]],
        call: Callable[[Any, list[int]], Awaitable[object]],
    ) -> None:
        new: dict[tuple[str, str], int] = {}
        for position, event in enumerate(events):
            new.setdefault(event, position)
        with _own_errors(_THE_POOL):
            known = await connection.fetch(self._known, cursor, *_columns([*new]))
            for row in known:
                event = row["job_id"], row["mark"]
                del new[event]
                await self._recall(connection, cursor, event[0])
        for job_id, _ in new:
            self._recalled.pop((cursor, job_id), None)
        if not new:
            return
        await call(connection, [*new.values()])
        if not connection.is_in_transaction():
            raise LocalProtocolError(
                "a handler with tx has ended its transaction: leave the commit to the client, and"
                " use connection.transaction() for savepoints"
            )
        with _own_errors(_THE_POOL):
            try:
                recorded = await connection.fetch(
                    self._record, *self._holding(), cursor, *_columns([*new])
                )
            except asyncpg.InFailedSQLTransactionError as error:
                raise LocalProtocolError(
                    "a handler with tx has caught an error of the database, after which its"
                    " transaction cannot be committed: use connection.transaction() for a savepoint"
                ) from error
        if len(recorded) != len(new):
            raise TransactionsEnded from self._locked()

    async def _recall(self, connection: Any, cursor: int, job_id: str) -> None:
        """Load which events of a job were handled: its history comes, and they are skipped."""
        if (cursor, job_id) not in self._recalled:
            rows = await connection.fetch(self._of_job, cursor, job_id)
            while self._recalled and len(rows) + sum(map(len, self._recalled.values())) > _RECALLED:
                del self._recalled[next(iter(self._recalled))]
            self._recalled[cursor, job_id] = {row["mark"] for row in rows}

    def _holding(self) -> tuple[str, str, int, str]:
        epoch = self._epoch()
        return *self._checkpoint, -1 if epoch is None else epoch, self._holder

    async def _cursor(self, handler: str) -> int:
        """The number under which the events of a handler are recorded."""
        cursor = self._cursors.get(handler)
        if cursor is None:
            async with self._database.connection() as connection:
                cursor = await connection.fetchval(
                    "INSERT INTO cursors AS c (target, key, handler) VALUES ($1, $2, $3)"
                    " ON CONFLICT (target, key, handler) DO UPDATE SET handler = c.handler"
                    " RETURNING id",
                    *self._checkpoint,
                    handler,
                )
            self._cursors[handler] = int(cursor)
        return self._cursors[handler]

    def _locked(self) -> StoreLocked:
        target, key = self._checkpoint
        return StoreLocked(f"another client holds the checkpoint {key!r} of {target}")

    def _elsewhere(self) -> StorageError:
        return StorageError(
            f"{_THE_POOL} does not lead to the database of the store, or not to its schema"
            f" {self._database.schema}: the effects of a handler and the record of what was handled"
            " must be in one database",
            path=self._database.place,
            permanent=True,
        )


class _Passing(Exception):
    """A transaction failed for a passing reason, which is the cause."""


@contextmanager
def _own_errors(place: str) -> Iterator[None]:
    """Sort the failures of statements that are not the handler's."""
    try:
        with postgres_errors(place):
            yield
    except StoreLocked as error:
        raise TransactionsEnded from error
    except StorageError as error:
        if error.permanent:
            raise TransactionsEnded from error
        raise _Passing from error


def _is_passing(error: Exception) -> bool:
    return isinstance(error, asyncpg.PostgresError) and f"{error.sqlstate}".startswith(_PASSING)


def _is_closed(connection: Any) -> bool:
    try:
        return bool(connection.is_closed())
    except asyncpg.InterfaceError:  # the pool has dropped it already
        return True


def _columns(events: Sequence[tuple[str, str]]) -> tuple[list[str], list[str]]:
    return [job_id for job_id, _ in events], [mark for _, mark in events]
