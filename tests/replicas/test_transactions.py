"""D22: what a handler with ``tx`` writes is committed together with the record of its event."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import asyncpg
import pytest

import arcp_client.sync
from arcp_client import Batch, Client, MemoryStore, Order, SqliteStore, events
from arcp_client._client.transactions import _identity
from arcp_client.errors import (
    HandlerError,
    HandlerFailed,
    LocalProtocolError,
    StorageError,
    StoreLocked,
)
from arcp_client.runtime import JobContext, Runtime
from arcp_client.stores import PostgresStore
from tests.postgres import Cluster

Make = Callable[..., Client]
STEPS = 20


@pytest.fixture
async def pool(cluster: Cluster, schema: str) -> AsyncIterator[asyncpg.Pool]:
    """The pool of the application, with a table of effects."""
    made = await asyncpg.create_pool(cluster.dsn, min_size=0, max_size=4)
    await made.execute(f"CREATE TABLE effects_of_{schema} (n integer, job text)")
    yield made
    made.terminate()


@pytest.fixture
def insert(schema: str) -> str:
    return f"INSERT INTO effects_of_{schema} VALUES ($1, $2)"


async def effects(pool: Any, schema: str) -> list[int]:
    rows = await pool.fetch(f"SELECT n FROM effects_of_{schema} ORDER BY n")
    return [row["n"] for row in rows]


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(name="effects") as made:

        @made.agent("count")
        async def count(input: int, job: JobContext) -> int:
            for n in range(input):
                await job.progress(n)
            return input

        yield made


@pytest.fixture
async def make(cluster: Cluster, schema: str, runtime: Runtime) -> AsyncIterator[Make]:
    """Makes clients with a PostgresStore."""
    made: list[Client] = []

    def build(target: Any = runtime, lease: float = 10.0, **options: Any) -> Client:
        store = PostgresStore(cluster.dsn, schema=schema, lease=lease)
        made.append(Client(target, store=store, **options))
        return made[-1]

    yield build
    for client in made:
        await client.close()


async def run(client: Client, count: int = STEPS, key: str | None = None) -> None:
    job = await client.submit("count", count, idempotency_key=key)
    await job.result()


# ------------------------------------------------------------------ effects


async def test_each_event_takes_effect_once(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make()

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        assert connection.is_in_transaction()
        await connection.execute(insert, int(event.current), event.job_id)

    async with client:
        await run(client)
    assert await effects(pool, schema) == list(range(STEPS))


async def test_a_handler_of_batches_gets_one_transaction_for_its_list(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make()
    sizes = []

    @client.on(events.Progress, tx=pool, batch=Batch(count=7))
    async def record(batch: list[events.Progress], connection: Any) -> None:
        sizes.append(len(batch))
        await connection.executemany(insert, [(int(e.current), e.job_id) for e in batch])

    async with client:
        await run(client)
    assert await effects(pool, schema) == list(range(STEPS))
    assert max(sizes) > 1


async def test_jobs_side_by_side_each_have_their_transactions(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make(order=Order.JOB)

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)

    async with client:
        await asyncio.gather(*(run(client) for _ in range(6)))
    assert await effects(pool, schema) == sorted([*range(STEPS)] * 6)


async def test_an_event_that_comes_again_is_not_handled_again_in_a_later_session(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    """After a close there is no checkpoint; the history of the job has the same events."""
    for life in range(3):
        client = make()
        called = 0

        @client.on(events.Event, tx=pool)
        async def record(event: events.Event, connection: Any) -> None:
            nonlocal called
            called += 1
            if isinstance(event, events.Progress):
                await connection.execute(insert, int(event.current), event.job_id)

        async with client:
            job = await client.submit("count", STEPS, idempotency_key="the one")
            await job.result()
            view = await client.watch(job.id, history=True)
            await view.result()
            await client.drain()
        assert called == (STEPS + 1 if life == 0 else 0)
    assert await effects(pool, schema) == list(range(STEPS))


async def test_of_a_batch_only_the_events_that_are_new_are_handled(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    first = make()
    release = asyncio.Event()

    @first.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        if event.current == STEPS // 2:
            await release.wait()  # until it is cancelled
        await connection.execute(insert, int(event.current), event.job_id)

    await first.connect()
    await first.submit("count", STEPS, idempotency_key="the one")
    while len(await effects(pool, schema)) < STEPS // 2:
        await asyncio.sleep(0)
    await first.detach(timeout=0)

    second = make()

    async def of_batches(batch: list[events.Progress], connection: Any) -> None:
        await connection.executemany(insert, [(int(e.current), e.job_id) for e in batch])

    of_batches.__qualname__ = record.__qualname__  # the same handler, in a later version
    second.subscribe(of_batches, events.Progress, tx=pool, batch=True)
    async with second:
        await second.open_jobs()[0].result()
    assert await effects(pool, schema) == list(range(STEPS))


async def test_handlers_are_independent_of_each_other(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make()

    @client.on(events.Progress, tx=pool)
    async def first(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)

    @client.on(events.Progress, tx=pool, on_error=lambda _event, _error: None)
    async def second(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, 100 + int(event.current), event.job_id)
        if event.current == 3:
            raise ValueError("not this one")

    async with client:
        await run(client, 5)
    assert await effects(pool, schema) == [0, 1, 2, 3, 4, 100, 101, 102, 104]


# ------------------------------------------------------------------ failures


async def test_what_a_failed_handler_wrote_is_rolled_back(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make()
    failures: list[HandlerError] = []
    client.on_error(failures.append)

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)
        if event.current in (1, 2):
            raise ValueError("not this one")

    async with client:
        await run(client, 4)
    assert await effects(pool, schema) == [0, 3]
    assert [type(each.__cause__) for each in failures] == [ValueError, ValueError]


async def test_on_error_stop_leaves_the_event_to_the_next_client(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    refuse = True

    async def record(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)
        if event.current == 2 and refuse:
            raise ValueError("not yet")

    first, second = make(), make()
    for client in (first, second):
        client.subscribe(record, events.Progress, tx=pool, on_error="stop")
    with pytest.raises(HandlerFailed):
        async with first:
            await run(first, 4, key="one")
    assert await effects(pool, schema) == [0, 1]
    refuse = False
    async with second:
        await run(second, 4, key="one")
    assert await effects(pool, schema) == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "failure", [asyncpg.DeadlockDetectedError, asyncpg.SerializationError], ids=lambda f: f.__name__
)
async def test_a_transaction_that_fails_for_a_passing_reason_is_made_again(
    make: Make, pool: Any, schema: str, insert: str, failure: type[Exception]
) -> None:
    client = make(handler_timeout=5)
    attempts = 0

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        nonlocal attempts
        await connection.execute(insert, int(event.current), event.job_id)
        attempts += 1
        if attempts <= 2:
            raise failure("for the test")

    async with client:
        await run(client, 3)
    assert await effects(pool, schema) == [0, 1, 2]
    assert attempts == 5


async def test_a_lost_connection_loses_no_effect(
    make: Make, pool: Any, schema: str, insert: str, caplog: pytest.LogCaptureFixture
) -> None:
    client = make()
    cut = False

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        nonlocal cut
        await connection.execute(insert, int(event.current), event.job_id)
        if event.current == 2 and not cut:
            cut = True
            own = connection.get_server_pid()
            async with pool.acquire() as other:
                await other.execute("SELECT pg_terminate_backend($1)", own)
            await connection.execute("SELECT 1")

    with caplog.at_level(logging.WARNING, "arcp_client.stores"):
        async with client:
            await run(client, 4)
    assert await effects(pool, schema) == [0, 1, 2, 3]
    assert [record.levelname for record in caplog.records] == ["ERROR", "WARNING"]


async def test_a_commit_whose_outcome_is_unknown_is_not_made_twice(
    make: Make, pool: Any, schema: str, insert: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make()
    commit = asyncpg.transaction.Transaction._Transaction__commit
    lost = 0

    async def committed_and_lost(self: Any) -> None:
        nonlocal lost
        await commit(self)
        if lost < 3:
            lost += 1
            raise asyncpg.ConnectionDoesNotExistError("the answer to the commit is lost")

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        monkeypatch.setattr(
            asyncpg.transaction.Transaction, "_Transaction__commit", committed_and_lost
        )
        await connection.execute(insert, int(event.current), event.job_id)

    async with client:
        await run(client, 3)
    assert await effects(pool, schema) == [0, 1, 2]
    assert lost == 3


async def test_a_handler_that_exceeds_its_time_is_rolled_back(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make(handler_timeout=0.05)
    failures: list[HandlerError] = []
    client.on_error(failures.append)

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)
        if event.current == 1:
            await asyncio.Event().wait()

    async with client:
        await run(client, 3)
    assert await effects(pool, schema) == [0, 2]
    assert "record took longer than 0.05 s" in str(failures[0].__cause__)


@pytest.mark.parametrize("statement", ["COMMIT", "ROLLBACK"])
async def test_a_handler_that_ends_its_transaction_has_failed(
    make: Make, pool: Any, schema: str, statement: str
) -> None:
    client = make()
    failures: list[HandlerError] = []
    client.on_error(failures.append)

    @client.on(events.Completed, tx=pool)
    async def record(event: events.Completed, connection: Any) -> None:
        await connection.execute(statement)

    async with client:
        await run(client, 1)
        await client.drain()
    assert isinstance(failures[0].__cause__, LocalProtocolError)
    assert "has ended its transaction" in str(failures[0].__cause__)


async def test_a_handler_that_hides_an_error_of_the_database_has_failed(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make()
    failures: list[HandlerError] = []
    client.on_error(failures.append)

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)
        if event.current == 0:
            with contextlib.suppress(asyncpg.DivisionByZeroError):
                await connection.execute("SELECT 1/0")
        if event.current == 1:
            with contextlib.suppress(asyncpg.DivisionByZeroError):
                async with connection.transaction():
                    await connection.execute("SELECT 1/0")

    async with client:
        await run(client, 2)
    assert await effects(pool, schema) == [1]
    assert "savepoint" in str(failures[0].__cause__)


# ------------------------------------------------------------------ another client


async def test_a_client_that_was_taken_over_commits_nothing(
    make: Make, cluster: Cluster, pool: Any, schema: str, insert: str
) -> None:
    first, second = make(), make()
    started, go_on = asyncio.Event(), asyncio.Event()

    async def record(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)
        if event.current == 2 and not go_on.is_set():
            started.set()
            await go_on.wait()

    for client in (first, second):
        client.subscribe(record, events.Progress, tx=pool)
    await first.connect()
    await first.submit("count", STEPS)
    await started.wait()  # the transaction of the third event is open
    await pool.execute(f"UPDATE {schema}.checkpoints SET holder = NULL")
    async with second:
        go_on.set()
        await second.open_jobs()[0].result()
    assert await effects(pool, schema) == list(range(STEPS))
    with pytest.raises(StoreLocked):
        await first.ping()


async def test_a_transaction_that_is_open_does_not_delay_the_renewal_of_the_lease(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make(lease=0.3)
    waited = asyncio.Event()

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)
        if event.current == 1:
            until = f"SELECT until FROM {schema}.checkpoints"
            first = await pool.fetchval(until)
            while await pool.fetchval(until) == first:
                await asyncio.sleep(0.01)
            waited.set()

    async with client:
        await run(client, 3)
    assert waited.is_set()
    assert await effects(pool, schema) == [0, 1, 2]


# ------------------------------------------------------------------ what is refused


async def of_event(event: Any, connection: Any) -> None: ...


@pytest.mark.parametrize("store", [None, MemoryStore(), SqliteStore("unused.db")])
async def test_tx_needs_a_store_in_postgresql(runtime: Runtime, pool: Any, store: Any) -> None:
    client = Client(runtime, store=store)
    with pytest.raises(ValueError, match="PostgresStore"):
        client.on(events.Log, tx=pool)
    with pytest.raises(ValueError, match="PostgresStore"):
        client.subscribe(of_event, events.Log, tx=pool)
    await client.close()


async def test_tx_is_a_pool(make: Make) -> None:
    for value in ("postgresql://h", 5, object()):
        with pytest.raises(TypeError, match="tx must be a pool of asyncpg"):
            make().on(events.Log, tx=value)


async def test_a_handler_with_tx_is_a_coroutine_function(make: Make, pool: Any) -> None:
    with pytest.raises(TypeError, match="coroutine function"):
        make().on(events.Log, tx=pool)(lambda event, connection: None)


async def test_two_handlers_with_tx_have_two_names(make: Make, pool: Any) -> None:
    client = make()
    registration = client.subscribe(of_event, events.Log, tx=pool)
    with pytest.raises(ValueError, match="of_event is registered with tx already"):
        client.subscribe(of_event, events.Status, tx=pool)
    registration.dispose()
    client.subscribe(of_event, events.Status, tx=pool)


async def test_the_blocking_client_refuses_tx(runtime: Runtime, pool: Any) -> None:
    client = arcp_client.sync.Client("ws://127.0.0.1:9/arcp")
    for call in (
        lambda: client.on(events.Log, tx=pool),
        lambda: client.subscribe(of_event, events.Log, tx=pool),
    ):
        with pytest.raises(ValueError, match="one event loop"):
            call()


async def test_a_pool_for_another_database_is_refused_at_connect(
    make: Make, cluster: Cluster, pool: Any, schema: str
) -> None:
    await pool.execute(f"CREATE DATABASE other_{schema}")
    dsn = cluster.dsn.removesuffix("postgres") + f"other_{schema}"
    async with asyncpg.create_pool(dsn, min_size=0) as other:
        client = make()
        client.subscribe(of_event, events.Log, tx=other)
        with pytest.raises(StorageError, match="does not lead to the database of the store"):
            await client.connect()
        # The same schema is there, too: its checkpoint is another one.
        store = PostgresStore(dsn, schema=schema)
        await store.acquire("memory:effects", "default")
        again = make()
        again.subscribe(of_event, events.Log, tx=other)
        with pytest.raises(StorageError, match="does not lead to the database of the store"):
            await again.connect()
        await store.release("memory:effects", "default")
    free = make()  # the checkpoint is not held by the clients that were refused
    await free.connect()


async def test_a_handler_of_another_database_that_comes_late_ends_the_client(
    make: Make, cluster: Cluster, pool: Any, schema: str
) -> None:
    await pool.execute(f"CREATE DATABASE other_{schema}")
    dsn = cluster.dsn.removesuffix("postgres") + f"other_{schema}"
    async with asyncpg.create_pool(dsn, min_size=0) as other:
        client = make()
        await client.connect()
        client.subscribe(of_event, events.Progress, tx=other)
        with pytest.raises(StorageError, match="does not lead to the database of the store"):
            await run(client)


async def test_a_user_without_rights_is_refused_at_connect(
    make: Make, cluster: Cluster, pool: Any, schema: str
) -> None:
    await make().connect()  # makes the schema
    await pool.execute(
        f"CREATE ROLE reader_{schema} LOGIN PASSWORD 'x';"
        f"GRANT USAGE ON SCHEMA {schema} TO reader_{schema};"
        f"GRANT SELECT, UPDATE ON {schema}.checkpoints TO reader_{schema}"
    )
    async with asyncpg.create_pool(
        cluster.dsn, min_size=0, user=f"reader_{schema}", password="x"
    ) as other:
        client = make(key="other")
        client.subscribe(of_event, events.Log, tx=other)
        with pytest.raises(StorageError, match="grant SELECT and INSERT"):
            await client.connect()


async def test_a_pool_that_was_closed_ends_the_client(
    make: Make, cluster: Cluster, pool: Any, schema: str
) -> None:
    other = await asyncpg.create_pool(cluster.dsn, min_size=0)
    client = make()
    client.subscribe(of_event, events.Progress, tx=other)
    await client.connect()
    await other.close()
    with pytest.raises(StorageError, match="cannot be used"):
        await run(client)


# ------------------------------------------------------------------ the record


async def test_an_id_of_any_form_is_recorded(pool: Any) -> None:
    for odd in ("\0", "\ud800", "é", "x" * 5000):
        job_id, mark = _identity(events.Log(seq=1, id=odd, session_id="s", job_id=odd))
        assert await pool.fetchval("SELECT $1::text || $2", job_id, mark)
        assert len(mark) < 200


async def test_old_records_are_deleted_when_their_job_is_quiet(
    make: Make, pool: Any, schema: str, insert: str
) -> None:
    client = make(lease=0.3)

    @client.on(events.Progress, tx=pool)
    async def record(event: events.Progress, connection: Any) -> None:
        await connection.execute(insert, int(event.current), event.job_id)

    table = f"{schema}.handled"
    async with client:
        await run(client, 3, key="one")
        await run(client, 2, key="two")
    ago = "clock_timestamp() - interval '31 days'"
    await pool.execute(f"UPDATE {table} SET at = {ago}")
    await pool.execute(
        f"UPDATE {table} SET at = clock_timestamp() WHERE ctid = (SELECT max(ctid) FROM {table})"
    )
    async with make(lease=0.3):
        while await pool.fetchval(f"SELECT count(*) FROM {table}") > 2:
            await asyncio.sleep(0.01)
    assert await pool.fetchval(f"SELECT count(*) FROM {table}") == 2
