"""Links over HTTP/2: who chooses it, and what only HTTP/2 has."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arcp_client.acp import HttpConnector
from arcp_client.errors import ConnectFailed, LinkLost
from tests.unit.acp.http import kit
from tests.unit.acp.http.kit import (
    INITIALIZE,
    SECRET,
    Agent,
    answer,
    chunk,
    linked,
    request,
    serving,
)
from tests.unit.runtime.certificate import server_context, trusting
from tests.unit.transports.raw import tcp_server

pytest.importorskip("h2")
from h2 import events
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.settings import SettingCodes

from arcp_client.acp._http.exchange import HttpFailed
from arcp_client.acp._http.http2_connection import Http2Connection
from arcp_client.acp._http.http2_frames import GoAway, Http1Answer, split_frames
from tests.unit.acp.http import kit2
from tests.unit.acp.http.kit2 import Peer

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
def prior_knowledge(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kit, "HTTP2", "cut")


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


async def failure(url: str, **options: Any) -> ConnectFailed:
    link = await HttpConnector(url, **options).connect()
    try:
        with pytest.raises(ConnectFailed) as caught:
            await link.send(INITIALIZE)
        return caught.value
    finally:
        await link.close()


# ------------------------------------------------------------------ who chooses


@asynccontextmanager
async def secure(folder: Path, *protocols: str) -> AsyncIterator[Agent]:
    """A server that speaks what ALPN has chosen, and without ALPN HTTP/2 if that is all it has."""
    context = server_context(folder)
    if protocols:
        context.set_alpn_protocols(list(protocols))
    agent = Agent(scheme="https")

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        chosen = writer.get_extra_info("ssl_object").selected_alpn_protocol()
        if chosen == "h2" or protocols == ("h2",):
            await kit2.handle(agent, reader, writer)
        else:
            await agent.handle(reader, writer)

    async with tcp_server(handle, tls=context) as agent.port:
        yield agent


@pytest.mark.parametrize(
    ("protocols", "http2", "spoken"),
    [
        (("h2", "http/1.1"), None, 2),
        (("h2",), None, 2),
        (("h2", "http/1.1"), True, 2),
        (("h2", "http/1.1"), False, 1),
        (("http/1.1",), None, 1),
        ((), None, 1),
    ],
)
async def test_the_server_chooses_among_what_this_side_offers(
    protocols: tuple[str, ...],
    http2: bool | None,
    spoken: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with secure(tmp_path, *protocols) as agent:
        async with linked(agent, ssl=False, http2=http2) as (link, stream):
            await stream.event(chunk(1))
            assert json.loads(await link.receive()) == chunk(1)
        assert len(agent.deletes) == 1
        assert len(agent.peers) == (1 if spoken == 2 else 0)


async def test_a_context_of_the_user_is_not_changed_and_chooses_what_it_offers(
    tmp_path: Path,
) -> None:
    async with secure(tmp_path, "h2", "http/1.1") as agent:
        context = trusting(tmp_path)
        async with linked(agent, ssl=context):
            assert agent.peers == []
        error = await failure(agent.url, ssl=context, http2=True)
        assert error.permanent
        assert 'set_alpn_protocols(["h2", "http/1.1"])' in str(error)
        context.set_alpn_protocols(["h2", "http/1.1"])
        async with linked(agent, ssl=context):
            assert len(agent.peers) == 1


async def test_without_the_extra_https_is_http_1_and_http2_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h2", None)
    async with secure(tmp_path, "h2", "http/1.1") as agent, linked(agent, ssl=False):
        assert agent.peers == []
    with pytest.raises(ImportError, match=r"pip install 'arcp-client\[http2\]'"):
        HttpConnector("https://localhost/acp", http2=True)


@pytest.mark.parametrize("tls", [True, False])
async def test_a_server_of_http_2_only_gives_an_error_that_says_what_to_install(
    tls: bool, tmp_path: Path, prior_knowledge: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server sends its settings and hangs up; one in tests/interop ends the TLS handshake."""
    monkeypatch.setitem(sys.modules, "h2", None)
    async with secure(tmp_path, "h2") if tls else serving() as agent:
        error = await failure(f"{agent.url}?key={SECRET}", ssl=False)
        assert "if it takes HTTP/2 only, install 'arcp-client[http2]'" in str(error)
        assert SECRET not in str(error)
        assert agent.seen == []


async def test_a_server_of_http_1_only_is_named() -> None:
    async def old(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer(400).encode())
        await writer.drain()

    async with tcp_server(old) as port:
        error = await failure(f"http://127.0.0.1:{port}/acp", http2=True)
        assert error.permanent
        assert "the server answers in HTTP/1.1; do not pass http2=True" in str(error)


async def test_a_server_that_does_not_choose_http_2_is_named(tmp_path: Path) -> None:
    async with secure(tmp_path, "http/1.1") as agent:
        error = await failure(agent.url, ssl=False, http2=True)
        assert error.permanent
        assert "does not choose HTTP/2 by ALPN" in str(error)


async def test_a_certificate_is_verified_before_anything_is_sent(tmp_path: Path) -> None:
    async with secure(tmp_path, "h2") as agent:
        certificate = ssl.PEM_cert_to_DER_cert((tmp_path / "cert.pem").read_text())
        right = hashlib.sha256(certificate).digest()
        async with linked(agent, ssl=aiohttp.Fingerprint(right)):
            assert len(agent.peers) == 1
        seen = len(agent.seen)
        wrong = aiohttp.Fingerprint(bytes(32))
        for trust, words in ((None, "does not verify"), (wrong, "fingerprint")):
            error = await failure(agent.url, ssl=trust, headers={"Authorization": SECRET})
            assert error.permanent
            assert words in str(error)
        assert len(agent.seen) == seen


@pytest.mark.parametrize("http2", [True, False])
async def test_credentials_of_the_url_become_a_header(http2: bool, prior_knowledge: None) -> None:
    if not http2:
        kit.HTTP2 = ""  # the fixture restores it
    async with serving() as agent:
        url = agent.url.replace("//", "//us%20er:pass@")
        link = await HttpConnector(url, http2=http2, headers={"X-A": "b"}).connect()
        await link.send(INITIALIZE)
        await link.close()
        headers = agent.seen[0].headers
        assert headers["authorization"] == basic("us er:pass")
        assert headers.get(":authority", headers.get("host")) == f"127.0.0.1:{agent.port}"
        both = {"http2": http2, "headers": {"Authorization": SECRET}}
        assert "malformed" in str(await failure(url, **both))
        assert "malformed" in str(await failure(agent.url, http2=http2, headers={"A": "b\r\nC: d"}))


# ------------------------------------------------------------------ proxies


@asynccontextmanager
async def proxy(
    reply: bytes = b"HTTP/1.1 200 OK\r\n\r\n", *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[int, list[str]]]:
    heads: list[str] = []

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(reply)
        await writer.drain()
        if b" 200 " not in reply:
            return
        host, _, port = heads[-1].split(" ")[1].rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        try:
            await asyncio.wait(
                [
                    asyncio.create_task(copy(reader, back)),
                    asyncio.create_task(copy(there, writer)),
                ],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            back.transport.abort()

    async with tcp_server(handle, tls=tls) as port:
        yield port, heads


async def test_a_proxy_may_have_a_certificate_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "proxy").mkdir()
    tls = server_context(tmp_path / "proxy")
    async with secure(tmp_path, "h2") as agent, proxy(tls=tls) as (port, heads):
        trust = trusting(tmp_path)
        trust.set_alpn_protocols(["h2", "http/1.1"])
        trust.load_verify_locations(tmp_path / "proxy" / "cert.pem")
        async with linked(agent, proxy=f"https://localhost:{port}", ssl=trust) as (link, stream):
            await stream.event(chunk(1))
            assert json.loads(await link.receive()) == chunk(1)
        assert len(heads) == len(agent.peers) == 1


async def test_the_fingerprint_of_the_server_does_not_verify_the_proxy(tmp_path: Path) -> None:
    (tmp_path / "proxy").mkdir()
    tls = server_context(tmp_path / "proxy")
    async with secure(tmp_path, "h2") as agent, proxy(tls=tls) as (port, heads):
        certificate = ssl.PEM_cert_to_DER_cert((tmp_path / "cert.pem").read_text())
        known = aiohttp.Fingerprint(hashlib.sha256(certificate).digest())
        through = f"https://us:{SECRET}@localhost:{port}"
        error = await failure(agent.url, proxy=through, ssl=known)
        assert "proxy" in str(error)
        assert SECRET not in str(error)
        assert heads == []


@pytest.mark.parametrize("tls", [True, False])
async def test_a_proxy_makes_a_tunnel(tls: bool, tmp_path: Path, prior_knowledge: None) -> None:
    async with secure(tmp_path, "h2") if tls else serving() as agent, proxy() as (port, heads):
        through = f"http://me:{SECRET}@127.0.0.1:{port}"
        async with linked(agent, proxy=through, ssl=False, http2=True) as (link, stream):
            await stream.event(chunk(1))
            assert json.loads(await link.receive()) == chunk(1)
        place = agent.url.split("/")[2]
        assert heads[0].startswith(f"CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n")
        credentials = basic(f"me:{SECRET}")
        assert f"Proxy-Authorization: {credentials}\r\n" in heads[0]


@pytest.mark.parametrize(
    ("reply", "words", "permanent"),
    [
        (b"HTTP/1.1 407 No\r\n\r\n", "the proxy refused the credentials", True),
        (b"HTTP/1.1 503 No\r\n\r\n", "HTTP 503", False),
        (b"SSH-2.0-x\r\n\r\n", "the proxy's answer is not HTTP", False),
        (b"HTTP/1.1 200 " + b"x" * 200_000, "the proxy's answer is not HTTP", False),
        (b"", "the proxy's answer is not HTTP", False),
    ],
)
async def test_a_proxy_that_makes_no_tunnel_is_named(
    reply: bytes, words: str, permanent: bool
) -> None:
    async with proxy(reply) as (port, _):
        through = f"http://me:{SECRET}@127.0.0.1:{port}"
        error = await failure("http://localhost:1/acp", proxy=through, http2=True)
    assert words in str(error)
    assert error.permanent is permanent
    assert SECRET not in str(error)
    error = await failure("http://localhost:1/acp", proxy=through, http2=True)
    assert "the proxy does not answer (Connection refused)" in str(error)


async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    while await reader.read(65_536):
        pass


async def test_a_server_or_proxy_that_says_nothing_is_given_up() -> None:
    async with tcp_server(silent) as port:
        place = f"127.0.0.1:{port}"
        for url, options in (
            (f"https://{place}/acp", {}),
            ("https://localhost:1/acp", {"proxy": f"http://{place}"}),
            ("https://localhost:1/acp", {"proxy": f"https://{place}"}),
        ):
            error = await failure(url, connect_timeout=0.2, **options)
            assert "no complete answer within 0.2 s" in str(error)
            assert not error.permanent


async def test_a_host_that_does_not_exist_is_named() -> None:
    error = await failure("https://no-such-host.invalid/acp")
    assert "the host name cannot be resolved" in str(error)


# ------------------------------------------------------------------ the life of a connection


@pytest.mark.usefixtures("prior_knowledge")
class TestConnections:
    async def test_a_link_has_one_connection(self) -> None:
        async with serving() as agent, linked(agent, http2=True) as (link, _):
            for number in range(20):
                await link.send(request("session/prompt", f"s{number}", id=number))
            assert len(agent.peers) == 1

    async def test_a_server_that_goes_away_finishes_what_it_has(self) -> None:
        async with serving() as agent, linked(agent, http2=True) as (link, stream):
            agent.peers[0].go_away(stream.number)
            await stream.event(chunk(1))
            assert json.loads(await link.receive()) == chunk(1)
            await link.send(request("session/list", id=1))
            assert len(agent.peers) == 2
            await stream.event(chunk(2))
            assert json.loads(await link.receive()) == chunk(2)
            await stream.end()  # the first connection has no more to do, and the stream moves
            again = await agent.streams.get()
            assert again.peer is agent.peers[1]
            await again.event(chunk(3))
            assert json.loads(await link.receive()) == chunk(3)
            assert await asyncio.wait_for(agent.peers[0].reader.read(), 10) == b""

    @pytest.mark.parametrize("refusal", ["GOAWAY 0", "RESET 7"])
    async def test_a_message_that_was_not_processed_is_sent_once_more(self, refusal: str) -> None:
        async with serving() as agent, linked(agent, http2=True) as (link, stream):
            agent.replies["session/list"] = [refusal]
            await link.send(request("session/list", id=1))
            posts = [seen for seen in agent.seen if seen.method == "POST"]
            assert [post.body["id"] for post in posts] == [0, 1, 1]
            await stream.event(chunk(1))
            assert json.loads(await link.receive()) == chunk(1)
            agent.replies["session/list"] = [refusal, refusal]
            with pytest.raises(LinkLost, match="unknown whether the agent has it"):
                await link.send(request("session/list", id=2))

    @pytest.mark.parametrize(
        ("ending", "words"),
        [("RESET 2", r"ended the answer \(INTERNAL_ERROR\)"), ("RESET 999", "error 999")],
    )
    async def test_a_message_of_unknown_fate_ends_the_link(self, ending: str, words: str) -> None:
        async with serving() as agent, linked(agent, http2=True) as (link, _):
            agent.replies["session/list"] = [ending]
            with pytest.raises(LinkLost, match=f"{words}.*unknown whether the agent has it"):
                await link.send(request("session/list", id=1))
            assert [seen.method for seen in agent.seen].count("POST") == 2

    async def test_a_connection_that_ends_with_an_error_names_it(self) -> None:
        async with serving() as agent, linked(agent, http2=True) as (link, stream):
            await stream.event(chunk(1))
            agent.peers[0].go_away(stream.number, 11)
            assert json.loads(await link.receive()) == chunk(1)
            with pytest.raises(LinkLost, match=r"ended the connection \(ENHANCE_YOUR_CALM\)"):
                await link.receive()

    async def test_what_breaks_the_rules_ends_the_link_after_earlier_messages(self) -> None:
        async with serving() as agent, linked(agent, http2=True) as (link, stream):
            await stream.event(chunk(1))
            agent.peers[0].writer.write(b"\0\0\1\4\0\0\0\0\0x")  # settings of one byte
            assert json.loads(await link.receive()) == chunk(1)
            with pytest.raises(LinkLost, match=r"broke a rule of HTTP/2"):
                await link.receive()

    async def test_a_server_that_takes_few_requests_gets_more_connections(self) -> None:
        async with serving() as agent, linked(agent, http2=True) as (link, _):
            agent.peers[0].h2.update_settings({SettingCodes.MAX_CONCURRENT_STREAMS: 2})
            await agent.peers[0].flush()
            for number in range(5):
                await link.send(request("session/prompt", f"s{number}", id=number))
            assert len(agent.peers) >= 2
            assert len([seen for seen in agent.seen if seen.method == "POST"]) == 6

    async def test_a_message_larger_than_the_windows_is_sent_as_the_server_reads(self) -> None:
        async with serving() as agent, linked(agent, http2=True) as (link, _):
            await link.send(request("session/list", id=1, text="x" * 3_000_000))
            await agent.posts.get()
            assert len(agent.seen[-1].body["params"]["text"]) == 3_000_000

    async def test_no_stream_and_no_task_are_left_when_a_request_is_cancelled(self) -> None:
        async with serving() as agent:
            agent.hold = "initialize"
            link = await HttpConnector(agent.url, http2=True).connect()
            sending = asyncio.create_task(link.send(INITIALIZE))
            while not agent.seen:
                await asyncio.sleep(0)
            await link.close(timeout=0)
            with pytest.raises(LinkLost):
                await sending


# ------------------------------------------------------------------ one connection, scripted


Script = Callable[[Peer], Awaitable[None]]
GET = [(":method", "GET"), (":scheme", "http"), (":authority", "x"), (":path", "/")]
POST = [(":method", "POST"), *GET[1:]]
OK = [(":status", "200")]


def shrink(writer: asyncio.StreamWriter, which: int) -> None:
    """Let the system keep less than it would."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, which, 4096)


@asynccontextmanager
async def connected(script: Script, *, smaller: bool = False) -> AsyncIterator[Http2Connection]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await script(Peer(reader, writer))

    async with tcp_server(handle) as port:
        pipe = await asyncio.open_connection("127.0.0.1", port)
        if smaller:
            shrink(pipe[1], socket.SO_SNDBUF)
        connection = Http2Connection(pipe)
        reading = asyncio.create_task(connection.run())
        try:
            yield connection
        finally:
            connection.close()
            await reading


async def test_a_body_that_is_not_read_holds_its_sender_and_nothing_else() -> None:
    sent: dict[int, int] = {}
    tasks: list[asyncio.Task[None]] = []
    held = asyncio.Event()

    async def flood(peer: Peer, number: int) -> None:
        sent[number] = 0
        while sent[number] < 8_000_000:
            await peer.send(number, b"x" * 1000)
            sent[number] += 1000
            if peer.window(number) < 1000:
                held.set()
        await peer.send(number, b"", ends=True)

    async def script(peer: Peer) -> None:
        async for event in peer.events():
            if isinstance(event, events.RequestReceived):
                peer.h2.send_headers(event.stream_id, OK)
                tasks.append(asyncio.create_task(flood(peer, event.stream_id)))

    async with connected(script) as connection:
        first = await connection.request(GET, None)
        await asyncio.wait_for(held.wait(), 30)
        second = await connection.request(GET, None)
        size = 0
        while data := await second.read():
            size += len(data)
        assert size == 8_000_000
        assert sent[first.number] <= 256 * 1024  # what this side keeps at most
        size = 0
        while data := await first.read():
            size += len(data)
        assert size == 8_000_000
    await asyncio.gather(*tasks)


async def test_bodies_that_are_given_up_do_not_use_up_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arcp_client.acp._http.http2_connection._WHOLE_WINDOW", 300_000)

    async def script(peer: Peer) -> None:
        async for event in peer.events():
            if isinstance(event, events.RequestReceived):
                peer.h2.send_headers(event.stream_id, OK)
                for _ in range(4):
                    peer.h2.send_data(event.stream_id, b"x" * 16_000, pad_length=200)

    async with connected(script) as connection:
        for _ in range(50):
            response = await connection.request(GET, None)
            assert await response.read()
            response.close()


async def test_a_server_that_refuses_a_body_need_not_read_it() -> None:
    async def script(peer: Peer) -> None:
        async for event in peer.events():
            if isinstance(event, events.RequestReceived):
                peer.h2.send_headers(event.stream_id, [(":status", "413")])

    async with connected(script) as connection:
        response = await connection.request(POST, b"x" * 1_000_000)
        assert response.status == 413
        response.close()


@pytest.mark.parametrize("size", [70_000, 3_000_000])
async def test_headers_have_a_limit(size: int) -> None:
    async def script(peer: Peer) -> None:
        async for event in peer.events():
            if isinstance(event, events.RequestReceived):
                for number in range(size // 1000):
                    pair = (f"x-{number}", "v" * 1000)
                    OK_AND_MORE.append(pair)
                peer.h2.send_headers(event.stream_id, OK_AND_MORE)

    OK_AND_MORE = list(OK)
    async with connected(script) as connection:
        with pytest.raises(HttpFailed, match="broke a rule of HTTP/2"):
            await connection.request(GET, None)


async def test_answers_that_the_server_does_not_read_have_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("arcp_client.acp._http.http2_connection._UNSENT", 100_000)

    async def script(peer: Peer) -> None:
        shrink(peer.writer, socket.SO_RCVBUF)
        peer.h2.initiate_connection()
        await peer.flush()
        while True:
            peer.writer.write(b"\0\0\x08\6\0\0\0\0\x0012345678" * 1000)
            await peer.writer.drain()

    async with connected(script, smaller=True) as connection:
        with pytest.raises(HttpFailed, match="faster than it reads the answers"):
            await connection.request(GET, None)


async def test_pings_are_answered_while_no_body_is_read() -> None:
    answered = asyncio.Event()

    async def script(peer: Peer) -> None:
        async for event in peer.events():
            match event:
                case events.RequestReceived():
                    peer.h2.send_headers(event.stream_id, OK)
                    peer.h2.send_data(event.stream_id, b"x")
                    peer.h2.ping(b"12345678")
                case events.PingAckReceived():
                    answered.set()

    async with connected(script) as connection:
        await connection.request(GET, None)
        await asyncio.wait_for(answered.wait(), 30)


def recorded(*, padding: int = 0) -> tuple[bytes, bytes]:
    """What a server sends for one request, and the body in it."""
    config = H2Configuration(client_side=False)
    server = H2Connection(config)
    client = H2Connection(H2Configuration(client_side=True))
    client.initiate_connection()
    client.send_headers(1, GET, end_stream=True)
    server.initiate_connection()
    server.receive_data(client.data_to_send())
    server.send_headers(1, [*OK, ("set-cookie", "a=b")])
    body = b"".join(b"data: %d\n\n" % number for number in range(6))
    for start in range(0, len(body), 10):
        server.send_data(1, body[start : start + 10], pad_length=padding or None)
    server.ping(b"12345678")
    server.end_stream(1)
    return server.data_to_send(), body


def replay(data: bytes) -> Script:
    """Send bytes once the client has sent its request, and end the connection."""

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"SM\r\n\r\n")
        peer.writer.write(data)
        peer.writer.write_eof()
        while await peer.reader.read(65_536):
            pass

    return script


async def answer_of(connection: Http2Connection) -> tuple[bytes, bool]:
    """The bytes that were read of an answer, and whether it was whole."""
    got = b""
    try:
        response = await connection.request(GET, None)
        try:
            while data := await response.read():
                got += data
        finally:
            response.close()
    except HttpFailed:
        return got, False
    return got, True


@pytest.mark.parametrize("padding", [0, 7])
async def test_a_connection_cut_at_any_byte_gives_what_arrived_and_then_the_loss(
    padding: int,
) -> None:
    data, body = recorded(padding=padding)
    lengths = []
    for cut in range(len(data) + 1):
        async with connected(replay(data[:cut])) as connection:
            got, whole = await asyncio.wait_for(answer_of(connection), 30)
        assert body.startswith(got)
        assert whole == (cut == len(data))
        lengths.append(len(got))
    assert lengths == sorted(lengths)
    assert lengths[-1] == len(body)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_whatever_a_server_sends_ends_in_an_answer_or_in_one_kind_of_error(
    choose: st.DataObject,
) -> None:
    data, _ = recorded()
    changed = bytearray(data)
    for _ in range(choose.draw(st.integers(1, 3))):
        place = choose.draw(st.integers(0, len(changed) - 1))
        size = choose.draw(st.integers(0, 4))
        changed[place : place + size] = choose.draw(st.binary(max_size=12))

    async def run() -> None:
        async with connected(replay(bytes(changed))) as connection:
            await asyncio.wait_for(answer_of(connection), 30)

    asyncio.run(run())


@pytest.mark.parametrize("status", ["abc", "", "-1"])
async def test_a_status_that_is_no_number_breaks_the_rules(status: str) -> None:
    async def script(peer: Peer) -> None:
        peer.h2.config.validate_outbound_headers = False
        async for event in peer.events():
            if isinstance(event, events.RequestReceived):
                peer.h2.send_headers(event.stream_id, [(":status", status)])

    async with connected(script) as connection:
        with pytest.raises(HttpFailed, match="broke a rule of HTTP/2"):
            await connection.request(GET, None)


# ------------------------------------------------------------------ frames


def test_frames_are_found_wherever_the_bytes_are_cut() -> None:
    data = b"\0\0\0\4\0\0\0\0\0"
    data += b"\0\0\x08\7\0\0\0\0\0" + b"\xff\xff\xff\xff\0\0\0\2" + b"\0\0\3\0\0\0\0\0\1abc"
    whole = [data[:9], GoAway(0x7FFF_FFFF, 2), data[26:]]
    for cut in range(len(data) + 1):
        buffer, found = bytearray(), []
        for piece in (data[:cut], data[cut:]):
            buffer += piece
            found += split_frames(buffer, first=not found)
        assert found == whole
        assert not buffer


def test_a_frame_that_is_too_large_is_passed_on_in_parts() -> None:
    buffer = bytearray(b"\xff\xff\xff\0\0\0\0\0\1x")
    assert list(split_frames(buffer, first=False)) == [b"\xff\xff\xff\0\0\0\0\0\1x"]
    assert not buffer


def test_an_answer_of_http_1_is_known_by_its_first_bytes() -> None:
    with pytest.raises(Http1Answer):
        list(split_frames(bytearray(b"HTTP/1.1 400 Bad Request\r\n"), first=True))


# ------------------------------------------------------------------ the extra


def test_nothing_imports_h2_that_does_not_speak_http_2() -> None:
    program = (
        "import sys, arcp_client, arcp_client.acp\n"
        "arcp_client.acp.HttpConnector('https://localhost/acp')\n"
        "assert not {'h2', 'hpack', 'hyperframe', 'httpx'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
