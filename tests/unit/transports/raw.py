"""A WebSocket server by hand, for the frames that a well-behaved one does not send."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"

Handler = Callable[["RawSocket"], Awaitable[None]]


def frame(opcode: int, payload: bytes = b"", *, fin: bool = True, size: int | None = None) -> bytes:
    """One unmasked frame; ``size`` announces another length than the payload has."""
    size = len(payload) if size is None else size
    first = (0x80 if fin else 0) | opcode
    if size < 126:
        return struct.pack("!BB", first, size) + payload
    if size < 65_536:
        return struct.pack("!BBH", first, 126, size) + payload
    return struct.pack("!BBQ", first, 127, size) + payload


def close(code: int, reason: str = "") -> bytes:
    return frame(CLOSE, struct.pack("!H", code) + reason.encode())


class RawSocket:
    """The server side of one connection, after the handshake."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, *frames: bytes) -> None:
        for data in frames:
            self.writer.write(data)
        await self.writer.drain()

    async def receive(self) -> tuple[int, bytes]:
        first, second = await self.reader.readexactly(2)
        size = second & 0x7F
        if size == 126:
            (size,) = struct.unpack("!H", await self.reader.readexactly(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self.reader.readexactly(8))
        mask = await self.reader.readexactly(4)
        payload = await self.reader.readexactly(size)
        return first & 0x0F, bytes(b ^ mask[i % 4] for i, b in enumerate(payload))

    async def receive_close(self) -> int:
        """The code of the client's close frame; what comes before it is skipped."""
        while True:
            opcode, payload = await self.receive()
            if opcode == CLOSE:
                return int(struct.unpack("!H", payload[:2])[0])


@asynccontextmanager
async def tcp_server(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    *,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[int]:
    """A server that hands each connection to a coroutine; what is left is cut off at the end."""
    tasks: set[asyncio.Task[None]] = set()

    async def run(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(ConnectionError, asyncio.IncompleteReadError):
                await handle(reader, writer)
        finally:
            writer.transport.abort()

    def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(run(reader, writer))
        tasks.add(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for task in tasks:
            if not task.cancelled() and (error := task.exception()):
                raise error


@asynccontextmanager
async def raw_server(handler: Handler) -> AsyncIterator[str]:
    """The URL of a WebSocket server whose connections are spoken by ``handler``."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        (key,) = [
            line.split(b": ")[1]
            for line in request.split(b"\r\n")
            if line.lower().startswith(b"sec-websocket-key")
        ]
        accept = base64.b64encode(hashlib.sha1(key + _GUID).digest())
        writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
        )
        await handler(RawSocket(reader, writer))

    async with tcp_server(handle) as port:
        yield f"ws://127.0.0.1:{port}/arcp"
