"""Copies the bytes of one proxied connection, with the faults that its proxy injects."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from arcp_client._tasks import TaskOwner

__all__ = ["Direction", "ProxiedLink", "ProxyFaults", "Stream"]

Direction: TypeAlias = Literal["up", "down"]
Stream: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_CHUNK = 16 * 1024
_CHUNKS = 16
_LINGER = 1.0
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)  # SO_LINGER on, zero seconds


@dataclass
class _CutAfter:
    direction: Direction
    left: int


class ProxyFaults:
    """The faults that currently apply to the connections of one proxy.

    Args:
        on_forward: called with every forwarded chunk.
        on_cut: called when a byte limit was reached, before the connection is cut.
    """

    def __init__(
        self, *, on_forward: Callable[[Direction, int], None], on_cut: Callable[[], None]
    ) -> None:
        self.on_forward = on_forward
        self.on_cut = on_cut
        self.delay = 0.0
        self.rate: float | None = None
        self.cut_after: _CutAfter | None = None
        self._held: dict[Direction, int] = {"up": 0, "down": 0}
        self._open: dict[Direction, asyncio.Event] = {
            "up": asyncio.Event(),
            "down": asyncio.Event(),
        }
        for gate in self._open.values():
            gate.set()

    def hold(self, direction: Direction) -> None:
        """Block a direction until `release` has been called as often as `hold`."""
        self._held[direction] += 1
        self._open[direction].clear()

    def release(self, direction: Direction) -> None:
        """Undo one `hold`."""
        self._held[direction] -= 1
        if not self._held[direction]:
            self._open[direction].set()

    async def clear(self, direction: Direction) -> None:
        """Wait until a direction is not blocked."""
        await self._open[direction].wait()

    def set_cut(self, direction: Direction, nbytes: int) -> None:
        """Cut a connection after it has forwarded this many bytes."""
        self.cut_after = _CutAfter(direction, nbytes)

    def take(self, direction: Direction, size: int) -> tuple[int, bool]:
        """Return how many of ``size`` bytes may pass, and whether the connection is then cut."""
        cut_after = self.cut_after
        if cut_after is None or cut_after.direction != direction:
            return size, False
        if cut_after.left > size:
            cut_after.left -= size
            return size, False
        self.cut_after = None
        return cut_after.left, True


class ProxiedLink:
    """One proxied connection: two streams that forward to each other.

    Args:
        faults: the faults of its proxy.
        accepted: the connection of the client.
        connect: opens the connection to the server.
    """

    def __init__(
        self,
        faults: ProxyFaults,
        accepted: socket.socket,
        connect: Callable[[], Coroutine[Any, Any, Stream]],
    ) -> None:
        self._faults = faults
        self._accepted = accepted
        self._connect = connect
        self._sides: list[Stream] = []
        self._tasks = TaskOwner("proxy link")
        loop = asyncio.get_running_loop()
        self._verdict: asyncio.Future[Literal["cut", "reset"]] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def cut(self) -> asyncio.Future[None]:
        """End both sides with an orderly close, which may be inside a message."""
        return self._judge("cut")

    def reset(self) -> asyncio.Future[None]:
        """End both sides with a TCP reset."""
        return self._judge("reset")

    def _judge(self, verdict: Literal["cut", "reset"]) -> asyncio.Future[None]:
        if not self._verdict.done():
            self._verdict.set_result(verdict)
        return self.closed

    def drop(self) -> None:
        """Close the connection of a client that is not served."""
        self._accepted.close()

    async def run(self) -> None:
        """Connect to the server, and forward bytes until both sides have ended or it is cut.

        The client's connection is closed if the server cannot be reached.
        """
        try:
            both = self._tasks.spawn(self._forward(), name="both")
            ends: set[asyncio.Future[Any]] = {both, self._verdict}
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            await self._tasks.close()
            if self._verdict.done() and self._verdict.result() == "cut":
                await asyncio.gather(*(self._linger(side) for side in self._sides))
        finally:
            await self._tasks.close()
            for _, writer in self._sides:
                if self._verdict.done() and self._verdict.result() == "reset":
                    _reset_on_close(writer)
                writer.transport.abort()
            self.drop()
            if not self.closed.done():
                self.closed.set_result(None)

    async def _forward(self) -> None:
        try:
            client = self._side(await asyncio.open_connection(sock=self._accepted))
            server = self._side(await self._connect())
        except OSError:
            return  # the server is down, or the client has disconnected
        ways = [
            self._tasks.spawn(self._pass("up", client[0], server[1]), name="up"),
            self._tasks.spawn(self._pass("down", server[0], client[1]), name="down"),
        ]
        await asyncio.wait(ways)

    def _side(self, stream: Stream) -> Stream:
        # drain() then waits until the system has accepted all bytes: forwarded bytes have left this
        # process.
        stream[1].transport.set_write_buffer_limits(high=0)
        self._sides.append(stream)
        return stream

    async def _pass(
        self, direction: Direction, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        loop = asyncio.get_running_loop()
        on_the_way: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue(_CHUNKS)

        async def read() -> None:
            while True:
                data: bytes | None
                try:
                    data = await reader.read(_CHUNK)
                except OSError:
                    data = None
                await on_the_way.put((loop.time() + self._faults.delay, data))
                if not data:
                    return

        self._tasks.spawn(read(), name=f"read {direction}")
        while True:
            due, data = await on_the_way.get()
            await asyncio.sleep(due - loop.time())
            await self._faults.clear(direction)
            try:
                if not data:
                    break
                await self._deliver(direction, writer, data)
            except OSError:
                data = None
                break
        if data is None:
            self.reset()  # a reset of one side resets the other
        else:
            with contextlib.suppress(OSError):
                writer.write_eof()

    async def _deliver(
        self, direction: Direction, writer: asyncio.StreamWriter, data: bytes
    ) -> None:
        faults, rest = self._faults, memoryview(data)
        while rest:
            rate = faults.rate
            piece = rest if rate is None else rest[: max(1, int(rate / 20))]
            size, last = faults.take(direction, len(piece))
            if size:
                writer.write(bytes(piece[:size]))
                await writer.drain()
                faults.on_forward(direction, size)
            if last:
                faults.on_cut()
                self.cut()
                await asyncio.get_running_loop().create_future()  # run() cancels this task
            if rate is not None:
                await asyncio.sleep(size / rate)
                await faults.clear(direction)
            rest = rest[size:]

    async def _linger(self, side: Stream) -> None:
        reader, writer = side
        if writer.transport.get_write_buffer_size():
            return  # it does not read, so it would not notice an orderly close
        # Closing a socket with unread bytes resets it, and the reset can overtake forwarded bytes.
        # So send the end first, and discard further input.
        with contextlib.suppress(OSError):
            writer.write_eof()
            async with asyncio.timeout(_LINGER):
                while await reader.read(_CHUNK):
                    pass


def _reset_on_close(writer: asyncio.StreamWriter) -> None:
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
