"""How a WebSocket connection fails: what is worth another try, what is said, what is not said."""

from __future__ import annotations

import asyncio
import pickle
import ssl
import traceback
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver

from arcp_client.errors import ConnectFailed, LinkLost
from arcp_client.transports import Connector, WebSocketConnector
from tests.unit.runtime.certificate import server_context, trusting
from tests.unit.transports.kit import serving, websocket_server
from tests.unit.transports.raw import tcp_server

pytestmark = pytest.mark.usefixtures("nothing_is_left")

CANARY = "canary-7f3a"


async def failure(url: str, **options: Any) -> ConnectFailed:
    with pytest.raises(ConnectFailed) as caught:
        await WebSocketConnector(url, **options).connect()
    return caught.value


@asynccontextmanager
async def answering(response: web.StreamResponse) -> AsyncIterator[str]:
    async def handle(_request: web.Request) -> web.StreamResponse:
        return response

    app = web.Application()
    app.router.add_get("/arcp", handle)
    async with serving(app) as port:
        yield f"ws://127.0.0.1:{port}/arcp"


async def unused_port() -> int:
    async with tcp_server(_hang_up) as port:
        return port


async def _hang_up(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    pass


# ------------------------------------------------------------------ worth another try


async def test_a_refused_connection_is_worth_another_try() -> None:
    error = await failure(f"ws://127.0.0.1:{await unused_port()}/arcp")
    assert not error.permanent
    assert "Connection refused" in str(error)
    assert isinstance(error.__cause__, ConnectionRefusedError)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504])
async def test_a_server_that_is_busy_or_broken_is_worth_another_try(status: int) -> None:
    async with answering(web.Response(status=status)) as url:
        error = await failure(url)
    assert not error.permanent
    assert f"HTTP {status}" in str(error)


async def test_a_name_that_cannot_be_resolved_is_worth_another_try() -> None:
    class NoNames(AbstractResolver):
        async def resolve(self, *_: Any, **__: Any) -> Any:
            raise OSError(None, "Temporary failure in name resolution")

        async def close(self) -> None:
            pass

    tcp = aiohttp.TCPConnector(resolver=NoNames())
    async with aiohttp.ClientSession(connector=tcp) as session:
        with pytest.raises(ConnectFailed, match="cannot be resolved") as caught:
            await WebSocketConnector("ws://runtime.test/arcp", session=session).connect()
    assert not caught.value.permanent


async def test_a_server_that_accepts_and_stays_silent_is_given_up_after_the_timeout() -> None:
    async def silent(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.read()
        await asyncio.Event().wait()

    async with tcp_server(silent) as port:
        error = await failure(f"ws://127.0.0.1:{port}/arcp", connect_timeout=0.1)
    assert not error.permanent
    assert "within 0.1 s" in str(error)


async def test_a_server_that_hangs_up_during_the_handshake_is_worth_another_try() -> None:
    async def hang_up(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with tcp_server(hang_up) as port:
        error = await failure(f"ws://127.0.0.1:{port}/arcp")
    assert not error.permanent
    assert "closed the connection during the handshake" in str(error)


async def test_an_answer_that_is_not_http_is_worth_another_try() -> None:
    async def banner(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 mail.test ESMTP\r\n\r\n")
        await writer.drain()

    async with tcp_server(banner) as port:
        error = await failure(f"ws://127.0.0.1:{port}/arcp")
    assert not error.permanent


async def test_a_proxy_that_does_not_answer_is_worth_another_try() -> None:
    proxy = f"http://127.0.0.1:{await unused_port()}"
    error = await failure("ws://runtime.test/arcp", proxy=proxy)
    assert not error.permanent
    assert "the proxy does not answer" in str(error)


async def test_a_cancelled_connect_leaves_nothing_at_whatever_step() -> None:
    async with websocket_server() as server:
        for steps in range(0, 60, 2):
            connecting = asyncio.create_task(WebSocketConnector(server.url).connect())
            for _ in range(steps):
                await asyncio.sleep(0)
            connecting.cancel()
            await asyncio.wait({connecting})
            if not connecting.cancelled():
                await connecting.result().close(timeout=0)


async def test_after_a_failure_and_after_a_loss_the_same_connector_connects_anew() -> None:
    async with websocket_server() as server:
        connector = WebSocketConnector(server.url)
        first = await connector.connect()
        await (await server.accepted()).close(timeout=0)
        with pytest.raises(LinkLost):
            await first.receive()
        second = await connector.connect()
        await second.send(b"{}")
        assert await (await server.accepted()).receive() == b"{}"
        await first.close()
        await second.close(timeout=0.1)


# ------------------------------------------------------------------ not worth another try


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (400, "check the URL's path"),
        (401, "refused the credentials"),
        (403, "forbids this path"),
        (404, "usually listen at /arcp"),
        (405, "not a WebSocket endpoint"),
        (407, "refused the credentials"),
        (426, "not a WebSocket endpoint"),
        (200, "not a WebSocket endpoint"),
    ],
)
async def test_a_refusal_that_will_not_change_is_permanent_and_says_what_to_do(
    status: int, advice: str
) -> None:
    async with answering(web.Response(status=status)) as url:
        error = await failure(url)
    assert error.permanent
    assert f"HTTP {status}" in str(error)
    assert advice in str(error)


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:7777", "http://127.0.0.1/arcp", "ws://", "ws:///arcp", "ws://h:99999/"]
)
async def test_what_is_no_websocket_url_is_a_permanent_failure_that_shows_the_form(
    url: str,
) -> None:
    error = await failure(url)
    assert error.permanent
    assert "ws://host:port/path" in str(error)


async def test_a_malformed_header_is_a_permanent_failure() -> None:
    async with websocket_server() as server:
        error = await failure(server.url, headers={"X-Bad": f"a\r\nb: {CANARY}"})
    assert error.permanent
    assert CANARY not in str(error)


async def test_a_redirect_is_not_followed_since_it_would_hand_the_token_to_another_host() -> None:
    elsewhere = f"http://user:{CANARY}@elsewhere.test/arcp?token={CANARY}"
    response = web.Response(status=302, headers={"Location": elsewhere})
    async with answering(response) as url:
        error = await failure(url)
    assert error.permanent
    assert "redirects to http://elsewhere.test:80/arcp (302)" in str(error)
    assert CANARY not in str(error)


async def test_a_session_of_the_user_is_used_and_not_closed() -> None:
    async with websocket_server() as server, aiohttp.ClientSession() as session:
        for _ in range(2):
            link = await WebSocketConnector(server.url, session=session).connect()
            await asyncio.gather(link.close(), (await server.accepted()).close())
        assert not session.closed


async def test_a_session_of_the_user_that_is_closed_is_a_permanent_failure() -> None:
    session = aiohttp.ClientSession()
    await session.close()
    error = await failure("ws://127.0.0.1:1/arcp", session=session)
    assert error.permanent
    assert "session given for ws://127.0.0.1:1/arcp is closed" in str(error)


async def test_a_proxy_that_refuses_its_credentials_is_a_permanent_failure() -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        await reader.read()

    async with tcp_server(refuse) as port:
        proxy = f"http://user:{CANARY}@127.0.0.1:{port}"
        for url in ("ws://runtime.test/arcp", "wss://runtime.test/arcp"):
            error = await failure(url, proxy=proxy)
            assert error.permanent
            assert "the proxy refused the credentials" in str(error)
            assert CANARY not in str(error)


async def test_the_handshake_offers_neither_compression_nor_a_subprotocol() -> None:
    seen: list[Mapping[str, str]] = []

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers)
        return web.Response(status=503)

    app = web.Application()
    app.router.add_get("/arcp", handle)
    async with serving(app) as port:
        await failure(f"ws://127.0.0.1:{port}/arcp", headers={"X-Mine": "yes"})
    (headers,) = seen
    assert headers["X-Mine"] == "yes"
    assert "Sec-WebSocket-Extensions" not in headers
    assert "Sec-WebSocket-Protocol" not in headers


# ------------------------------------------------------------------ TLS


@asynccontextmanager
async def tls_server(context: ssl.SSLContext) -> AsyncIterator[int]:
    async def handle(request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        async for message in ws:
            await ws.send_str(message.data)
        return ws

    app = web.Application()
    app.router.add_get("/arcp", handle)
    async with serving(app, ssl_context=context) as port:
        yield port


async def test_a_certificate_that_does_not_verify_is_permanent(tmp_path: Path) -> None:
    async with tls_server(server_context(tmp_path)) as port:
        error = await failure(f"wss://localhost:{port}/arcp")
        assert error.permanent
        assert "certificate does not verify (self-signed certificate)" in str(error)
        assert "ssl=" in str(error)


async def test_a_certificate_for_another_name_is_permanent(tmp_path: Path) -> None:
    async with tls_server(server_context(tmp_path, names="DNS:localhost")) as port:
        error = await failure(f"wss://127.0.0.1:{port}/arcp", ssl=trusting(tmp_path))
    assert error.permanent
    assert "certificate does not verify" in str(error)


async def test_with_a_trusted_certificate_frames_go_over_tls(tmp_path: Path) -> None:
    async with tls_server(server_context(tmp_path)) as port:
        link = await WebSocketConnector(
            f"wss://localhost:{port}/arcp", ssl=trusting(tmp_path)
        ).connect()
        await link.send(b"x" * 300_000)
        assert await link.receive() == b"x" * 300_000
        await link.close()


async def test_tls_to_a_server_without_it_is_permanent() -> None:
    async with websocket_server() as server:
        error = await failure(server.url.replace("ws:", "wss:"))
    assert error.permanent
    assert "use ws://" in str(error)


# ------------------------------------------------------------------ names and secrets


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("ws://127.0.0.1:7777/arcp", "ws://127.0.0.1:7777/arcp"),
        ("wss://runtime.test/arcp", "wss://runtime.test:443/arcp"),
        ("ws://runtime.test", "ws://runtime.test:80/"),
        ("ws://[::1]:7/a/b", "ws://[::1]:7/a/b"),
        (f"wss://user:{CANARY}@runtime.test/arcp?token={CANARY}#x", "wss://runtime.test:443/arcp"),
    ],
)
def test_the_target_has_no_user_no_query_and_no_fragment(url: str, target: str) -> None:
    connector = WebSocketConnector(url, headers={"Authorization": CANARY})
    assert connector.target == target
    assert CANARY not in repr(connector)


@pytest.mark.parametrize("status", [200, 302, 401, 404, 503])
async def test_no_secret_is_in_any_form_of_a_failure(status: int) -> None:
    async with answering(web.Response(status=status, headers={"Location": "ws://x/"})) as url:
        secret = url.replace("ws://", f"ws://user:{CANARY}@") + f"?token={CANARY}"
        await _check_no_canary(secret)


async def test_no_secret_is_in_the_failure_to_reach_a_server_or_a_proxy() -> None:
    port = await unused_port()
    url = f"ws://user:{CANARY}@127.0.0.1:{port}/arcp?token={CANARY}"
    await _check_no_canary(url)
    await _check_no_canary(url, proxy=f"http://user:{CANARY}@127.0.0.1:{port}")
    await _check_no_canary(f"http://user:{CANARY}@h/?token={CANARY}")
    await _check_no_canary(f"ws://user:{CANARY}@h:port/?token={CANARY}")


async def _check_no_canary(url: str, **options: Any) -> None:
    connector = WebSocketConnector(url, headers={"X-Token": CANARY}, **options)
    with pytest.raises(ConnectFailed) as caught:
        await connector.connect()
    error = caught.value
    assert error.__context__ in (None, error.__cause__)
    assert error.__traceback__ is not None
    inside = error.__traceback__.tb_next  # in this very function the canary is a local variable
    shown = [str(error), repr(error), repr(vars(error)), repr(error.__cause__)]
    shown += traceback.TracebackException(
        type(error), error.with_traceback(inside), inside, capture_locals=True
    ).format()
    assert CANARY not in "".join(shown)
    assert CANARY.encode() not in pickle.dumps(error)


def test_the_connector_is_what_the_seam_asks_for() -> None:
    assert isinstance(WebSocketConnector("ws://runtime.test/arcp"), Connector)
