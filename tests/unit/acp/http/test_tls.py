"""Links over HTTPS."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from arcp_client.acp import AcpClient, HttpConnector
from arcp_client.errors import ConnectFailed
from tests.unit.acp.http.kit import INITIALIZE, SECRET, answer, chunk, linked, serving
from tests.unit.runtime.certificate import server_context, trusting
from tests.unit.transports.raw import tcp_server


async def test_a_certificate_that_is_trusted(tmp_path: Path) -> None:
    async with serving(tls=server_context(tmp_path)) as agent:
        for trust in (trusting(tmp_path), False):
            async with linked(agent, ssl=trust) as (link, stream):
                await stream.event(chunk(1))
                await link.receive()
    assert len(agent.deletes) == 2


async def test_a_certificate_that_is_not_trusted_gets_no_token(tmp_path: Path) -> None:
    async with serving(tls=server_context(tmp_path)) as agent:
        with pytest.raises(ConnectFailed, match="certificate does not verify") as caught:
            await AcpClient(agent.url, token=SECRET).connect()
    assert caught.value.permanent
    assert agent.seen == []


async def test_https_where_only_http_is_spoken() -> None:
    async def plain(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(answer(400).encode())
        await writer.drain()

    async with tcp_server(plain) as port:
        link = await HttpConnector(f"https://127.0.0.1:{port}/acp").connect()
        try:
            with pytest.raises(ConnectFailed, match="does not speak TLS.*use ws:// or http://"):
                await link.send(INITIALIZE)
        finally:
            await link.close()
