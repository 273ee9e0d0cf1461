"""Raw frames in and out: a client that does exactly what a test tells it."""

from __future__ import annotations

import json
from typing import Any

from arcp_client._wire.ids import new_id
from arcp_client._wire.names import OFFERED
from arcp_client.errors import LinkLost
from arcp_client.transports.base import Transport

Frame = dict[str, Any]


class Peer:
    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.session_id = ""
        self.token = ""
        self.welcome: Frame = {}
        self.held: list[Frame] = []
        self.last = 0  # highest event_seq read
        self.lively = True  # answers pings by itself

    @classmethod
    async def to(cls, target: Any) -> Peer:
        return cls(await target.connect())

    async def send(self, type: str, payload: Any = None, **fields: Any) -> str:
        frame = {"arcp": "1.1", "id": new_id(), "type": type, **fields}
        if self.session_id:
            frame.setdefault("session_id", self.session_id)
        frame["payload"] = {} if payload is None else payload
        await self.transport.send(json.dumps(frame).encode())
        return str(frame["id"])

    async def raw(self, data: bytes) -> None:
        await self.transport.send(data)

    async def read(self) -> Frame:
        """The next frame, in wire order."""
        if self.held:
            return self.held.pop(0)
        frame: Frame = json.loads(await self.transport.receive())
        while self.lively and frame["type"] == "session.ping":
            await self.send("session.pong", {"ping_nonce": frame["payload"]["nonce"]})
            frame = json.loads(await self.transport.receive())
        seq = frame.get("event_seq")
        if seq is not None:
            self.last = max(self.last, seq)
        return frame

    async def until(self, *types: str, **payload: Any) -> Frame:
        """The next frame of a type, and with these payload values; others are dropped."""
        while True:
            frame = await self.read()
            if frame["type"] in types and all(
                frame["payload"].get(name) == value for name, value in payload.items()
            ):
                return frame

    async def hello(
        self,
        *,
        token: str = "",
        features: tuple[str, ...] = OFFERED,
        resume: Frame | None = None,
    ) -> Frame:
        payload: Frame = {
            "client": {"name": "peer", "version": "1"},
            "auth": {"scheme": "bearer", "token": token},
            "capabilities": {"encodings": ["json"], "features": list(features)},
        }
        if resume is not None:
            payload["resume"] = resume
        await self.send("session.hello", payload)
        reply = await self.read()
        if reply["type"] == "session.welcome":
            self.welcome = reply
            self.session_id = reply["session_id"]
            self.token = reply["payload"]["resume_token"]
        return reply

    def block(self, last: int | None = None) -> Frame:
        """The resume block for this peer's session."""
        return {
            "session_id": self.session_id,
            "resume_token": self.token,
            "last_event_seq": self.last if last is None else last,
        }

    async def ask(self, type: str, payload: Any = None, **fields: Any) -> Frame:
        """Send a request and read until its answer; what comes before it is held back."""
        request = await self.send(type, payload, **fields)
        before: list[Frame] = []
        while True:
            frame = await self.read()
            if frame["payload"].get("request_id") == request:
                self.held = before + self.held
                return frame
            before.append(frame)

    async def submit(self, agent: str, input: Any = None, **options: Any) -> Frame:
        fields = {"trace_id": options.pop("trace_id")} if "trace_id" in options else {}
        answer = await self.ask("job.submit", {"agent": agent, "input": input, **options}, **fields)
        assert answer["type"] == "job.accepted", answer
        return answer

    async def run(self, agent: str, input: Any = None, **options: Any) -> tuple[str, list[Frame]]:
        """Submit, and read to the terminal: the job's id and its frames."""
        accepted = await self.submit(agent, input, **options)
        job_id: str = accepted["payload"]["job_id"]
        return job_id, await self.follow(job_id)

    async def follow(self, job_id: str) -> list[Frame]:
        """The frames of a job up to its terminal."""
        seen = []
        while True:
            frame = await self.read()
            if frame.get("job_id") != job_id or "event_seq" not in frame:
                continue
            seen.append(frame)
            if frame["type"] in ("job.result", "job.error"):
                return seen

    async def cut(self) -> None:
        """End the link without a word."""
        await self.transport.close(timeout=0)

    async def close(self) -> None:
        await self.transport.close(timeout=1)

    async def ended(self) -> list[Frame]:
        """Read to the end of the link; what came."""
        frames = []
        try:
            while True:
                frames.append(await self.read())
        except LinkLost:
            return frames


def bodies(frames: list[Frame], kind: str) -> list[Frame]:
    return [f["payload"]["body"] for f in frames if f["payload"].get("kind") == kind]


def seqs(frames: list[Frame]) -> list[int]:
    return [f["event_seq"] for f in frames if "event_seq" in f]
