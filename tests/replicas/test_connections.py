"""Connections to PostgreSQL are lent again, to as many tasks as want one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import asyncpg
import pytest

from arcp_client._postgres.database import Database
from arcp_client.errors import StorageError
from tests.postgres import Cluster


@pytest.fixture
async def database(cluster: Cluster, schema: str) -> AsyncIterator[Database]:
    opened = Database(cluster.dsn, schema, timeout=20.0)
    await opened.open()
    yield opened
    await opened.close()


async def server_process(database: Database) -> int:
    """The process of the server behind the connection that is lent."""
    async with database.connection() as connection:
        found: int = await connection.fetchval("SELECT pg_backend_pid()")
        return found


async def test_statements_that_follow_each_other_use_one_connection(database: Database) -> None:
    assert len({await server_process(database) for _ in range(20)}) == 1


async def test_more_tasks_than_connections_all_get_one(database: Database) -> None:
    async def task(rounds: int) -> set[int]:
        return {await server_process(database) for _ in range(rounds)}

    for _ in range(5):  # also while connections are kept from before
        found = await asyncio.gather(*(task(n % 4 + 1) for n in range(40)))
        assert len(set().union(*found)) <= 8


async def test_a_task_waits_for_a_connection_that_others_use_without_a_pause(
    database: Database,
) -> None:
    """They must not pass the connection among themselves."""
    served = asyncio.Event()

    async def greedy() -> None:
        while not served.is_set():
            await server_process(database)

    async def one() -> None:
        await server_process(database)
        served.set()

    async with asyncio.timeout(60):
        await asyncio.gather(*(greedy() for _ in range(8)), one())


async def test_a_connection_that_the_server_ended_is_not_lent(
    database: Database, cluster: Cluster
) -> None:
    pid = await server_process(database)
    async with database.connection() as held:
        assert await held.fetchval("SELECT pg_backend_pid()") == pid
        ended = asyncio.Event()
        held.add_termination_listener(lambda _: ended.set())
    other = await asyncpg.connect(cluster.dsn)
    await other.execute("SELECT pg_terminate_backend($1)", pid)
    await other.close()
    await ended.wait()
    assert await server_process(database) != pid


async def test_a_connection_works_after_a_failed_statement_and_a_cancelled_one(
    database: Database,
) -> None:
    with pytest.raises(StorageError):
        async with database.transaction() as connection:
            await connection.execute("SELECT 1 / 0")
    begun = asyncio.Event()

    async def sleeper() -> None:
        async with database.transaction() as connection:
            begun.set()
            await connection.execute("SELECT pg_sleep(60)")

    task = asyncio.create_task(sleeper())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with database.connection() as connection:
        assert not connection.is_in_transaction()
        assert await connection.fetchval("SELECT 1") == 1
