"""``kill -9`` of a client whose handler writes with ``tx``: each event has exactly one row (D22).

Twelve kills by default, and 200 more with ``ARCP_SLOW=1``. In half of the cases each life of the
client begins a session of its own, which gets the history of the job from its beginning.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

from arcp_client import JobContext, Runtime
from tests.postgres import Cluster

pytestmark = pytest.mark.usefixtures("forked")

CHILD = Path(__file__).with_name("effects_child.py")
IN_EACH_LIFE = 40
PATIENT = pytest.mark.skipif("ARCP_SLOW" not in os.environ, reason="set ARCP_SLOW=1")


@pytest.fixture
async def dsn() -> AsyncIterator[str]:
    """A server of its own, with a table of effects."""
    cluster = await asyncio.to_thread(lambda: Cluster(Cluster.make_folder()).create())
    connection = await asyncpg.connect(cluster.dsn)
    await connection.execute("CREATE TABLE effects (id bigserial, n integer, life integer)")
    await connection.close()
    yield cluster.dsn
    await asyncio.to_thread(cluster.remove)


async def live_once(
    arguments: list[str], live: Callable[[], None], kill: tuple[bytes, float] | None
) -> bool:
    """Run one process.

    Args:
        arguments: those of the process.
        live: called when its session is live.
        kill: the line that the process prints, and the seconds after it until it is killed.

    Returns:
        Whether it came to the end.
    """
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    timer = None
    said = b""
    try:
        async for said in child.stdout:
            if said == b"live\n":
                live()
            if kill is not None and said.strip() == kill[0]:
                timer = asyncio.get_running_loop().call_later(kill[1], child.kill)
    finally:
        if timer is not None:
            timer.cancel()
        if child.returncode is None:
            child.kill()
        await child.wait()
    return said == b"end\n"


async def expire(dsn: str) -> None:
    """Let the session of the client's checkpoint be one that the runtime does not have any more."""
    connection = await asyncpg.connect(dsn)
    kept = await connection.fetchval("SELECT checkpoint FROM arcp.checkpoints")
    if kept is not None:
        gone = json.dumps(json.loads(kept) | {"session_id": "sess_expired"}).encode()
        await connection.execute("UPDATE arcp.checkpoints SET checkpoint = $1", gone)
    await connection.close()


@pytest.mark.parametrize("handler", ["single", "batch"])
@pytest.mark.parametrize("session", ["resumed", "expired"])
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(3, marks=pytest.mark.timeout(120)),
        pytest.param(50, marks=[pytest.mark.slow, PATIENT, pytest.mark.timeout(3000)]),
    ],
)
async def test_a_killed_client_leaves_one_row_for_each_event(
    dsn: str, kills: int, session: str, handler: str, record_property: Any
) -> None:
    rng = random.Random(kills)
    emitted = 0
    gate: asyncio.Queue[bool] = asyncio.Queue()
    async with Runtime(name="effects") as runtime:

        @runtime.agent("emit")
        async def emit(input: Any, job: JobContext) -> int:
            nonlocal emitted
            while await gate.get():
                for _ in range(IN_EACH_LIFE):
                    await job.progress(emitted)
                    emitted += 1
                    await asyncio.sleep(0.001)
            return emitted

        async with runtime.serve() as server:
            arguments = [server.url, dsn, handler]
            for _ in range(kills):
                when = rng.choice((b"live", b"row", b"row")), rng.uniform(0.0, 0.2)
                assert not await live_once(arguments, lambda: gate.put_nowait(True), when)
                if session == "expired":
                    await expire(dsn)
            assert await live_once(arguments, lambda: gate.put_nowait(False), None)
    connection = await asyncpg.connect(dsn)
    rows = await connection.fetch("SELECT n, life FROM effects ORDER BY id")
    await connection.close()
    numbers = [row["n"] for row in rows]
    assert sorted(numbers) == list(range(emitted)), "each event has exactly one row"
    assert numbers == sorted(numbers), "in order"
    active = len({row["life"] for row in rows})
    record_property("rows", len(rows))
    print(f"{handler}, {session}: {kills} kills, {active} lives wrote, {len(rows)} rows")
    assert emitted == kills * IN_EACH_LIFE
