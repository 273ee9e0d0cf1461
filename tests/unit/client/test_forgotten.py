"""Clients whose event loop ends, and clients that are dropped, without having been closed (D20)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, Runtime, SqliteStore
from arcp_client.errors import ClientClosed
from arcp_client.state import Closed
from arcp_client.transports import WebSocketConnector

USES: dict[str, Callable[[Client], Awaitable[Any]]] = {
    "connect": lambda client: client.connect(),
    "connected": lambda client: client.connected(),
    "submit": lambda client: client.submit("echo"),
    "ping": lambda client: client.ping(),
    "jobs": lambda client: anext(client.jobs()),
    "events": lambda client: anext(client.events()),
}


async def _connected(client: Client) -> None:
    await client.connect()


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_d20_a_client_whose_loop_has_ended_says_so(
    use: Callable[[Client], Awaitable[Any]], caplog: pytest.LogCaptureFixture
) -> None:
    client = Client(Runtime())
    asyncio.run(_connected(client))
    assert "was not closed" in caplog.text
    assert isinstance(client.state, Closed)

    async def again() -> None:
        with pytest.raises(ClientClosed, match="event loop of the client has ended"):
            await use(client)
        await client.close()

    asyncio.run(again())


def test_d20_a_client_that_was_closed_before_its_loop_ended_says_that() -> None:
    client = Client(Runtime())

    async def once() -> None:
        async with client:
            pass

    asyncio.run(once())
    with pytest.raises(ClientClosed, match="was closed"):
        asyncio.run(_connected(client))


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_d20_a_store_is_free_once_the_loop_has_ended(tmp_path: Path) -> None:
    path = tmp_path / "client.db"
    client = Client(Runtime(), store=SqliteStore(path))
    asyncio.run(_connected(client))

    async def another() -> None:
        async with Client(Runtime(), store=SqliteStore(path)):
            pass

    asyncio.run(another())


@pytest.mark.parametrize("handled", [False, True])
@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_d20_a_client_that_is_dropped_is_reported_and_ends(
    runtime: Runtime, caplog: pytest.LogCaptureFixture, handled: bool
) -> None:
    """The task of a handler, which waits for further events, ends as well."""
    clients = [Client(runtime, token="secret-token")]
    await clients[0].connect()
    seen = asyncio.Event()
    if handled:
        clients[0].on()(lambda event: seen.set())
    job = await clients[0].submit("stuck")
    if handled:
        await asyncio.wait_for(seen.wait(), 10)
    with pytest.warns(ResourceWarning, match=r"<Client .* Live> was dropped without close\(\)"):
        clients.clear()
    with pytest.raises(ClientClosed, match=r"dropped without close\(\)"):
        await asyncio.wait_for(job.result(), 10)
    assert "was dropped without close()" in caplog.text
    assert "secret-token" not in caplog.text
    while any(task.get_name().startswith("arcp_client") for task in asyncio.all_tasks()):
        await asyncio.sleep(0)


async def test_d20_a_client_that_was_closed_or_never_connected_is_dropped_silently(
    runtime: Runtime, recwarn: pytest.WarningsRecorder
) -> None:
    Client(runtime)
    async with Client(runtime):
        pass
    with pytest.raises(TypeError):
        Client(3)  # type: ignore[arg-type]
    gc.collect()
    assert not [found for found in recwarn if found.category is ResourceWarning]


async def test_the_repr_of_a_client_shows_target_and_state_and_no_secret(runtime: Runtime) -> None:
    client = Client("wss://user:secret@agents.example/arcp?token=secret", token="secret")
    assert repr(client) == "<Client wss://agents.example:443/arcp Connecting>"
    async with Client(runtime, token="secret") as live:
        assert "Live" in repr(live)
        assert "secret" not in repr(live)
    assert repr(live).endswith(" Closed>")
    assert "secret" not in repr(WebSocketConnector("ws://127.0.0.1:1/?a=secret"))
