"""A runtime in a process of its own that sends prepared events as fast as they are taken.

``python -m tests.backpressure.flood N`` prints its port. The events are made as they are sent, from
one template, so that a million of them need no memory here either.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys

from tests.backpressure.script import Script

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def framed(data: bytes, opcode: int = 1) -> bytes:
    size = len(data)
    head = bytes([0x80 | opcode])
    if size < 126:
        return head + bytes([size]) + data
    if size < 65536:
        return head + b"\x7e" + size.to_bytes(2, "big") + data
    return head + b"\x7f" + size.to_bytes(8, "big") + data


async def message(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, second = await reader.readexactly(2)
    size = second & 127
    if size > 125:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    mask = await reader.readexactly(4)
    data = await reader.readexactly(size)
    return first & 15, bytes(byte ^ mask[i & 3] for i, byte in enumerate(data))


async def upgraded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    request = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
    heads = dict(line.split(b": ", 1) for line in request[1:] if b": " in line)
    key = next(value for name, value in heads.items() if name.lower() == b"sec-websocket-key")
    accept = base64.b64encode(hashlib.sha1(key + GUID).digest())
    writer.write(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n"
    )


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, count: int) -> None:
    script = Script()
    try:
        await upgraded(reader, writer)
        while True:
            opcode, data = await message(reader)
            if opcode == 8:
                break
            if opcode != 1:
                continue
            asked = json.loads(data)
            for frame in script.answer(asked):
                writer.write(framed(frame))
            if asked["type"] == "job.submit":
                await flood(script, writer, count)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def flood(script: Script, writer: asyncio.StreamWriter, count: int) -> None:
    event = json.loads(script.log("job_1", "x" * 40))
    event["id"], event["event_seq"] = "@", "#"
    head, between, tail = json.dumps(event).replace('"#"', "@").split("@")
    for start in range(1, count + 1, 64):
        writer.write(
            b"".join(
                framed(f"{head}e{n}{between}{n}{tail}".encode())
                for n in range(start, min(start + 64, count + 1))
            )
        )
        await writer.drain()
    script.seq = count
    writer.write(framed(script.end("job_1")))


async def main() -> None:
    count = int(sys.argv[1])
    server = await asyncio.start_server(
        lambda reader, writer: serve(reader, writer, count), "127.0.0.1", 0
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
