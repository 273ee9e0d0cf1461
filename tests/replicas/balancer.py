"""A plain TCP balancer without affinity, which records the numbered frames that it passes on."""

from __future__ import annotations

import asyncio
import contextlib
from collections import defaultdict

import msgspec

from arcp_client._tasks import TaskOwner

__all__ = ["RecordingBalancer"]


class _Frame(msgspec.Struct):
    type: str
    id: str = ""
    session_id: str = ""
    event_seq: int | None = None
    job_id: str = ""


_decode = msgspec.json.Decoder(_Frame).decode


class RecordingBalancer:
    """Connects each client to the next target that accepts the connection.

    Attributes:
        targets: ports of 127.0.0.1, which may change.
        ids: the ids under which a number of a session was sent.
        ends: the ids of the terminal frames of a job.
        passed: the ports through which a job's events went.
    """

    def __init__(self) -> None:
        self.targets: list[int] = []
        self.ids: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        self.ends: defaultdict[str, set[str]] = defaultdict(set)
        self.passed: defaultdict[str, set[int]] = defaultdict(set)
        self.port = 0
        self._turn = 0
        self._tasks = TaskOwner("balancer")
        self._server: asyncio.Server | None = None

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/arcp"

    async def __aenter__(self) -> RecordingBalancer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self._tasks.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for _ in range(len(self.targets)):
            self._turn += 1
            port = self.targets[self._turn % len(self.targets)]
            with contextlib.suppress(OSError):
                up, down = await asyncio.open_connection("127.0.0.1", port)
                break
        else:
            writer.transport.abort()
            return
        passed = Frames()

        def record(data: bytes) -> None:
            for text in passed.feed(data):
                self._record(_decode(text), port)

        pumps = [
            self._tasks.spawn(_pump(reader, down, lambda _: None), name="up"),
            self._tasks.spawn(_pump(up, writer, record), name="down"),
        ]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for each in pumps:
            each.cancel()
        down.transport.abort()
        writer.transport.abort()

    def _record(self, frame: _Frame, port: int) -> None:
        if frame.event_seq is None:
            return
        self.ids[frame.session_id, frame.event_seq].add(frame.id)
        self.passed[frame.job_id].add(port)
        if frame.type in ("job.result", "job.error"):
            self.ends[frame.job_id].add(frame.id)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seen: object) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            seen(data)  # type: ignore[operator]
            writer.write(data)
            await writer.drain()


class Frames:
    """The text messages in what a WebSocket server sends, without compression (RFC 6455, §5)."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._message = bytearray()
        self._open = False

    def feed(self, data: bytes) -> list[bytes]:
        """Take bytes; return the text messages that are complete now."""
        self._data += data
        if not self._open:
            _, found, rest = bytes(self._data).partition(b"\r\n\r\n")
            if not found:
                return []
            self._open, self._data = True, bytearray(rest)
        texts = []
        while (frame := self._next()) is not None:
            final, opcode, payload = frame
            if opcode > 2:
                continue
            self._message += payload
            if final:
                texts.append(bytes(self._message))
                self._message.clear()
        return texts

    def _next(self) -> tuple[bool, int, bytes] | None:
        data = self._data
        if len(data) < 2:
            return None
        size, start = data[1] & 0x7F, 2
        if size > 125:
            start = 4 if size == 126 else 10
            size = int.from_bytes(data[2:start], "big")
        if len(data) < start + size:
            return None
        frame = bool(data[0] & 0x80), data[0] & 0x0F, bytes(data[start : start + size])
        del data[: start + size]
        return frame
