"""The server of `kit` in HTTP/2, spoken with h2."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import h2.events
import hyperframe.frame
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.exceptions import ProtocolError

if TYPE_CHECKING:
    from tests.unit.acp.http.kit import Agent, Request


class Peer:
    """The server side of one connection; tests use it for what a server rarely does."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self.reader = reader
        self.writer = writer
        self.changed = asyncio.Event()
        self.reset: set[int] = set()
        self.waiting: set[int] = set()

    async def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())
        await self.writer.drain()

    async def events(self) -> AsyncIterator[h2.events.Event]:
        """What the client does; the settings are sent before, and the bodies acknowledged."""
        self.h2.initiate_connection()
        await self.flush()
        while data := await self.reader.read(65_536):
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.StreamReset):
                    self.reset.add(event.stream_id)
                yield event
            self.changed.set()
            self.changed.clear()
            await self.flush()

    def go_away(self, last: int, code: int = 0) -> None:
        """Send a GOAWAY, after which h2 would send nothing more."""
        frame = hyperframe.frame.GoAwayFrame(0, last_stream_id=last, error_code=code)
        self.writer.write(frame.serialize())

    def window(self, number: int) -> int:
        return min(self.h2.local_flow_control_window(number), self.h2.max_outbound_frame_size)

    async def send(self, number: int, data: bytes, *, ends: bool = False) -> None:
        while data or ends:
            if number in self.reset or self.writer.transport.is_closing():
                raise ConnectionResetError
            size = min(self.window(number), len(data))
            if data and size <= 0:
                self.waiting.add(number)
                await self.changed.wait()
                continue
            self.waiting.discard(number)
            piece, data = data[:size], data[size:]
            self.h2.send_data(number, piece, end_stream=ends and not data)
            await self.flush()
            if not data:
                return


class Stream2:
    """One event stream; as `kit.Stream`."""

    def __init__(
        self, peer: Peer, number: int, headers: dict[str, str], *, resets: bool = False
    ) -> None:
        self.peer = peer
        self.number = number
        self.headers = headers
        self.over = asyncio.Event()
        self._resets = resets

    @property
    def held(self) -> bool:
        return self.number in self.peer.waiting

    async def raw(self, data: bytes) -> None:
        await self.peer.send(self.number, data)

    async def event(self, message: Any, *, id: str = "") -> None:
        from tests.unit.acp.http.kit import event

        await self.raw(event(message, id=id))

    async def end(self) -> None:
        self.over.set()
        await self.peer.send(self.number, b"", ends=True)

    def cut(self) -> None:
        if self._resets:
            self.peer.h2.reset_stream(self.number, 2)
            self.peer.writer.write(self.peer.h2.data_to_send())
        else:
            self.peer.writer.close()


class _Answering2:
    def __init__(self, peer: Peer, number: int, request: Request, *, resets: bool) -> None:
        self._peer = peer
        self._number = number
        self._request = request
        self._resets = resets

    async def with_text(self, text: str) -> None:
        """Send an answer that is written as one of HTTP/1.1, or do what only HTTP/2 has."""
        word, _, code = text.partition(" ")
        if word == "RESET":
            self._peer.h2.reset_stream(self._number, int(code))
            await self._peer.flush()
            return
        if word == "GOAWAY":
            self._peer.go_away(max(0, self._number - 2), int(code))
            return
        head, _, body = text.partition("\r\n\r\n")
        fields = self._head(head)
        if self._number in self._peer.reset:
            return
        self._peer.h2.send_headers(self._number, fields, end_stream=not body)
        await self._peer.flush()
        if body:
            await self._peer.send(self._number, body.encode(), ends=True)

    async def with_stream(self, framing: str) -> Stream2:
        fields = self._head(f"HTTP/1.1 200 OK\r\n{framing}")
        self._peer.h2.send_headers(self._number, fields)
        await self._peer.flush()
        return Stream2(self._peer, self._number, self._request.headers, resets=self._resets)

    def _head(self, head: str) -> list[tuple[str, str]]:
        first, *lines = head.split("\r\n")
        pairs = [tuple(line.split(": ", 1)) for line in lines]
        fields = [(":status", first.split(" ")[1])]
        fields += [(name.lower(), value) for name, value in pairs]
        return [(name, value) for name, value in fields if name != "transfer-encoding"]


async def handle(
    agent: Agent,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    *,
    resets: bool = False,
) -> None:
    from tests.unit.acp.http.kit import Request

    peer = Peer(reader, writer)
    agent.peers.append(peer)
    heads: dict[int, dict[str, str]] = {}
    bodies: dict[int, bytes] = {}
    tasks: dict[int, asyncio.Task[None]] = {}

    async def answered(number: int) -> None:
        head, data = heads.pop(number), bodies.pop(number)
        request = Request(head[":method"], head[":path"], head, json.loads(data) if data else None)
        agent.seen.append(request)
        answering: Any = _Answering2(peer, number, request, resets=resets)
        with suppress(ConnectionError, ProtocolError):
            await agent.reply(request, answering)

    try:
        async for event in peer.events():
            match event:
                case h2.events.RequestReceived():
                    heads[event.stream_id] = dict(event.headers)
                    bodies[event.stream_id] = b""
                case h2.events.DataReceived():
                    bodies[event.stream_id] += event.data
                    peer.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                case h2.events.StreamEnded():
                    number = event.stream_id
                    tasks[number] = asyncio.create_task(answered(number))
                case h2.events.ConnectionTerminated():
                    return
    except ProtocolError:
        await peer.flush()
    finally:
        writer.transport.abort()
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
