"""Connections of unknown clients are few, small and short, and make room for newcomers."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from arcp_client import _connection_limits, _listener
from arcp_client._connection_limits import (
    ConnectionLimits,
    ConnectionTable,
    LimitedProtocol,
    limited,
)
from arcp_client._listener import Listener
from tests.unit.runtime.certificate import server_context, trusting

LOG = logging.getLogger("test.http")
SOON = 30.0
FRESH = 2.0
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Dropped(list[str]):
    """The names of the connections that were dropped."""

    def of(self, name: str) -> Callable[[], None]:
        return lambda: self.append(name)


# ------------------------------------------------------------------------- the table


@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["come", "settle", "end", "wait"]), st.integers(0, 4)),
        max_size=60,
    ),
    total=st.integers(1, 8),
    per_address=st.integers(1, 8),
    opening=st.integers(1, 8),
    opening_per_address=st.integers(1, 8),
)
def test_no_count_is_ever_exceeded_and_none_is_left(
    steps: list[tuple[str, int]],
    total: int,
    per_address: int,
    opening: int,
    opening_per_address: int,
) -> None:
    limits = ConnectionLimits(
        total=total,
        per_address=per_address,
        opening=opening,
        opening_per_address=opening_per_address,
    )
    table = ConnectionTable(limits)
    here: dict[object, str] = {}  # slot: address
    open_: dict[object, float] = {}  # slot: when it came
    dropped: list[list[object]] = []
    now = 0.0
    for what, number in steps:
        if what == "wait":
            now += number / 2
        elif what == "come":
            address = f"10.0.0.{number % 3}"
            box: list[object] = []
            gone: list[object] = []
            dropped.append(gone)

            def drop(box: list[object] = box) -> None:
                dropped[-1].append(box[0])

            slot = table.admit(address, drop, now=now)
            for each in gone:
                assert each in open_, "one whose client is known was dropped"
                if now - open_.pop(each) < FRESH:
                    assert here[each] != address, "a fresh one of the same address was dropped"
                    assert len(here) >= total, "a fresh one was dropped though there was room"
                del here[each]
            if slot is None:
                kept = Counter(
                    here[each] for each in here if each not in open_ or now - open_[each] < FRESH
                )
                assert kept.total() >= total or kept[address] >= per_address
            else:
                box.append(slot)
                here[slot] = address
                open_[slot] = now
        elif here:
            slot = list(here)[number % len(here)]  # type: ignore[assignment]
            assert slot is not None
            if what == "settle":
                table.settled(slot)
            else:
                table.ended(slot)
                table.ended(slot)
                del here[slot]
            open_.pop(slot, None)
        counted = Counter(here.values())
        assert len(table) == len(here) <= total
        assert table.opening == len(open_)
        assert all(count <= per_address for count in counted.values())
        if what == "come" and slot is not None:  # those before it may be many only if fresh
            address = here[slot]
            others = [each for each in open_ if each is not slot]
            old = [each for each in others if here[each] == address and now - open_[each] >= FRESH]
            assert not old or sum(here[each] == address for each in others) < opening_per_address
    for slot in list(here):
        table.ended(slot)  # type: ignore[arg-type]
    assert (len(table), table.opening) == (0, 0)


def test_the_address_with_most_opening_connections_makes_room() -> None:
    table, dropped = ConnectionTable(ConnectionLimits(opening=4)), Dropped()
    for name in ("a1", "a2", "a3", "b1"):
        table.admit(name[0], dropped.of(name), now=0.0)
    table.admit("c", dropped.of("c1"), now=FRESH)
    assert dropped == ["a1"]


def test_r2_a_burst_of_one_address_comes_in_and_what_stood_still_makes_room() -> None:
    table, dropped = ConnectionTable(ConnectionLimits(total=2000, per_address=2000)), Dropped()
    for number in range(1200):
        assert table.admit("a", dropped.of(f"a{number}"), now=number / 1200) is not None
    assert (dropped, table.opening) == ([], 1200)
    table.admit("a", dropped.of("late"), now=FRESH + 0.5)
    assert dropped == [f"a{number}" for number in range(601)]  # the others are fresh
    table.admit("a", dropped.of("later"), now=FRESH + 1.0)
    assert table.opening == 256


def test_r2_a_full_server_drops_fresh_ones_only_for_another_address() -> None:
    table, dropped = ConnectionTable(ConnectionLimits(total=3, per_address=3)), Dropped()
    for name in ("a1", "a2", "a3"):
        table.admit("a", dropped.of(name), now=0.0)
    assert table.admit("a", dropped.of("a4"), now=0.1) is None
    assert table.admit("b", dropped.of("b1"), now=0.1) is not None
    assert dropped == ["a1"]


def test_limits_leave_descriptors_to_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_connection_limits, "descriptors", lambda: 256)
    limits = ConnectionLimits().within_descriptors()
    assert (limits.total, limits.per_address) == (192, 192)
    assert (limits.opening, limits.opening_per_address) == (64, 64)
    monkeypatch.setattr(_connection_limits, "descriptors", lambda: None)
    assert ConnectionLimits().within_descriptors() == ConnectionLimits()


# ------------------------------------------------------------------------- sockets


class Listening:
    """A server of one page.

    Attributes:
        port: where it listens.
        table: its connections.
    """

    def __init__(self, limits: ConnectionLimits) -> None:
        self.port = 0
        self.table = ConnectionTable(limits)

    async def page(self, request: web.Request) -> web.StreamResponse:
        limited(request.transport, self.table).settle()
        return web.Response(body=b"x" * int(request.query.get("size", 1)))

    async def changed(self, total: int) -> None:
        while len(self.table) != total:
            await asyncio.sleep(0)


@asynccontextmanager
async def listening(tls: ssl.SSLContext | None = None, **limits: float) -> AsyncIterator[Listening]:
    made = Listening(ConnectionLimits(**limits))  # type: ignore[arg-type]
    app = web.Application()
    app.router.add_get("/", made.page)
    listener = Listener(app, made.table, logger=LOG, ssl=tls)
    await listener.start("127.0.0.1", 0)
    made.port = listener.port
    try:
        async with asyncio.timeout(SOON):
            yield made
    finally:
        await listener.close()
        await listener.close()


async def test_what_is_sent_before_a_request_is_complete_is_bounded() -> None:
    async with listening(opening_bytes=1000) as server, AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        stack.enter_context(closing(writer))
        writer.write(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 300)
        await writer.drain()
        assert (await reader.readline()).startswith(b"HTTP/1.1 431")
        writer.write(b"X: y\r\n" * 100_000)  # it is read and kept nowhere, and the end comes
        with suppress(ConnectionError):
            while await reader.read(1000):
                pass


async def test_a_known_client_may_send_more() -> None:
    async with listening(opening_bytes=1000) as server, AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        stack.enter_context(closing(writer))
        for _ in range(100):
            writer.write(ASK)
            assert (await reader.readuntil(b"\r\n\r\nx")).startswith(b"HTTP/1.1 200")
        assert (len(server.table), server.table.opening) == (1, 0)


async def test_a_large_answer_goes_out_as_fast_as_it_is_read() -> None:
    async with listening() as server, AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port, limit=2**16)
        stack.enter_context(closing(writer))
        size = 16_000_000
        writer.write(ASK.replace(b"/ ", b"/?size=%d " % size, 1))
        await reader.readuntil(b"\r\n\r\n")
        assert await reader.readexactly(size) == b"x" * size
        writer.write_eof()
        assert await reader.read() == b""


async def test_tls_connections_count_before_their_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_connection_limits, "FRESH", 0.0)
    context = server_context(tmp_path)
    async with listening(context, opening=3) as server, AsyncExitStack() as stack:
        silent = []
        for _ in range(3):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            stack.enter_context(closing(writer))
            silent.append(reader)
        await server.changed(3)
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trusting(tmp_path), server_hostname="localhost"
        )
        stack.enter_context(closing(writer))
        assert await silent[0].read() == b""
        for _ in range(2):
            writer.write(ASK)
            assert (await reader.readuntil(b"\r\n\r\nx")).startswith(b"HTTP/1.1 200")
        assert (len(server.table), server.table.opening) == (3, 2)
        writer.close()
        await server.changed(2)


def read_before_tls(monkeypatch: pytest.MonkeyPatch, *, closed: bool) -> None:
    """Make TLS begin after data has arrived, or the client has gone, as it may on uvloop."""
    begin: Any = Listener._start_tls

    async def late(self: Listener, transport: asyncio.Transport, protocol: Any) -> None:
        transport.resume_reading()
        while not (transport.is_closing() if closed else protocol._early):
            await asyncio.sleep(0)
        await begin(self, transport, protocol)

    monkeypatch.setattr(Listener, "_start_tls", late)


async def test_what_arrives_before_tls_begins_belongs_to_the_handshake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_before_tls(monkeypatch, closed=False)
    context = server_context(tmp_path)
    async with listening(context, opening_bytes=2000) as server, AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trusting(tmp_path), server_hostname="localhost"
        )
        stack.enter_context(closing(writer))
        writer.write(ASK[:-2] + b"X: " + b"y" * 1900 + b"\r\n\r\n")  # less than opening_bytes
        assert (await reader.readuntil(b"\r\n\r\nx")).startswith(b"HTTP/1.1 200")


async def test_no_handshake_begins_after_its_client_has_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_before_tls(monkeypatch, closed=True)
    begun = []
    monkeypatch.setattr(asyncio.get_running_loop(), "start_tls", begun.append)
    async with listening(server_context(tmp_path)) as server:
        _, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await server.changed(1)
        writer.close()
        await server.changed(0)
    assert not begun


@pytest.mark.parametrize("sent", [b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n"], ids=str)
async def test_a_tls_handshake_that_does_not_end_is_cut_off(tmp_path: Path, sent: bytes) -> None:
    context = server_context(tmp_path)
    async with listening(context, request_timeout=0.2) as server, AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        stack.enter_context(closing(writer))
        writer.write(sent)
        with suppress(ConnectionError):
            while await reader.read(1000):
                pass
        await server.changed(0)


async def test_a_connection_that_is_dropped_in_its_tls_handshake_counts_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop's start_tls() then returns a transport, as if the handshake had succeeded."""
    made: list[LimitedProtocol] = []

    def protocol(*args: Any) -> LimitedProtocol:
        made.append(LimitedProtocol(*args))
        return made[-1]

    monkeypatch.setattr(_listener, "LimitedProtocol", protocol)
    async with listening(server_context(tmp_path)) as server, AsyncExitStack() as stack:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        stack.enter_context(closing(writer))
        await server.changed(1)
        transport = made[0]._transport
        assert transport is not None
        while transport.get_protocol() is made[0]:
            await asyncio.sleep(0)
        made[0]._drop()  # as its timer does, which may be due before that of the handshake
        with suppress(ConnectionError):
            assert await reader.read() == b""
        await server.changed(0)


async def test_a_server_stops_while_handshakes_are_open(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        async with listening(server_context(tmp_path)) as server:
            _, writer = await asyncio.open_connection("127.0.0.1", server.port)
            stack.enter_context(closing(writer))
            await server.changed(1)
        await server.changed(0)


async def test_a_connection_that_was_lost_gets_no_websocket() -> None:
    assert not limited(None, ConnectionTable(ConnectionLimits())).upgrade()


def test_it_shows_what_it_stands_before() -> None:
    protocol = LimitedProtocol(ConnectionTable(ConnectionLimits()), asyncio.Protocol)
    assert repr(protocol) == "<LimitedProtocol None>"
