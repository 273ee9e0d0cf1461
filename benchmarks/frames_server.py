"""A bare ARCP v1.1 peer that sends prepared events as fast as the socket takes them.

It loads clients and must not be what is measured: frames are encoded before a job is accepted, and
written 64 at a time. A submit's input says what is wanted, ``{"events": N, "jobs": K}``; the events
begin when K jobs were submitted. With ``"every": SECONDS`` each is written alone, and the next one
after that time. Kinds take turns, some 300 bytes each.

    python benchmarks/frames_server.py          # prints its port
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import sys
from collections.abc import Iterator
from typing import Any

TS = "2026-05-13T19:42:13Z"
SESSION = "sess_01JAAAAAAAAAAAAAAAAAAAAAAA"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
FEATURES = [
    "heartbeat", "ack", "list_jobs", "subscribe", "lease_expires_at", "cost.budget", "progress",
    "result_chunk", "agent_versions",
]  # fmt: skip
PAUSE = 0.2  # seconds for the client to become idle, so that all begin alike
BURST = 64


def framed(data: bytes, opcode: int = 1) -> bytes:
    size = len(data)
    if size < 126:
        return bytes([0x80 | opcode, size]) + data
    length = (
        b"\x7e" + size.to_bytes(2, "big") if size < 65536 else b"\x7f" + size.to_bytes(8, "big")
    )
    return bytes([0x80 | opcode]) + length + data


def message(kind: str, number: int, payload: dict[str, Any], **top: Any) -> bytes:
    envelope = {
        "arcp": "1.1",
        "id": f"01J{number:023d}",
        "type": kind,
        "session_id": SESSION,
        **top,
    }
    return framed(json.dumps({**envelope, "payload": payload}, separators=(",", ":")).encode())


def body_of(n: int, call: str) -> tuple[str, dict[str, Any]]:
    bodies: list[tuple[str, dict[str, Any]]] = [
        ("log", {"level": "info", "message": f"step {n} of the work"}),
        ("thought", {"text": f"thinking about {n}"}),
        ("tool_call", {"tool": "search", "args": {"q": f"query {n}"}, "call_id": f"c{n}"}),
        ("tool_result", {"call_id": call, "result": {"rows": [1, 2, 3], "text": "found"}}),
        ("status", {"phase": "running", "message": f"phase {n}"}),
        ("metric", {"name": "cost.inference", "value": 0.0001, "unit": "USD"}),
        ("progress", {"current": n, "total": 10**9, "units": "files"}),
    ]
    return bodies[n % len(bodies)]


def prepared(count: int, jobs: list[str], burst: int = BURST) -> list[bytes]:
    """The events, some at a time, and each job's end."""
    frames = []
    calls: dict[str, str] = {}  # the last tool call of each job
    for n in range(1, count + 1):
        job = jobs[n % len(jobs)]
        kind, body = body_of(n, calls.get(job, "c0"))
        if kind == "tool_call":
            calls[job] = body["call_id"]
        payload = {"kind": kind, "ts": TS, "body": body}
        top = {"job_id": job, "event_seq": n, "trace_id": TRACE}
        frames.append(message("job.event", n, payload, **top))
    ended = {"final_status": "success", "result": {"ok": True}, "completed_at": TS}
    for n, job in enumerate(jobs, count + 1):
        frames.append(message("job.result", n, ended, job_id=job, event_seq=n))
    return [b"".join(frames[at : at + burst]) for at in range(0, len(frames), burst)]


async def received(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, second = await reader.readexactly(2)
    size = second & 127
    if size > 125:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    mask = await reader.readexactly(4) if second & 128 else bytes(4)
    data = await reader.readexactly(size)
    return first & 15, bytes(byte ^ mask[at & 3] for at, byte in enumerate(data))


class Connection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.jobs: list[str] = []

    async def serve(self) -> None:
        try:
            await self.upgrade()
            while True:
                opcode, data = await received(self.reader)
                if opcode == 9:
                    self.writer.write(framed(data, 10))
                elif opcode == 8:
                    self.writer.write(framed(data, 8))
                    return
                elif opcode in (1, 2):
                    await self.answer(json.loads(data))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self.writer.close()

    async def upgrade(self) -> None:
        request = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        heads = dict(self.heads(request))
        accept = base64.b64encode(
            hashlib.sha1(heads["sec-websocket-key"].encode() + ACCEPT).digest()
        )
        protocol = heads.get("sec-websocket-protocol", "").split(",")[0].strip()
        self.writer.write(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n"
            + (f"Sec-WebSocket-Protocol: {protocol}\r\n".encode() if protocol else b"")
            + b"\r\n"
        )  # fmt: skip

    @staticmethod
    def heads(request: str) -> Iterator[tuple[str, str]]:
        for line in request.split("\r\n")[1:]:
            name, _, value = line.partition(":")
            yield name.strip().lower(), value.strip()

    async def answer(self, asked: dict[str, Any]) -> None:
        payload = asked.get("payload") or {}
        match asked["type"]:
            case "session.hello":
                self.writer.write(message("session.welcome", 1, self.welcome()))
            case "session.ping":
                pong = {"ping_nonce": payload.get("nonce"), "received_at": TS}
                self.writer.write(message("session.pong", 2, pong))
            case "session.close" | "session.bye":
                self.writer.write(message("session.closed", 3, {}))
                self.writer.write(framed((1000).to_bytes(2, "big"), 8))
            case "job.submit":
                await self.submit(asked["id"], payload.get("input") or {})

    @staticmethod
    def welcome() -> dict[str, Any]:
        return {
            "runtime": {"name": "frames", "version": "1"},
            "session_id": SESSION,
            "resume_token": "rt_1",
            "resume_window_sec": 600,
            "heartbeat_interval_sec": 30,
            "accepted_at": TS,
            "capabilities": {
                "encodings": ["json"],
                "features": FEATURES,
                "agents": [{"name": "load", "versions": ["1.0.0"], "default": "1.0.0"}],
            },
        }

    async def submit(self, request: str, wish: dict[str, Any]) -> None:
        job = f"job_01J{len(self.jobs):023d}"
        self.jobs.append(job)
        accepted = {
            "job_id": job, "agent": "load@1.0.0", "accepted_at": TS, "lease": {},
            "trace_id": TRACE, "request_id": request,
        }  # fmt: skip
        whole = len(self.jobs) == wish.get("jobs", 1)
        every = wish.get("every", 0)
        bursts = prepared(wish["events"], self.jobs, 1 if every else BURST) if whole else []
        self.writer.write(message("job.accepted", 4, accepted, job_id=job))
        await self.writer.drain()
        if whole:
            await asyncio.sleep(wish.get("pause", PAUSE))
            for burst in bursts:
                self.writer.write(burst)
                if every:
                    await asyncio.sleep(every)
                if self.writer.transport.get_write_buffer_size() > 1 << 20:
                    await self.writer.drain()
            self.jobs = []


async def main() -> None:
    server = await asyncio.start_server(
        lambda reader, writer: Connection(reader, writer).serve(), "127.0.0.1", 0, limit=1 << 24
    )
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    try:
        asyncio.run(main())
    except KeyboardInterrupt:
        sys.exit(0)
