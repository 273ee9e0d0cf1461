"""Wakes the other replicas through PostgreSQL's NOTIFY. Wake-ups carry ids and no data.

NOTIFY takes a lock of the whole server until its transaction ends. So a wake-up is not a part of
the transaction that wrote: it has a transaction of its own, which writes no data, so that its
commit does not wait for the disk. A lost wake-up delays a replica by at most one second, because
each replica also polls.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from typing import Any

from arcp_client._postgres.database import Database
from arcp_client._tasks import TaskOwner
from arcp_client.errors import StorageError

__all__ = ["LOOK", "Wakeups"]

_log = logging.getLogger("arcp_client.runtime")

LOOK = "?"
"""In a wake-up: something other than a job's events has changed."""
_NOTIFY = "SELECT pg_notify($1, $2)"
_FIRST_GATHER = 0.005
_LAST_GATHER = 0.02
"""Seconds after a wake-up in which ids are gathered for the next one; more while there are any."""
_PAYLOAD = 7000
"""Bytes of one notification; PostgreSQL allows 7,999."""
_MOST = 10_000
"""Ids that wait to be sent; beyond them, the polls of the others find what has changed."""
_CHECK = 5.0
_FIRST_RETRY = 0.1
_LAST_RETRY = 2.0


class Wakeups:
    """Sends and receives wake-ups.

    Args:
        database: the connections.
        replica: this replica's id; its own wake-ups are ignored.
        tasks: owns the tasks.
        heard: called with the ids of a wake-up; with ``None`` after wake-ups may have been missed.
    """

    def __init__(
        self,
        database: Database,
        replica: str,
        tasks: TaskOwner,
        heard: Callable[[list[str] | None], None],
    ) -> None:
        self._db = database
        self._replica = replica
        self._channel = f"{database.schema}_changes"
        self._tasks = tasks
        self._on_heard = heard
        self._waiting: dict[str, None] = {}
        self._wanted = asyncio.Event()
        self._own = asyncio.Event()
        self._lost = asyncio.Event()

    async def begin(self) -> None:
        """Listen, and check that notifications arrive.

        Raises:
            StorageError: they do not.
        """
        connection = await self._listen()
        try:
            self._own.clear()
            async with self._db.connection() as other:
                await other.execute(_NOTIFY, self._channel, self._replica)
            async with asyncio.timeout(2.0):
                await self._own.wait()
        except BaseException as error:
            connection.terminate()
            if isinstance(error, TimeoutError):
                raise StorageError(
                    f"notifications of PostgreSQL at {self._db.place} do not arrive: connect"
                    " without a pooler in transaction mode, such as PgBouncer",
                    path=self._db.place,
                    permanent=True,
                ) from None
            raise
        self._tasks.spawn(self._watch(connection), name="listen")
        self._tasks.spawn(self._send(), name="notify")

    async def _listen(self) -> Any:
        connection = await self._db.connect()
        try:
            with self._db.errors():
                self._lost.clear()
                connection.add_termination_listener(lambda _: self._lost.set())
                await connection.add_listener(self._channel, self._heard)
        except BaseException:
            connection.terminate()
            raise
        return connection

    def _heard(self, _connection: Any, _pid: int, _channel: str, payload: str) -> None:
        replica, *ids = payload.split("\n")
        if replica != self._replica:
            self._on_heard(ids)
        else:
            self._own.set()

    async def _watch(self, connection: Any) -> None:
        """Listen anew whenever the connection is lost."""
        delay = _FIRST_RETRY
        try:
            while True:
                if connection is None:
                    await asyncio.sleep(delay)
                    delay = min(2 * delay, _LAST_RETRY)
                    try:
                        connection = await self._listen()
                    except StorageError as error:
                        _log.warning("replica %s cannot listen: %s", self._replica, error)
                        continue
                    delay = _FIRST_RETRY
                    self._on_heard(None)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_CHECK):
                        await self._lost.wait()
                if self._lost.is_set() or not await self._answers(connection):
                    connection.terminate()
                    connection = None
        finally:
            if connection is not None:
                connection.terminate()

    async def _answers(self, connection: Any) -> bool:
        try:
            with self._db.errors():
                await connection.execute("SELECT 1")
        except StorageError:
            return False
        return True

    def tell(self, ids: Iterable[str]) -> None:
        """Wake the other replicas for these ids, soon."""
        if len(self._waiting) < _MOST:
            self._waiting.update(dict.fromkeys(ids))
        if self._waiting:
            self._wanted.set()

    async def _send(self) -> None:
        gather = _FIRST_GATHER
        while True:
            if not self._wanted.is_set():
                gather = _FIRST_GATHER
                await self._wanted.wait()
            self._wanted.clear()
            ids, self._waiting = list(self._waiting), {}
            payloads, size = [self._replica], len(self._replica)
            for each in ids:
                if size + len(each) + 1 > _PAYLOAD:
                    payloads.append(self._replica)
                    size = len(self._replica)
                payloads[-1] += f"\n{each}"
                size += len(each) + 1
            try:
                async with self._db.connection() as connection:
                    for payload in payloads:
                        await connection.execute(_NOTIFY, self._channel, payload)
            except StorageError as error:  # the polls of the others find what has changed
                _log.debug("replica %s cannot notify: %s", self._replica, error)
            await asyncio.sleep(gather)
            gather = min(2 * gather, _LAST_GATHER)
