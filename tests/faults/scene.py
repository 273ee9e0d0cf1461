"""What the fault matrix is played on: a runtime, a proxy, a client; faults that strike and heal.

Everything goes over real loopback sockets. Heartbeats are short, so a dead link is noticed soon.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tenacity import wait_random

from arcp_client import (
    Client,
    JobContext,
    Live,
    Reconnect,
    Runtime,
    SqliteEventLog,
    Timeouts,
    events,
)
from arcp_client._link import sleep_detector
from arcp_client.state import LinkState
from arcp_client.testing import FaultyProxy
from arcp_client.transports import WebSocketConnector
from tests.faults.tamper import Tamper, kind_of

HEARTBEAT = 0.15
STEPS = 30


def agents(runtime: Runtime, scene: Scene) -> None:
    @runtime.agent("echo")
    async def echo(input: Any, job: JobContext) -> Any:
        scene.runs += 1
        for n in range(3):
            await job.progress(n)
        return input

    @runtime.agent("stream")
    async def stream(input: Any, job: JobContext) -> int:
        for n in range(STEPS):
            await job.progress(n)
            await asyncio.sleep(0.003)
        return STEPS

    @runtime.agent("chunks")
    async def chunks(input: Any, job: JobContext) -> Any:
        async def pieces() -> AsyncIterator[str]:
            for n in range(STEPS):
                await asyncio.sleep(0.003)
                yield f"{n},"

        return pieces()

    @runtime.agent("stuck")
    async def stuck(input: Any, job: JobContext) -> None:
        await job.progress(0)
        await job.cancelled.wait()


class Scene:
    """One cell of the matrix.

    Attributes:
        runs: how often the agent ``echo`` was started.
        progress: what the handler saw, in order.
        gaps: every gap that it was told of.
        states: every state of the link.
        door: the runtime answers no hello while this is cleared.
    """

    def __init__(self, directory: Path, *, durable: bool) -> None:
        self._log = directory / "events.db" if durable else None
        self.runs = 0
        self.progress: list[tuple[str | None, float]] = []
        self.gaps: list[events.Gap] = []
        self.states: list[LinkState] = []
        self.news = asyncio.Event()
        self.door = asyncio.Event()
        self.door.set()
        self.runtime = self._new_runtime()

    def _new_runtime(self) -> Runtime:
        more = {"event_log": SqliteEventLog(self._log)} if self._log is not None else {}
        runtime = Runtime(
            name="matrix",
            heartbeat_interval=HEARTBEAT,
            auth=self._let_in,
            **more,  # type: ignore[arg-type]
        )
        agents(runtime, self)
        return runtime

    async def _let_in(self, _token: str) -> str:
        await self.door.wait()
        return "somebody"

    @contextlib.asynccontextmanager
    async def played(self) -> AsyncIterator[Scene]:
        await self.runtime.__aenter__()
        self.server = await self.runtime.serve().__aenter__()
        try:
            async with FaultyProxy(self.server.url) as self.proxy:
                self.tamper = Tamper(WebSocketConnector(self.proxy.url))
                self.tamper.changed = self.news.set
                self.client = Client(
                    self.tamper,
                    token="somebody",
                    reconnect=Reconnect(wait=wait_random(0.0, 0.02)),
                    timeouts=Timeouts(connect=0.4, open=8.0, request=8.0, close=1.0),
                )
                self._observe()
                try:
                    yield self
                finally:
                    await self.client.close()
        finally:
            await self.server.close()
            await self.runtime.close()

    def _observe(self) -> None:
        client = self.client

        @client.on(events.Progress)
        async def progress(event: events.Progress) -> None:
            self.progress.append((event.job_id, event.current))
            self.news.set()

        @client.on(events.Gap)
        async def gap(event: events.Gap) -> None:
            self.gaps.append(event)

        def changed(state: LinkState) -> None:
            self.states.append(state)
            self.news.set()

        client.states.subscribe(changed)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait for something that shows in what is observed here."""
        while not condition():
            self.news.clear()
            await self.news.wait()

    def seen_of(self, job_id: str) -> list[float]:
        return [n for job, n in self.progress if job == job_id]

    async def restart_runtime(self) -> None:
        """The runtime's process ends, and another one begins on the same log and port."""
        port = int(self.server.url.rsplit(":", 1)[1].split("/")[0])
        await self.server.close()
        await self.runtime.close()
        self.runtime = self._new_runtime()
        await self.runtime.__aenter__()
        self.server = await self.runtime.serve(port=port).__aenter__()


# ---------------------------------------------------------------------- faults
# Each strikes at once, and gives what heals it, which may take its time.

Heal = Callable[[], Awaitable[None]]


async def _nothing() -> None:
    pass


async def noticed(scene: Scene) -> None:
    """The client knows that the link is gone, or there was none."""
    if isinstance(scene.client.state, Live):
        await scene.until(lambda: not isinstance(scene.client.state, Live))


def cut(scene: Scene) -> Heal:
    scene.proxy.cut()
    return _nothing


def reset(scene: Scene) -> Heal:
    scene.proxy.reset()
    return _nothing


def stall(scene: Scene) -> Heal:
    fault = scene.proxy.stall()
    fault.__enter__()

    async def heal() -> None:
        await noticed(scene)
        fault.__exit__(None, None, None)

    return heal


def half_open(scene: Scene) -> Heal:
    fault = scene.proxy.half_open("down")
    fault.__enter__()

    async def heal() -> None:
        await noticed(scene)
        fault.__exit__(None, None, None)

    return heal


def refuse(scene: Scene) -> Heal:
    fault = scene.proxy.refuse()
    fault.__enter__()
    scene.proxy.cut()
    before = len(scene.states)

    async def heal() -> None:
        await scene.until(lambda: len(scene.states) >= before + 3)
        fault.__exit__(None, None, None)

    return heal


def silent_accept(scene: Scene) -> Heal:
    fault = scene.proxy.silent_accept()
    fault.__enter__()
    scene.proxy.cut()
    before = scene.proxy.connections

    async def heal() -> None:
        await scene.proxy.until(lambda proxy: proxy.connections > before)
        fault.__exit__(None, None, None)

    return heal


def repeat_frames(scene: Scene) -> Heal:
    scene.tamper.incoming = lambda frame: [frame, frame]
    return _nothing


def reorder_frames(scene: Scene) -> Heal:
    """Each pair of event frames comes in the wrong order."""
    kept: list[bytes] = []

    def swap(frame: bytes) -> list[bytes]:
        if kind_of(frame) == "job.event" and not kept:
            kept.append(frame)
            return []
        held, kept[:] = kept[:], []
        return [frame, *held]

    scene.tamper.incoming = swap
    return _nothing


def gap(scene: Scene) -> Heal:
    """The next event frame is lost on its way."""
    lost: list[bytes] = []

    def lose_one(frame: bytes) -> list[bytes]:
        if kind_of(frame) == "job.event" and not lost:
            lost.append(frame)
            return []
        return [frame]

    scene.tamper.incoming = lose_one
    return _nothing


def token_lost(scene: Scene) -> Heal:
    """The runtime welcomes the client again, and the welcome, with its new token, is lost."""
    lost: list[bytes] = []

    def lose_welcome(frame: bytes) -> list[bytes]:
        if kind_of(frame) == "session.welcome" and not lost:
            lost.append(frame)
            scene.proxy.cut()
            return []
        return [frame]

    scene.tamper.incoming = lose_welcome
    scene.proxy.cut()
    return _nothing


def resume_refused(scene: Scene) -> Heal:
    """The runtime has never heard of the session."""

    def forge(frame: bytes) -> list[bytes]:
        hello = json.loads(frame)
        if hello["type"] != "session.hello" or "resume" not in hello["payload"]:
            return [frame]
        hello["session_id"] = hello["payload"]["resume"]["session_id"] = "sess_forgotten"
        return [json.dumps(hello).encode()]

    scene.tamper.outgoing = forge
    scene.proxy.cut()
    return _nothing


def runtime_restarted(scene: Scene) -> Heal:
    return scene.restart_runtime


def clock_jump(scene: Scene) -> Heal:
    """The machine slept for ten minutes."""
    really = time.time

    def later() -> float:
        return really() + 600.0

    patches = [
        mock.patch.object(sleep_detector.time, "time", later),
        mock.patch.object(sleep_detector, "LOOK_EVERY", 0.02),
    ]
    pings = scene.tamper.sent.get("session.ping", 0)
    for patch in patches:
        patch.start()

    async def heal() -> None:
        await scene.until(
            lambda: (
                scene.tamper.sent.get("session.ping", 0) > pings
                or not isinstance(scene.client.state, Live)
            )
        )
        for patch in patches:
            patch.stop()

    return heal
