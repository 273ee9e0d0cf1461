"""Measures what half-open connections cost a runtime, in a process of its own.

Usage: ``python -m tests.faults.strangers CONNECTIONS BYTES``: so many WebSockets send so many bytes
of an unfinished frame and no hello. Prints the growth of the peak of memory and whether a client
got in meanwhile, as JSON. The strangers live in another process, so that only the runtime counts.
"""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
from contextlib import suppress

from arcp_client import Client, Runtime
from tests.alone import peak

UPGRADE = (
    b"GET /arcp HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


async def strange(port: int, size: int) -> None:
    """Send all but the last bytes of a frame, as far as the runtime takes them."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with suppress(ConnectionError):
        writer.write(UPGRADE)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"\x81\xff" + struct.pack("!Q", size + 10) + b"\0\0\0\0")
        for _ in range(0, size, 64 * 1024):
            writer.write(b" " * 64 * 1024)
            await writer.drain()
    print("sent", flush=True)
    await asyncio.sleep(3600)


async def strangers(port: int, count: int, size: int) -> None:
    await asyncio.gather(*(strange(port, size) for _ in range(count)))


async def main(count: int, size: int) -> None:
    runtime = Runtime()

    @runtime.agent("echo")
    async def echo(input: object, job: object) -> object:
        return input

    async with runtime, runtime.serve() as server:
        async with Client(server.url) as client:  # so that all is imported and made once
            await (await client.submit("echo", 1)).result()
        before = peak()
        command = [
            sys.executable,
            "-m",
            "tests.faults.strangers",
            "as",
            *map(str, (server.port, count, size)),
        ]
        others = await asyncio.create_subprocess_exec(*command, stdout=subprocess.PIPE)
        assert others.stdout is not None
        for _ in range(count):
            assert await others.stdout.readline() == b"sent\n"
        async with Client(server.url) as client:
            value = (await (await client.submit("echo", 2)).result()).value
        print(json.dumps({"grown": peak() - before, "value": value}))
        others.kill()
        await others.wait()


if __name__ == "__main__":
    if sys.argv[1] == "as":
        asyncio.run(strangers(*map(int, sys.argv[2:])))
    else:
        asyncio.run(main(*map(int, sys.argv[1:])))
