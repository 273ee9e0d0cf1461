"""A database that cannot be used is described in one sentence, without the password."""

from __future__ import annotations

import subprocess
import sys

import asyncpg
import pytest

from arcp_client._postgres.database import postgres_errors
from arcp_client.errors import StorageError
from arcp_client.runtime import Runtime
from arcp_client.runtime._log.postgres import PostgresEventLog
from arcp_client.stores import PostgresStore
from tests.postgres import PASSWORD, Cluster, free_port


async def refusal(dsn: str, **options: str) -> StorageError:
    runtime = Runtime(event_log=PostgresEventLog(dsn, lease=2.0, **options))  # type: ignore[arg-type]
    try:
        with pytest.raises(StorageError) as raised:
            await runtime.connect()
    finally:
        await runtime.close()
    assert PASSWORD not in str(raised.value)
    assert "\n" not in str(raised.value).split("\nhttps")[0].splitlines()[0]
    return raised.value


async def test_no_server_listens() -> None:
    error = await refusal(f"postgresql://user:{PASSWORD}@127.0.0.1:{free_port()}/db")
    assert "cannot be reached" in str(error)


async def test_a_wrong_password(cluster: Cluster) -> None:
    error = await refusal(cluster.dsn.replace(PASSWORD, "wrong"))
    assert "refuses the login" in str(error)
    assert "wrong@" not in str(error)


async def test_a_database_that_does_not_exist(cluster: Cluster) -> None:
    error = await refusal(cluster.dsn.replace("/postgres", "/missing"))
    assert "no such database" in str(error)


async def test_a_user_without_privileges(cluster: Cluster, schema: str) -> None:
    connection = await asyncpg.connect(cluster.dsn)
    await connection.execute(f"CREATE ROLE poor LOGIN PASSWORD '{PASSWORD}'")
    await connection.close()
    error = await refusal(cluster.dsn.replace("arcp:", "poor:"), schema=schema)
    assert "too little" in str(error)


async def test_a_schema_with_other_tables(cluster: Cluster, schema: str) -> None:
    connection = await asyncpg.connect(cluster.dsn)
    await connection.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.orders (id int)")
    await connection.close()
    assert "has other tables" in str(await refusal(cluster.dsn, schema=schema))


async def test_a_schema_of_a_newer_version_is_refused_by_its_version(
    cluster: Cluster, schema: str
) -> None:
    connection = await asyncpg.connect(cluster.dsn)
    await connection.execute(
        f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.version (version int);"
        f" INSERT INTO {schema}.version VALUES (99)"
    )
    await connection.close()
    error = await refusal(cluster.dsn, schema=schema)
    assert "version 99" in str(error)
    assert error.permanent


async def test_commits_that_a_loss_of_power_undoes_need_consent(
    cluster: Cluster, schema: str
) -> None:
    dsn = f"{cluster.dsn}?synchronous_commit=off"
    assert "synchronous_commit" in str(await refusal(dsn, schema=schema))
    runtime = Runtime(event_log=PostgresEventLog(dsn, schema=schema, relaxed=True))
    await runtime.connect()
    await runtime.close()
    store = PostgresStore(dsn, schema=schema)
    with pytest.raises(StorageError, match="relaxed=True"):
        await store.acquire("ws://host/arcp", "key")
    store = PostgresStore(dsn, schema=schema, relaxed=True)
    assert await store.acquire("ws://host/arcp", "key") is None
    await store.release("ws://host/arcp", "key")


@pytest.mark.parametrize("dsn", ["sqlite:///x", "", "localhost"])
def test_a_dsn_of_something_else(dsn: str) -> None:
    with pytest.raises(ValueError, match="postgresql://"):
        PostgresEventLog(dsn)


def test_the_package_is_imported_without_asyncpg() -> None:
    program = (
        "import sys; sys.modules['asyncpg'] = None\n"
        "import arcp_client, arcp_client.runtime, arcp_client.stores\n"
        "arcp_client.Runtime; arcp_client.SqliteStore\n"
        "try: arcp_client.runtime.PostgresEventLog\n"
        "except ImportError as error: print(error)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "arcp-client[postgres]" in done.stdout


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation"),
        asyncpg.ConnectionFailureError("lost"),
        asyncpg.AdminShutdownError("terminating connection due to administrator command"),
        asyncpg.CrashShutdownError("terminating connection because of a crash"),
        asyncpg.CannotConnectNowError("the database system is starting up"),
        ConnectionResetError("reset"),
        TimeoutError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_lost_connection_leaves_the_outcome_open(error: Exception) -> None:
    """An SQLSTATE says that the statement had no effect, so that it is not made again."""
    unreachable = pytest.raises(StorageError, match="PostgreSQL at here cannot be reached")
    with unreachable as raised, postgres_errors("here"):
        raise error
    assert (raised.value.sqlstate, raised.value.permanent) == ("", False)
