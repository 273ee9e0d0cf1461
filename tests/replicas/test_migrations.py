"""A schema that an older version of the package made is upgraded with what it contains."""

from __future__ import annotations

import asyncpg
import pytest

from arcp_client import Client
from arcp_client._postgres import migrations
from tests.postgres import Cluster
from tests.replicas.conftest import MakeReplica


@pytest.mark.parametrize("version", range(1, migrations.VERSION))
async def test_an_older_schema_is_upgraded(
    version: int,
    cluster: Cluster,
    schema: str,
    replica: MakeReplica,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connection = await asyncpg.connect(cluster.dsn)
    with monkeypatch.context() as older:
        older.setattr(migrations, "VERSION", version)
        older.setattr(migrations, "_MIGRATIONS", migrations._MIGRATIONS[:version])
        await migrations.migrate(connection, schema, "here")
    await connection.execute(
        f"INSERT INTO {schema}.keys VALUES ('p', 'k', '', '', 'job', clock_timestamp())"
    )
    async with Client(replica()) as client:
        assert (await (await client.submit("count", 3)).result()).value == 3
    assert await connection.fetchval(f"SELECT version FROM {schema}.version") == migrations.VERSION
    assert await connection.fetchval(f"SELECT count(*) FROM {schema}.keys WHERE key = 'k'") == 1
    await connection.close()
