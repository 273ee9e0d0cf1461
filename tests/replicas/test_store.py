"""`PostgresStore`: one client at a time holds a checkpoint, and a later one takes over."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable

import asyncpg
import pytest

from arcp_client import Client
from arcp_client.errors import ClientClosed, StoreLocked
from arcp_client.runtime import JobContext, Runtime
from arcp_client.stores import PostgresStore
from arcp_client.testing import STORE_CHECKS, StoreCase
from arcp_client.testing.store_checks import CHECKPOINT, KEY, TARGET, StoreCheck
from tests.postgres import Cluster

Make = Callable[..., PostgresStore]


@pytest.fixture
def make(cluster: Cluster, schema: str) -> Make:
    """Makes stores of one schema."""
    return lambda **options: PostgresStore(cluster.dsn, schema=schema, **options)


@pytest.mark.parametrize("check", STORE_CHECKS, ids=lambda check: check.__name__)
async def test_it_is_a_store(check: StoreCheck, cluster: Cluster, schema: str) -> None:
    numbers = itertools.count()
    await check(
        StoreCase(
            lambda: PostgresStore(cluster.dsn, schema=f"{schema}_{next(numbers)}"),
            lambda store: store,
        )
    )


async def lapse(cluster: Cluster, schema: str) -> None:
    """Let the leases of all clients be past."""
    connection = await asyncpg.connect(cluster.dsn)
    await connection.execute(f"UPDATE {schema}.checkpoints SET until = '-infinity'")
    await connection.close()


async def test_a_client_that_was_taken_over_changes_nothing(
    make: Make, cluster: Cluster, schema: str
) -> None:
    first, second = make(), make()
    await first.acquire(TARGET, KEY)
    await first.save(TARGET, KEY, CHECKPOINT)
    with pytest.raises(StoreLocked):
        await second.acquire(TARGET, KEY)
    await lapse(cluster, schema)
    assert await second.acquire(TARGET, KEY) == CHECKPOINT
    with pytest.raises(StoreLocked):
        await first.save(TARGET, KEY, CHECKPOINT)
    await first.delete(TARGET, KEY)
    await first.release(TARGET, KEY)
    await second.release(TARGET, KEY)
    assert await second.acquire(TARGET, KEY) == CHECKPOINT
    await second.release(TARGET, KEY)


async def test_of_many_contenders_one_takes_over(make: Make, cluster: Cluster, schema: str) -> None:
    stores = [make() for _ in range(8)]
    await stores[0].acquire(TARGET, KEY)
    for _ in range(5):
        await lapse(cluster, schema)
        others = [store for store in stores if (TARGET, KEY) not in store._held]
        taken = await asyncio.gather(
            *(store.acquire(TARGET, KEY) for store in others), return_exceptions=True
        )
        assert [type(each) for each in taken].count(StoreLocked) == len(others) - 1
        for store in stores:
            try:
                await store.save(TARGET, KEY, CHECKPOINT)
            except StoreLocked:
                await store.release(TARGET, KEY)
    for store in stores:
        await store.release(TARGET, KEY)


async def test_a_client_whose_checkpoint_was_taken_over_is_closed(
    make: Make, cluster: Cluster, schema: str
) -> None:
    runtime = Runtime()
    go_on = asyncio.Event()

    @runtime.agent("works")
    async def works(input: object, job: JobContext) -> None:
        await go_on.wait()
        await job.log("now")

    client = Client(runtime, store=make(every=1, interval=0.01))
    async with runtime:
        await client.connect()
        job = await client.submit("works")
        await lapse(cluster, schema)
        second = make()
        assert await second.acquire(runtime.target, "default") is not None
        go_on.set()
        with pytest.raises((StoreLocked, ClientClosed)):
            while True:
                await client.submit("works")
        assert job.id
        await client.close()
        await second.release(runtime.target, "default")
