"""What a runtime's server lets clients do before it knows them (§4, §6.1, §14)."""

from __future__ import annotations

import asyncio
import logging
import struct
from contextlib import AsyncExitStack, asynccontextmanager, closing
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from arcp_client import Client, _connection_limits
from arcp_client.errors import ConnectFailed, LinkLost, Unauthenticated
from arcp_client.runtime import Limits, Runtime
from arcp_client.transports import WebSocketConnector
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Peer
from tests.unit.runtime.test_serving import counting

SOON = 30.0
UPGRADE = (
    b"GET /arcp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
HALF = UPGRADE[:40]
SILENT = b""
STRANGERS = [SILENT, HALF, UPGRADE]
NAMES = ["silent", "half a header", "no hello"]


@asynccontextmanager
async def served(runtime: Runtime, how: str, host: str = "127.0.0.1", **options: Any) -> Any:
    """The port of a runtime's own server, or of an application that has its route."""
    if how == "serve":
        async with runtime.serve(host, **options) as server:
            yield server.port
        return
    app = web.Application()
    runtime.add_routes(app, **options)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    site = web.TCPSite(runner, host, 0)
    await site.start()
    yield runner.addresses[0][1]
    await runner.cleanup()


@pytest.fixture(params=["serve", "add_routes"])
def how(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def status(port: int, *, at: str = "127.0.0.1", **headers: str) -> int:
    """What a WebSocket handshake with these headers is answered with; 101 if it is taken."""
    url = f"ws://{at}:{port}/arcp"
    async with aiohttp.ClientSession() as http:
        try:
            async with http.ws_connect(url, headers=headers):
                return 101
        except aiohttp.WSServerHandshakeError as error:
            return error.status


async def stranger(stack: AsyncExitStack, port: int, sent: bytes) -> asyncio.StreamReader:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    stack.enter_context(closing(writer))
    writer.write(sent)
    await writer.drain()
    return reader


async def frame_after_upgrade(reader: asyncio.StreamReader) -> bytes:
    await reader.readuntil(b"\r\n\r\n")
    return await reader.read(100)


# ------------------------------------------------------------------------- names and origins


@pytest.mark.parametrize("auth", [None, {"t": "p"}], ids=["open", "with auth"])
async def test_r1_on_the_loopback_only_loopback_names_are_served(
    make: MakeRuntime, how: str, auth: Any
) -> None:
    async with served(make(auth=auth), how) as port:
        for host in (
            "localhost",
            f"LOCALHOST:{port}",
            "localhost.",
            f"127.0.0.1:{port}",
            "[::1]:1",
        ):
            assert await status(port, Host=host) == 101, host
        for host in (
            *("evil.example", f"evil.example:{port}", "localhost.evil.example", "192.0.2.1"),
            *("0.0.0.0", "127.1.evil.example", "127.1", "[::ffff:1.2.3.4]"),
        ):
            # As a page of that name would ask: its origin is its own.
            assert await status(port, Host=host, Origin=f"http://{host}") == 403, host
            assert await status(port, Host=host) == 403, host
        for host in ("", ".", "a b", "localhost@evil.example", "[::1", "a:b"):
            assert await status(port, Host=host) == 400, host


async def test_names_that_were_allowed_are_served(make: MakeRuntime, how: str) -> None:
    async with served(make(), how, allowed_hosts=["Jobs.example"]) as port:
        assert await status(port, Host="jobs.example") == 101
        assert await status(port, Host="localhost") == 101
        assert await status(port, Host="other.example") == 403
        # A proxy that changes Host leaves the origin as the browser sent it.
        assert await status(port, Origin="https://jobs.example") == 101
        assert await status(port, Origin="https://other.example") == 403


async def test_elsewhere_any_name_is_served_unless_names_were_allowed(
    make: MakeRuntime, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client.runtime.serving.on_loopback", lambda _: False)
    async with served(make(), how) as port:
        assert await status(port, Host="agents.example") == 101
        assert await status(port, Host="agents.example", Origin="http://other.example") == 403
    async with served(make(), how, allowed_hosts=["agents.example"]) as port:
        assert await status(port, Host="agents.example:80") == 101
        assert await status(port, Host="192.0.2.1") == 101
        assert await status(port, Host="localhost") == 101
        assert await status(port, Host="other.example") == 403


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "null", "", "//", "\u00fc"])
async def test_a_malformed_origin_is_foreign(
    make: MakeRuntime, how: str, origin: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(make(), how) as port:
        assert await status(port, Origin=origin) == 403
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("hosts", ["jobs.example", 5, [1]], ids=str)
def test_allowed_hosts_are_a_list_of_texts(hosts: Any) -> None:
    with pytest.raises(TypeError, match="allowed_hosts must be a list of strings"):
        Runtime().serve(allowed_hosts=hosts)
    with pytest.raises(TypeError, match="allowed_hosts must be a list of strings"):
        Runtime().add_routes(web.Application(), allowed_hosts=hosts)


def test_allowed_hosts_are_names() -> None:
    with pytest.raises(ValueError, match="without scheme, port and path"):
        Runtime().serve(allowed_hosts=["http://jobs.example"])


async def test_a_client_is_told_what_to_do_about_a_name_that_is_not_allowed(
    make: MakeRuntime,
) -> None:
    async with make().serve() as server:
        connector = WebSocketConnector(server.url, headers={"Host": "agents.example"})
        with pytest.raises(ConnectFailed, match="allowed_hosts") as failed:
            await connector.connect()
        assert failed.value.permanent


# ------------------------------------------------------------------------- half-open connections


@pytest.fixture
def aged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every connection is as old as one that may be dropped."""
    monkeypatch.setattr(_connection_limits, "FRESH", 0.0)


@pytest.mark.usefixtures("aged")
@pytest.mark.parametrize("sent", STRANGERS, ids=NAMES)
async def test_r2_256_strangers_do_not_keep_a_client_out(make: MakeRuntime, sent: bytes) -> None:
    runtime = make(limits=Limits(connections=100, handshakes=40, handshakes_per_address=30))
    counting(runtime)
    async with AsyncExitStack() as stack, asyncio.timeout(SOON), runtime.serve() as server:
        strangers = [await stranger(stack, server.port, sent) for _ in range(256)]
        async with Client(server.url) as client:
            assert (await (await client.submit("count", 3)).result()).value == "counted"
            await asyncio.gather(
                *(each.read() for each in strangers[:226])
            )  # all but the last 30, or 29 and the client, were hung up on
            assert (await (await client.submit("count", 3)).result()).value == "counted"


async def test_r2_a_burst_beyond_the_handshakes_comes_in(make: MakeRuntime, how: str) -> None:
    limits = Limits(handshakes=4, handshakes_per_address=4)
    async with (
        AsyncExitStack() as stack,
        asyncio.timeout(SOON),
        served(make(limits=limits), how) as port,
    ):
        url = f"ws://127.0.0.1:{port}/arcp"
        peers = await asyncio.gather(*(Peer.to(WebSocketConnector(url)) for _ in range(40)))
        for peer in peers:
            stack.push_async_callback(peer.close)
        for welcome in await asyncio.gather(*(peer.hello() for peer in peers)):
            assert welcome["type"] == "session.welcome"


@pytest.mark.usefixtures("aged")
async def test_websockets_of_strangers_make_room_in_an_application_of_ones_own_too(
    make: MakeRuntime, how: str
) -> None:
    limits = Limits(handshakes=4, handshakes_per_address=4)
    async with (
        AsyncExitStack() as stack,
        asyncio.timeout(SOON),
        served(make(limits=limits), how) as port,
    ):
        strangers = [await stranger(stack, port, UPGRADE) for _ in range(8)]
        peer = await Peer.to(WebSocketConnector(f"ws://127.0.0.1:{port}/arcp"))
        assert (await peer.hello())["type"] == "session.welcome"
        await asyncio.gather(*(each.read() for each in strangers[:4]))
        await peer.ask("session.list_jobs")
        await peer.close()


@pytest.mark.parametrize("limits", [{"connections": 16}, {"connections_per_address": 16}], ids=str)
async def test_welcomed_clients_keep_their_place_and_one_more_is_told(
    make: MakeRuntime, how: str, limits: dict[str, int]
) -> None:
    async with AsyncExitStack() as stack, served(make(limits=Limits(**limits)), how) as port:
        url = f"ws://127.0.0.1:{port}/arcp"
        peers = []
        for _ in range(16):
            peers.append(await Peer.to(WebSocketConnector(url)))
            stack.push_async_callback(peers[-1].close)
            await peers[-1].hello()
        with pytest.raises(ConnectFailed) as refused:
            await WebSocketConnector(url).connect()
        assert not refused.value.permanent
        for peer in peers:
            assert (await peer.ask("session.list_jobs"))["type"] == "session.jobs"
        await peers[0].close()
        while True:
            try:
                peer = await Peer.to(WebSocketConnector(url))
                break
            except ConnectFailed:
                await asyncio.sleep(0)  # its place is free once the server has seen the end
        stack.push_async_callback(peer.close)
        assert (await peer.hello())["type"] == "session.welcome"


@pytest.mark.parametrize("sent", STRANGERS, ids=NAMES)
async def test_a_stranger_is_hung_up_on_in_time(make: MakeRuntime, sent: bytes) -> None:
    runtime = make(limits=Limits(handshake_timeout=0.2))
    async with AsyncExitStack() as stack, asyncio.timeout(SOON), runtime.serve() as server:
        reader = await stranger(stack, server.port, sent)
        rest = await reader.read()
        assert (b"session.hello was not received in time" in rest) is (sent is UPGRADE)


async def test_no_connection_stays_open_for_another_http_request(make: MakeRuntime) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(SOON), make().serve() as server:
        for path in (b"/", b"/arcp"):
            request = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path
            answer = await (await stranger(stack, server.port, request)).read()
            assert answer.startswith(b"HTTP/1.1 40")
            assert b"connection: close" in answer.lower()


async def test_a_request_with_a_malformed_body_is_refused_without_a_traceback(
    make: MakeRuntime, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    body = b"no gzip"
    head = UPGRADE[:-2] + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body)
    async with AsyncExitStack() as stack, asyncio.timeout(SOON), served(make(), how) as port:
        reader = await stranger(stack, port, head + body)
        answer = await reader.readline()
        assert b" 101 " in answer or b" 400 " in answer
    assert not [record for record in caplog.records if record.exc_info]


# ------------------------------------------------------------------------- small frames at first


def header(size: int) -> bytes:
    """The beginning of a masked text frame of so many bytes, with a mask of zeros."""
    return b"\x81\xff" + struct.pack("!Q", size) + b"\0\0\0\0"


async def test_a_large_first_frame_ends_the_link_with_1009(make: MakeRuntime, how: str) -> None:
    async with AsyncExitStack() as stack, asyncio.timeout(SOON), served(make(), how) as port:
        for sent in (header(4_000_000), header(4_000_000) + b" " * 100_000):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            stack.enter_context(closing(writer))
            writer.write(UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(sent)
            if len(sent) > 64 * 1024:
                assert await reader.read(4) == b"\x88\x02" + struct.pack("!H", 1009)
                writer.write(b" " * 1_000_000)
                assert await reader.read() == b""
    connector = WebSocketConnector(f"ws://127.0.0.1:{port}/arcp")
    async with served(make(), how) as port:
        connector = WebSocketConnector(f"ws://127.0.0.1:{port}/arcp")
        peer = await Peer.to(connector)
        await peer.raw(b'{"type":"session.hello","payload":"' + b"x" * 70_000 + b'"}')
        with pytest.raises(LinkLost) as lost:
            await peer.transport.receive()
        assert lost.value.close_code == 1009
        await peer.close()


async def test_a_hello_that_fits_is_read_and_after_it_large_frames_are(
    make: MakeRuntime, how: str
) -> None:
    runtime = make()

    @runtime.agent("size")
    async def size(input: Any, job: Any) -> int:
        return len(input)

    async with served(runtime, how) as port:
        peer = await Peer.to(WebSocketConnector(f"ws://127.0.0.1:{port}/arcp"))
        payload = {
            "client": {"name": "x" * 50_000, "version": "1"},
            "auth": {"scheme": "bearer", "token": ""},
            "capabilities": {"features": []},
        }
        await peer.send("session.hello", payload)
        welcome = await peer.read()
        assert welcome["type"] == "session.welcome"
        peer.session_id = welcome["session_id"]
        _, frames = await peer.run("size", "x" * 3_000_000)
        assert frames[-1]["payload"]["result"] == 3_000_000
        await peer.close()


# ------------------------------------------------------------------------- wrong tokens


async def test_r3_wrong_tokens_are_answered_ever_later_and_right_ones_at_once(
    make: MakeRuntime, how: str, delays: list[float]
) -> None:
    async with served(make(auth={"t": "p"}), how) as port:
        url = f"ws://127.0.0.1:{port}/arcp"
        for _ in range(4):
            peer = await Peer.to(WebSocketConnector(url))
            assert (await peer.hello(token="x"))["payload"]["code"] == "UNAUTHENTICATED"
            await peer.close()
            peer = await Peer.to(WebSocketConnector(url))
            assert (await peer.hello(token="t"))["type"] == "session.welcome"
            await peer.close()
    assert delays == [0.1, 0.2, 0.4, 0.8]


async def test_while_too_many_wrong_tokens_wait_no_other_is_compared(
    make: MakeRuntime, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared: list[str] = []

    async def who(token: str) -> str | None:
        compared.append(token)
        return None

    never = asyncio.Event()

    async def sleep(_: float) -> None:
        await never.wait()

    monkeypatch.setattr("arcp_client._security._sleep", sleep)
    async with AsyncExitStack() as stack, served(make(auth=who), how) as port:
        url = f"ws://127.0.0.1:{port}/arcp"
        peers = [await Peer.to(WebSocketConnector(url)) for _ in range(9)]
        for peer in peers:
            stack.push_async_callback(peer.close)
        for peer in peers[:8]:
            await peer.send("session.hello", {"auth": {"scheme": "bearer", "token": "x"}})
        while len(compared) < 8:
            await asyncio.sleep(0)
        refused = await peers[8].hello(token="right")
        assert refused["payload"]["code"] == "INTERNAL_ERROR"
        assert refused["payload"]["retryable"] is True
        assert "right" not in compared
        with pytest.raises(ConnectFailed, match="429") as full:  # and no link is opened either
            await WebSocketConnector(url).connect()
        assert not full.value.permanent
        never.set()


async def test_within_the_process_nothing_is_delayed(
    make: MakeRuntime, delays: list[float]
) -> None:
    runtime = make(auth={"t": "p"})
    for _ in range(20):
        with pytest.raises(Unauthenticated):
            async with Client(runtime, token="x"):
                pass
    assert delays == []


@pytest.fixture
def delays(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The delays of wrong tokens, which take no time."""
    found: list[float] = []

    async def sleep(seconds: float) -> None:
        found.append(seconds)

    monkeypatch.setattr("arcp_client._security._sleep", sleep)
    return found
