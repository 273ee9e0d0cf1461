"""What a WebSocket link does with the frames, ends and delays of a peer."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress

import aiohttp
import pytest

from arcp_client.errors import LinkLost, RemoteProtocolError
from arcp_client.transports import WebSocketConnector, WebSocketTransport
from tests.unit.transports.kit import nothing_left, websocket_server
from tests.unit.transports.raw import (
    BINARY,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    RawSocket,
    close,
    frame,
    raw_server,
)


async def after_all(link: WebSocketTransport) -> LinkLost:
    try:
        while True:
            await link.receive()
    except LinkLost as lost:
        await link.close()
        return lost


async def end_of(*frames: bytes, **options: int) -> LinkLost:
    """How a link ends whose server sends these frames and then closes the connection."""

    async def serve(ws: RawSocket) -> None:
        await ws.send(*frames)
        ws.writer.write_eof()
        await ws.reader.read()

    async with raw_server(serve) as url:
        return await after_all(await WebSocketConnector(url, **options).connect())


# ------------------------------------------------------------------ frames


async def test_a_message_in_seven_fragments_with_a_ping_between_them_is_one_frame() -> None:
    whole = '{"text":"h\u00e9llo \U0001f600 \u2028"}'.encode()
    pieces = [whole[n * 4 : n * 4 + 4] for n in range(6)] + [whole[24:]]

    async def serve(ws: RawSocket) -> None:
        await ws.send(frame(TEXT, pieces[0], fin=False))
        for piece in pieces[1:-1]:
            await ws.send(frame(CONTINUATION, piece, fin=False), frame(PING, b"?"))
        await ws.send(frame(CONTINUATION, pieces[-1]))
        await ws.receive_close()
        await ws.send(close(1000))

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        assert await link.receive() == whole
        await link.close()


async def test_a_frame_that_arrives_byte_by_byte_is_whole() -> None:
    text = '{"a":"\u4e2d\U0001f600"}'.encode()

    async def serve(ws: RawSocket) -> None:
        for byte in frame(TEXT, text):
            await ws.send(bytes([byte]))
            await asyncio.sleep(0)
        await ws.receive_close()

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        assert await link.receive() == text
        await link.close()


async def test_a_binary_message_with_utf8_is_a_frame_and_another_one_is_reported_and_dropped() -> (
    None
):
    async def serve(ws: RawSocket) -> None:
        await ws.send(
            frame(BINARY, b'{"a":1}'), frame(BINARY, b"\xff\xfe{}"), frame(TEXT, b'{"b":2}')
        )
        await ws.receive_close()
        await ws.send(close(1000))

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        assert await link.receive() == b'{"a":1}'
        with pytest.raises(RemoteProtocolError) as caught:
            await link.receive()
        assert (caught.value.size, caught.value.head) == (4, r"\\xff\\xfe{}")
        assert await link.receive() == b'{"b":2}'
        await link.close()


async def test_frames_go_out_as_text_because_some_peers_take_no_binary_ones() -> None:
    got: list[tuple[int, bytes]] = []

    async def serve(ws: RawSocket) -> None:
        got.append(await ws.receive())
        await ws.receive_close()
        await ws.send(close(1000))

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        await link.send('{"ä":1}'.encode())
        await link.close()
    assert got == [(TEXT, '{"ä":1}'.encode())]


# ------------------------------------------------------------------ pings


async def test_a_ping_is_answered_with_its_own_payload_while_receive_waits() -> None:
    pongs: list[tuple[int, bytes]] = []

    async def serve(ws: RawSocket) -> None:
        for n in range(3):
            await ws.send(frame(PING, b"%d" % n))
            pongs.append(await ws.receive())
        await ws.send(frame(PONG, b"unasked"), frame(TEXT, b"{}"))
        await ws.receive_close()
        await ws.send(close(1000))

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        assert await link.receive() == b"{}"
        await link.close()
    assert pongs == [(PONG, b"0"), (PONG, b"1"), (PONG, b"2")]


async def test_pings_of_a_peer_that_reads_nothing_do_not_pile_up_answers() -> None:
    flooded, read_on = asyncio.Event(), asyncio.Event()
    pongs: list[bytes] = []

    async def serve(ws: RawSocket) -> None:
        await ws.receive()
        await ws.send(*(frame(PING, b"%d" % n) for n in range(2000)), frame(TEXT, b"flooded"))
        await read_on.wait()
        while True:
            opcode, payload = await ws.receive()
            if opcode == PONG:
                pongs.append(payload)
            if payload == b"last":
                break
        await ws.receive_close()
        await ws.send(close(1000))

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        await link.send(b"start")
        sender = asyncio.create_task(link.send(b"x" * 16_000_000))
        assert await link.receive() == b"flooded"
        flooded.set()
        assert not sender.done()
        read_on.set()
        await sender
        await link.send(b"last")
        await link.close()
    assert pongs == [b"1999"]


# ------------------------------------------------------------------ ends


async def test_the_peers_close_code_and_reason_are_in_the_error() -> None:
    lost = await end_of(frame(TEXT, b"{}"), close(4001, "bye now"))
    assert lost.close_code == 4001
    assert "closed the link with code 4001 ('bye now')" in str(lost)


async def test_a_close_frame_without_a_code_counts_as_1005() -> None:
    assert (await end_of(frame(8))).close_code == 1005


async def test_a_connection_that_ends_without_a_close_frame_counts_as_1006_and_not_as_normal() -> (
    None
):
    lost = await end_of(frame(TEXT, b"{}"))
    assert lost.close_code == 1006
    assert "without a close frame" in str(lost)


async def test_a_reset_connection_counts_as_1006() -> None:
    async def serve(ws: RawSocket) -> None:
        ws.writer.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0"
        )

    async with raw_server(serve) as url:
        assert (await after_all(await WebSocketConnector(url).connect())).close_code == 1006


async def test_what_arrived_before_a_loss_is_received_before_it_is_reported() -> None:
    async def serve(ws: RawSocket) -> None:
        await ws.send(*(frame(TEXT, b"%d" % n) for n in range(1000)))

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        with suppress(LinkLost):
            while True:  # until the loss is noticed by the writing side
                await link.send(b"x" * 1000)
                await asyncio.sleep(0)
        assert [await link.receive() for _ in range(1000)] == [b"%d" % n for n in range(1000)]
        with pytest.raises(LinkLost):
            await link.receive()
        await link.close()


async def test_a_frame_over_the_limit_names_this_side_and_its_limit() -> None:
    lost = await end_of(frame(TEXT, b"x" * 10, size=1001), max_frame=1000)
    assert lost.close_code == 1009
    assert "sent a frame over this side's limit of 1000 bytes" in str(lost)


async def test_the_peer_is_told_1009_when_its_frame_is_too_large() -> None:
    codes: list[int] = []

    async def serve(ws: RawSocket) -> None:
        await ws.send(frame(TEXT, b"x" * 1001))
        codes.append(await ws.receive_close())

    async with raw_server(serve) as url:
        await after_all(await WebSocketConnector(url, max_frame=1000).connect())
        await asyncio.sleep(0)
    assert codes == [1009]


async def test_a_close_with_1009_names_the_peers_limit_and_the_largest_frame_sent() -> None:
    async def serve(ws: RawSocket) -> None:
        await ws.receive()
        await ws.send(close(1009, "too big"))
        await ws.reader.read()

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        await link.send(b"x" * 5000)
        lost = await after_all(link)
    assert lost.close_code == 1009
    assert "over the peer's limit (the largest sent has 5000 bytes)" in str(lost)


async def test_a_peer_that_breaks_the_protocol_is_named_as_the_one_at_fault() -> None:
    lost = await end_of(frame(3, b"{}"))
    assert lost.close_code == 1002
    assert "broke the WebSocket protocol" in str(lost)


# ------------------------------------------------------------------ closing


async def test_closing_after_a_cancelled_receive_is_still_an_orderly_goodbye() -> None:
    async with websocket_server() as server:
        near = await WebSocketConnector(server.url).connect()
        far = await server.accepted()
        call = asyncio.create_task(near.receive())
        await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait({call})
        for n in range(100):
            await far.send(b"x" * 1000)  # unread when the client closes
            await near.send(b"%d" % n)
        closing = asyncio.create_task(near.close())
        assert [await far.receive() for _ in range(100)] == [b"%d" % n for n in range(100)]
        with pytest.raises(LinkLost) as caught:
            await far.receive()
        assert caught.value.close_code == 1000
        await closing


async def test_a_close_ends_though_the_peer_keeps_sending_and_never_answers() -> None:
    with nothing_left():

        async def serve(ws: RawSocket) -> None:
            while True:
                await ws.send(frame(TEXT, b"{}") * 100)

        async with raw_server(serve) as url:
            link = await WebSocketConnector(url).connect()
            await link.receive()
            await link.close(timeout=0.1)


async def test_a_close_ends_though_the_peer_never_answers_the_close_frame() -> None:
    with nothing_left():

        async def serve(ws: RawSocket) -> None:
            await ws.receive_close()
            await ws.reader.read()

        async with raw_server(serve) as url:
            link = await WebSocketConnector(url).connect()
            call = asyncio.create_task(link.receive())
            await asyncio.sleep(0)
            await link.close(timeout=0.1)
            with pytest.raises(LinkLost, match="closed by this side"):
                await call


async def test_a_task_inside_receive_gets_what_comes_before_the_peers_goodbye() -> None:
    async def serve(ws: RawSocket) -> None:
        await ws.receive_close()
        await ws.send(frame(TEXT, b"late"), frame(TEXT, b"later"), close(1000))

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        call = asyncio.create_task(link.receive())
        await asyncio.sleep(0)
        await link.close()
        assert await call == b"late"


@pytest.mark.parametrize("first", ["theirs", "ours"])
async def test_why_a_link_ended_is_told_whoever_closes_first(first: str) -> None:
    async def serve(ws: RawSocket) -> None:
        if first == "ours":
            await ws.receive_close()
        await ws.send(close(4001, "bye now"))
        if first == "theirs":
            await ws.receive_close()

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        call = asyncio.create_task(link.receive())
        await asyncio.sleep(0)
        if first == "theirs":
            await asyncio.wait({call})
        await link.close(timeout=2.0)
        with pytest.raises(LinkLost) as lost:
            await call
        if first == "theirs":
            assert lost.value.close_code == 4001
            assert "bye now" in str(lost.value)
        else:
            assert "closed by this side" in str(lost.value)


async def test_a_link_may_be_opened_used_and_closed_by_different_tasks_in_any_order() -> None:
    async with websocket_server() as server:
        connector = WebSocketConnector(server.url)
        a, b = [await asyncio.create_task(connector.connect()) for _ in range(2)]
        await asyncio.create_task(a.send(b"a"))
        await asyncio.create_task(a.close(timeout=0.2))
        await asyncio.create_task(b.send(b"b"))
        await asyncio.create_task(b.close(timeout=0.2))


@pytest.mark.parametrize("first", ["receive", "receive_many"])
@pytest.mark.parametrize("second", ["receive", "receive_many"])
async def test_a_second_receive_at_the_same_time_is_refused_and_harmless(
    first: str, second: str
) -> None:
    taken: list[bytes] = []

    async def read(near: WebSocketTransport, how: str) -> None:
        if how == "receive":
            taken.append(await near.receive())
        else:
            taken.extend(await near.receive_many(1))

    async with websocket_server() as server:
        near = await WebSocketConnector(server.url).connect()
        far = await server.accepted()
        call = asyncio.create_task(read(near, first))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already inside receive"):
            await read(near, second)
        await far.send(b"{}")
        await call
        assert taken == [b"{}"]
        await asyncio.gather(near.close(), far.close())


async def test_a_hundred_times_three_concurrent_closes_with_frames_in_flight() -> None:
    async with websocket_server() as server:
        connector = WebSocketConnector(server.url)
        for n in range(100):
            near = await connector.connect()
            far = await server.accepted()
            call = asyncio.create_task(near.receive())
            await far.send(b"{}")
            for _ in range(n % 7):
                await asyncio.sleep(0)
            await asyncio.gather(
                *(near.close() for _ in range(3)), *(far.close() for _ in range(3))
            )
            await asyncio.wait({call})
            assert call.exception() is None or isinstance(call.exception(), LinkLost)


# ------------------------------------------------------------------ the socket


async def test_tcp_keepalive_watches_the_connection() -> None:
    made: list[socket.socket] = []

    def make(
        address: tuple[socket.AddressFamily, socket.SocketKind, int, str, tuple[object, ...]],
    ) -> socket.socket:
        made.append(socket.socket(address[0], address[1], address[2]))
        return made[-1]

    tcp = aiohttp.TCPConnector(socket_factory=make)  # type: ignore[arg-type]
    async with websocket_server() as server, aiohttp.ClientSession(connector=tcp) as session:
        link = await WebSocketConnector(server.url, session=session).connect()
        assert made[0].getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert made[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 30
        await asyncio.gather(link.close(), (await server.accepted()).close())


async def test_a_frame_is_sent_at_once_or_left_to_send() -> None:
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(ws: RawSocket) -> None:
        with suppress(asyncio.IncompleteReadError):
            while True:
                _, payload = await ws.receive()
                got.put_nowait(payload)

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url, max_frame=1000).connect()
        assert link.send_now(b'"first"')
        assert not link.send_now(b"x" * 1001)
        await link.send(b'"second"')
        assert [await got.get(), await got.get()] == [b'"first"', b'"second"']
        await link.close()
        assert not link.send_now(b'"late"')


async def test_a_peer_that_does_not_read_leaves_frames_to_send() -> None:
    async def serve(ws: RawSocket) -> None:
        await asyncio.Event().wait()

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        sent = 0
        while link.send_now(b'"' + b"x" * 60_000 + b'"'):
            sent += 1
            assert sent < 1000  # 60 MB: no socket buffer holds as much
        await link.close(timeout=0.1)
