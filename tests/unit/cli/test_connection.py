"""While a server that does not answer is tried, the command says so."""

from __future__ import annotations

import asyncio
import io

import pytest
from rich.console import Console

from arcp_client.cli import connection
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.interrupts import Interrupts
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal
from arcp_client.errors import ConnectFailed


@pytest.mark.parametrize("live", [True, False])
async def test_a_server_that_does_not_answer_is_named_and_with_it_the_time(
    monkeypatch: pytest.MonkeyPatch, live: bool
) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=live, width=100, _environ={})
    monkeypatch.setattr(terminal, "err", lambda: console)
    monkeypatch.setattr(connection, "MOMENT", 0.0)
    said = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while "connecting to" not in written.getvalue():
            await asyncio.sleep(0.001)
        said.set()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"ws://127.0.0.1:{port}/arcp?token=canary-t0ken"
        place = Place(url, None, Output.TEXT, connect_timeout=0.5, reconnect_for=0.0)
        with pytest.raises(ConnectFailed):
            async with connected(place, Interrupts()):
                pass
    assert said.is_set()
    assert f"connecting to ws://127.0.0.1:{port}/arcp" in written.getvalue()
    assert "for 0.5 s at most" in written.getvalue()
    assert "canary" not in written.getvalue()


async def test_while_a_dead_server_is_tried_the_reason_is_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.StringIO()
    console = Console(file=written, force_terminal=True, width=200, _environ={})
    monkeypatch.setattr(terminal, "err", lambda: console)
    monkeypatch.setattr(connection, "MOMENT", 0.0)
    tries = 0
    told = asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        async with asyncio.timeout(20):
            wanted = "connecting to" if tries == 1 else "the last attempt failed: "
            while wanted not in written.getvalue():
                await asyncio.sleep(0.01)
        if tries > 1:
            told.set()
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        url = f"ws://127.0.0.1:{port}/arcp"
        place = Place(url, None, Output.TEXT, connect_timeout=20.0, reconnect_for=3.0)
        with pytest.raises(ConnectFailed):
            async with connected(place, Interrupts()):
                pass
    assert told.is_set()
