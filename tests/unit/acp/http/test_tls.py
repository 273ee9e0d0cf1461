"""Links over HTTPS."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from arcp_client.acp import AcpClient, HttpConnector
from arcp_client.errors import ConnectFailed
from tests.unit.acp.http.kit import INITIALIZE, SECRET, answer, chunk, linked, serving
from tests.unit.transports.raw import tcp_server


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost and its key, in one file."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("needs the openssl command to make a certificate")
    directory = tmp_path_factory.mktemp("tls")
    arguments = "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost -keyout key -out crt"
    names = ["-addext", "subjectAltName=DNS:localhost"]
    subprocess.run(
        [openssl, *arguments.split(), *names], cwd=directory, check=True, capture_output=True
    )
    both = directory / "both.pem"
    both.write_bytes((directory / "key").read_bytes() + (directory / "crt").read_bytes())
    return both


@pytest.fixture
def server(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def test_a_certificate_that_is_trusted(server: ssl.SSLContext, certificate: Path) -> None:
    trusting = ssl.create_default_context(cafile=str(certificate))
    async with serving(tls=server) as agent:
        for trust in (trusting, False):
            async with linked(agent, ssl=trust) as (link, stream):
                await stream.event(chunk(1))
                await link.receive()
    assert len(agent.deletes) == 2


async def test_a_certificate_that_is_not_trusted_gets_no_token(server: ssl.SSLContext) -> None:
    async with serving(tls=server) as agent:
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
