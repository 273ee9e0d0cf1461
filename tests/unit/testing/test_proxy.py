"""What a proxy does to the connections that go through it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest

from arcp_client.errors import ConnectFailed, LinkLost
from arcp_client.testing import FaultyProxy, VirtualClock, port_of
from arcp_client.transports import WebSocketConnector, WebSocketTransport
from tests.unit.transports.kit import Server, websocket_server
from tests.unit.transports.raw import tcp_server

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with websocket_server() as server:
        yield server


@pytest.fixture
async def proxy(server: Server) -> AsyncIterator[FaultyProxy]:
    async with FaultyProxy.for_url(server.url) as proxy:
        yield proxy


async def linked(
    proxy: FaultyProxy, server: Server
) -> tuple[WebSocketTransport, WebSocketTransport]:
    near = await WebSocketConnector(proxy.url).connect()
    return near, await server.accepted()


async def say(one: WebSocketTransport, other: WebSocketTransport) -> None:
    await one.send(b"{}")
    assert await other.receive() == b"{}"


async def bytes_of(size: int) -> AsyncIterator[int]:
    """A server that sends so many bytes to each connection and then waits."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(bytes(n % 251 for n in range(size)))
        await writer.drain()
        await reader.read()

    async with tcp_server(handle) as port:
        yield port


async def everything(port: int) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        return await reader.read()
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


# ------------------------------------------------------------------ without a fault


async def test_its_url_is_the_targets_with_its_own_port(proxy: FaultyProxy, server: Server) -> None:
    assert proxy.url == f"ws://127.0.0.1:{proxy.port}/arcp"
    assert proxy.port != port_of(server.url)


async def test_it_may_be_given_a_host_and_a_port(server: Server) -> None:
    async with FaultyProxy("127.0.0.1", port_of(server.url)) as proxy:
        assert proxy.url == f"ws://{proxy.host}:{proxy.port}/arcp"
        near = await WebSocketConnector(proxy.url).connect()
        await say(near, await server.accepted())
        await near.close(timeout=0.1)


def test_a_host_without_a_port_is_refused() -> None:
    with pytest.raises(TypeError, match="host and a port"):
        FaultyProxy("127.0.0.1")


def test_the_port_of_a_url_may_be_the_default_of_its_scheme() -> None:
    assert [port_of(url) for url in ("ws://h/x", "wss://h", "http://h:8080")] == [80, 443, 8080]
    with pytest.raises(ValueError, match="no port in tcp://h"):
        port_of("tcp://h")


async def test_a_megabyte_passes_in_both_directions_and_is_counted(
    proxy: FaultyProxy, server: Server
) -> None:
    near, far = await linked(proxy, server)
    for one, other in ((near, far), (far, near)):
        sending = asyncio.create_task(one.send(b"x" * 1_000_000))
        assert len(await other.receive()) == 1_000_000
        await sending
    assert proxy.bytes_up > 1_000_000
    assert proxy.bytes_down > 1_000_000
    assert (proxy.connections, proxy.open_connections, proxy.cuts) == (1, 1, 0)
    await asyncio.gather(near.close(), far.close())
    await proxy.until(lambda p: p.open_connections == 0)


async def test_a_goodbye_passes_with_its_code(proxy: FaultyProxy, server: Server) -> None:
    near, far = await linked(proxy, server)
    closing = asyncio.create_task(far.close())
    with pytest.raises(LinkLost) as caught:
        await near.receive()
    assert caught.value.close_code == 1000
    await closing
    await near.close()


async def test_a_peer_that_does_not_read_holds_the_other_one_back(
    proxy: FaultyProxy, server: Server
) -> None:
    near, far = await linked(proxy, server)

    async def flood() -> None:
        for _ in range(64):
            await near.send(b"x" * 1_000_000)

    sending = asyncio.create_task(flood())
    for _ in range(300):
        await say(far, near)
    assert not sending.done()
    for _ in range(64):
        await far.receive()
    await sending
    await asyncio.gather(near.close(), far.close())


# ------------------------------------------------------------------ cuts


async def test_a_cut_ends_both_sides_without_a_goodbye(proxy: FaultyProxy, server: Server) -> None:
    near, far = await linked(proxy, server)
    await near.send(b"on the way")
    assert await far.receive() == b"on the way"
    await proxy.cut()
    assert (proxy.cuts, proxy.open_connections) == (1, 0)
    for end in (near, far):
        with pytest.raises(LinkLost) as caught:
            await end.receive()
        assert caught.value.close_code == 1006
        await end.close()


async def test_a_cut_need_not_be_awaited_and_new_connections_work(
    proxy: FaultyProxy, server: Server
) -> None:
    for _ in range(3):
        near, far = await linked(proxy, server)
        await say(near, far)
        proxy.cut()
        with pytest.raises(LinkLost):
            await near.receive()
        await near.close()
    assert (proxy.connections, proxy.cuts) == (3, 3)


async def test_a_cut_ends_a_connection_that_does_not_reach_the_server_yet(
    proxy: FaultyProxy,
) -> None:
    waiting = asyncio.create_task(everything(proxy.port))
    await proxy.until(lambda p: p.connections == 1)
    assert proxy.open_connections == 1
    await proxy.cut()
    assert (proxy.cuts, proxy.open_connections) == (1, 0)
    assert await waiting == b""


async def test_a_cut_ends_a_connection_that_is_never_answered(proxy: FaultyProxy) -> None:
    with proxy.silent_accept():
        waiting = asyncio.create_task(everything(proxy.port))
        await proxy.until(lambda p: p.connections == 1)
        await proxy.cut()
        assert await waiting == b""
    assert proxy.cuts == 1


@pytest.mark.parametrize("size", [0, 1, 1000, 16_384, 100_001])
async def test_exactly_so_many_bytes_arrive_before_a_cut(size: int) -> None:
    async for port in bytes_of(200_000):
        async with FaultyProxy("127.0.0.1", port) as proxy:
            proxy.cut_after(size)
            got = await everything(proxy.port)
            assert got == bytes(n % 251 for n in range(size))
            assert (proxy.bytes_down, proxy.cuts) == (size, 1)


async def test_several_cuts_queue_one_for_each_connection() -> None:
    async for port in bytes_of(1000):
        async with FaultyProxy("127.0.0.1", port) as proxy:
            for size in (100, 5, 700):
                proxy.cut_after(size)
            assert [len(await everything(proxy.port)) for _ in range(3)] == [100, 5, 700]
            assert proxy.cuts == 3


async def test_a_cut_may_count_what_the_client_sends() -> None:
    arrived: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        arrived.append(await reader.read())

    async with tcp_server(handle) as port, FaultyProxy("127.0.0.1", port) as proxy:
        proxy.cut_after(10, direction="up")
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"0123456789abcdef")
        await proxy.until(lambda p: p.cuts == 1)
        writer.close()
        await proxy.until(lambda p: p.open_connections == 0)
    assert arrived == [b"0123456789"]


async def test_a_reset_reaches_both_sides_as_one() -> None:
    ends: list[BaseException | bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"x")
        try:
            ends.append(await reader.read())
        except ConnectionResetError as error:
            ends.append(error)

    async with tcp_server(handle) as port, FaultyProxy("127.0.0.1", port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        assert await reader.readexactly(1) == b"x"
        await proxy.reset()
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        assert proxy.cuts == 1
        for _ in range(100):
            await asyncio.sleep(0)
    assert [type(end) for end in ends] == [ConnectionResetError]


async def test_a_reset_by_one_side_is_passed_on_to_the_other() -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        writer.get_extra_info("socket").setsockopt(1, 13, b"\1\0\0\0\0\0\0\0")  # SO_LINGER

    async with tcp_server(handle) as port, FaultyProxy("127.0.0.1", port) as proxy:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(b"x")
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()


# ------------------------------------------------------------------ faults that last


async def test_nothing_moves_during_a_stall_and_everything_arrives_after_it(
    proxy: FaultyProxy, server: Server
) -> None:
    near, far = await linked(proxy, server)
    with proxy.stall():
        up, down = proxy.bytes_up, proxy.bytes_down
        await near.send(b"up")
        await far.send(b"down")
        near_got, far_got = (asyncio.create_task(end.receive()) for end in (near, far))
        other = await asyncio.open_connection("127.0.0.1", proxy.port)
        await proxy.until(lambda p: p.connections == 2)
        other[1].close()
        assert not near_got.done()
        assert not far_got.done()
        assert (proxy.bytes_up, proxy.bytes_down) == (up, down)
    assert (await far_got, await near_got) == (b"up", b"down")
    await asyncio.gather(near.close(), far.close())


async def test_a_half_open_connection_carries_one_direction(
    proxy: FaultyProxy, server: Server
) -> None:
    near, far = await linked(proxy, server)
    async with proxy.half_open("down"):
        await far.send(b"down")
        waiting = asyncio.create_task(near.receive())
        for _ in range(50):
            await say(near, far)
        assert not waiting.done()
    assert await waiting == b"down"
    await asyncio.gather(near.close(), far.close())


async def test_stalls_may_be_nested(proxy: FaultyProxy, server: Server) -> None:
    near, far = await linked(proxy, server)
    with proxy.stall():
        with proxy.half_open("up"):
            await near.send(b"{}")
        assert proxy.open_connections == 1
        waiting = asyncio.create_task(far.receive())
        await asyncio.sleep(0)
        assert not waiting.done()
    assert await waiting == b"{}"
    await asyncio.gather(near.close(), far.close())


async def test_a_stalled_connection_can_be_cut(proxy: FaultyProxy, server: Server) -> None:
    near, far = await linked(proxy, server)
    with proxy.stall():
        await far.send(b"never arrives")
        proxy.cut()
        with pytest.raises(LinkLost):
            await near.receive()
    await near.close()


async def test_a_delay_is_a_delay_of_everything_and_not_a_loss_of_speed(
    clock: VirtualClock, server: Server
) -> None:
    async with FaultyProxy(server.url) as proxy:
        near, far = await linked(proxy, server)
        with proxy.delay(60.0):
            for n in range(10):
                await near.send(b"%d" % n)
            assert [await far.receive() for _ in range(10)] == [b"%d" % n for n in range(10)]
        assert 60 <= clock.time() < 70
        proxy.cut()
        await asyncio.gather(near.close(timeout=0), far.close(timeout=0))


async def test_a_throttle_spreads_bytes_over_time(clock: VirtualClock, server: Server) -> None:
    async with FaultyProxy(server.url) as proxy:
        near, far = await linked(proxy, server)
        with proxy.throttle(1000):
            await near.send(b"x" * 6_000)
            assert len(await far.receive()) == 6_000
        assert clock.time() == pytest.approx(6, rel=0.1)
        proxy.cut()
        await asyncio.gather(near.close(timeout=0), far.close(timeout=0))


async def test_new_connections_are_refused_while_open_ones_go_on(
    proxy: FaultyProxy, server: Server
) -> None:
    near, far = await linked(proxy, server)
    port = proxy.port
    with proxy.refuse():
        with pytest.raises(ConnectFailed, match="Connection refused") as caught:
            await WebSocketConnector(proxy.url).connect()
        assert not caught.value.permanent
        await say(near, far)
    assert proxy.port == port
    other = await linked(proxy, server)
    await say(*other)
    await asyncio.gather(*(end.close() for end in (near, far, *other)))


async def test_a_silent_proxy_accepts_and_never_answers(proxy: FaultyProxy, server: Server) -> None:
    with proxy.silent_accept():
        connecting = WebSocketConnector(proxy.url, connect_timeout=0.1).connect()
        with pytest.raises(ConnectFailed, match="no complete answer"):
            await connecting
        assert proxy.connections == 1
    near, far = await linked(proxy, server)
    await say(near, far)
    await asyncio.gather(near.close(), far.close())


async def test_a_server_that_is_down_is_a_connection_that_ends_at_once() -> None:
    async with tcp_server(_nothing) as port:
        pass
    async with FaultyProxy("127.0.0.1", port) as proxy:
        assert await everything(proxy.port) == b""


async def _nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    pass


async def test_leaving_the_proxy_ends_what_is_open(server: Server) -> None:
    async with FaultyProxy(server.url) as proxy:
        near, far = await linked(proxy, server)
    for end in (near, far):
        with pytest.raises(LinkLost):
            await end.receive()
        await end.close()
