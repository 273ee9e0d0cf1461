"""Many browsers that read one stream each, and whose connections break at random."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field

from tests.unit.web.kit import Parser, Timeline


@dataclass
class Reader:
    """A browser that follows one job. It reconnects after each cut, as the HTML standard says."""

    host: str
    port: int
    path: str
    luck: random.Random
    parser: Parser = field(default_factory=Parser)
    timeline: Timeline = field(default_factory=Timeline)
    connections: int = 0

    async def follow(self, *, cuts: int) -> Timeline:
        """Read up to the end, over so many connections that are cut and those after them."""
        for _ in range(cuts):
            if self.timeline.end is None:
                await self._connection(self.luck.randint(1, 6_000), self.luck.random() * 0.05)
        while self.timeline.end is None:
            await self._connection(None, 0.0)
        return self.timeline

    async def _connection(self, most: int | None, pause: float) -> None:
        self.connections += 1
        self.parser.cut()
        reader, writer = await asyncio.open_connection(self.host, self.port)
        try:
            last = f"Last-Event-ID: {self.parser.last}\r\n" if self.parser.last else ""
            # HTTP/1.0 has no chunks, so what arrives after the headers is the stream.
            writer.write(f"GET {self.path} HTTP/1.0\r\nHost: {self.host}\r\n{last}\r\n".encode())
            head = await reader.readuntil(b"\r\n\r\n")
            assert b" 200 " in head.partition(b"\r\n")[0], head
            assert b"text/event-stream" in head
            while self.timeline.end is None:
                piece = await reader.read(65536)
                if not piece:
                    return
                if most is not None:
                    piece, most = piece[:most], most - len(piece)
                for frame in self.parser.feed(piece):
                    self.timeline.take(frame)
                if most is not None and most <= 0:
                    if self.luck.random() < 0.5:
                        writer.transport.abort()
                    return
        finally:
            writer.close()
            await asyncio.sleep(pause)
