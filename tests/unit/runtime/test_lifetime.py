"""Whatever becomes of its client, no job ends by it, and every session can be gone on with."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import struct
import sys
from pathlib import Path
from typing import Any

import pytest

from arcp_client.errors import LinkLost
from arcp_client.runtime import JobContext, Runtime
from arcp_client.transports import WebSocketConnector
from tests.unit.runtime.certificate import server_context, trusting
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Frame, Peer, seqs

JOBS = 8

CLIENT = """
import asyncio, json, sys
from arcp_client.transports import WebSocketConnector
from tests.unit.runtime.peer import Peer

async def main(url, jobs):
    peer = await Peer.to(WebSocketConnector(url))
    await peer.hello()
    ids = [(await peer.submit("work"))["payload"]["job_id"] for _ in range(jobs)]
    while peer.last < jobs:
        await peer.read()
    print(json.dumps([ids, peer.block()]), flush=True)
    await asyncio.Event().wait()

asyncio.run(main(sys.argv[1], int(sys.argv[2])))
"""


class Work:
    """Jobs that emit, are let go on once their client is gone, emit and end."""

    def __init__(self, runtime: Runtime) -> None:
        self.go_on = asyncio.Event()
        self.ended = 0
        self.all_ended = asyncio.Event()
        runtime.agent("work")(self._work)

    async def _work(self, input: Any, job: JobContext) -> str:
        await job.status("started")
        await self.go_on.wait()
        await job.status("alone")
        self.ended += 1
        if self.ended == JOBS:
            self.all_ended.set()
        return "done"

    async def finish(self) -> None:
        self.go_on.set()
        await self.all_ended.wait()


async def submitted(url: str) -> tuple[Peer, list[str]]:
    """A client with jobs that have started."""
    peer = await Peer.to(WebSocketConnector(url))
    await peer.hello()
    ids = [(await peer.submit("work"))["payload"]["job_id"] for _ in range(JOBS)]
    while peer.last < JOBS:
        await peer.read()
    return peer, ids


async def gone_on_with(runtime: Runtime, ids: list[str], block: Frame) -> None:
    """The session is resumed, and has the end of every job, each event once."""
    again = await Peer.to(runtime)
    assert (await again.hello(resume=block))["type"] == "session.welcome"
    frames = [await again.read() for _ in range(2 * JOBS)]
    assert seqs(frames) == list(range(JOBS + 1, 3 * JOBS + 1))
    results = {f["job_id"]: f["payload"]["result"] for f in frames if f["type"] == "job.result"}
    assert results == dict.fromkeys(ids, "done")
    await again.close()


async def left(runtime: Runtime, block: Frame) -> None:
    """Wait until the runtime knows that the client is gone."""
    session = runtime._core.sessions._sessions[block["session_id"]]
    while session.outlet is not None:
        await asyncio.sleep(0)


async def silent(peer: Peer) -> None:
    peer.lively = False
    assert (await peer.ended())[-1]["payload"]["code"] == "HEARTBEAT_LOST"
    await peer.close()


async def closed(peer: Peer) -> None:
    await peer.send("session.close")
    assert [f["type"] for f in await peer.ended()] == ["session.closed"]
    await peer.close()


async def reset(peer: Peer) -> None:
    transport: Any = peer.transport
    with transport._socket.dup() as same:  # closing it now resets the connection
        same.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport._ws._response.connection.transport.abort()
    with pytest.raises(LinkLost):
        await peer.transport.receive()
    await peer.close()


@pytest.mark.parametrize("loss", [silent, closed, reset])
async def test_no_job_ends_by_the_loss_of_its_client(make: MakeRuntime, loss: Any) -> None:
    runtime = make(heartbeat_interval=0.1)
    work = Work(runtime)
    async with runtime.serve() as server:
        peer, ids = await submitted(server.url)
        await loss(peer)
        await left(runtime, peer.block())
        await work.finish()
        await gone_on_with(runtime, ids, peer.block())


async def test_no_job_ends_by_a_client_that_is_killed(make: MakeRuntime) -> None:
    runtime = make()
    work = Work(runtime)
    async with runtime.serve() as server:
        client = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, server.url, str(JOBS),
            stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(Path.cwd())},
        )  # fmt: skip
        assert client.stdout is not None
        ids, block = json.loads(await client.stdout.readline())
        client.send_signal(signal.SIGKILL)
        assert await client.wait() == -signal.SIGKILL
        await left(runtime, block)
        await work.finish()
        await gone_on_with(runtime, ids, block)


async def test_a_job_over_tls(make: MakeRuntime, tmp_path: Path) -> None:
    runtime = make()

    @runtime.agent("quick")
    async def quick(input: Any, job: JobContext) -> str:
        return "done"

    async with runtime.serve(ssl=server_context(tmp_path)) as server:
        assert server.url.startswith("wss://127.0.0.1:")
        peer = await Peer.to(WebSocketConnector(server.url, ssl=trusting(tmp_path)))
        assert (await peer.hello())["type"] == "session.welcome"
        assert (await peer.run("quick"))[1][-1]["payload"]["result"] == "done"
        await peer.close()
        with pytest.raises(Exception, match="certificate") as refused:
            await WebSocketConnector(server.url).connect()
        assert getattr(refused.value, "permanent", False)
