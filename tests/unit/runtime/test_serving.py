"""Hosting: WebSocket alone, in an application, and stdio (§4)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from arcp_client.errors import ConnectFailed, LinkLost
from arcp_client.runtime import JobContext, Limits, Runtime
from arcp_client.testing import FaultyProxy
from arcp_client.transports import StdioConnector, WebSocketConnector
from tests.unit.runtime.conftest import MakeRuntime
from tests.unit.runtime.peer import Peer, bodies, seqs
from tests.unit.runtime.sessions.test_resume import started

pytestmark = pytest.mark.usefixtures("forked")


def counting(runtime: Runtime) -> None:
    @runtime.agent("count")
    async def count(input: Any, job: JobContext) -> str:
        for n in range(input):
            await job.progress(n, input)
        return "counted"


async def test_a_job_over_a_websocket(make: MakeRuntime) -> None:
    runtime = make()
    counting(runtime)
    async with runtime.serve() as server:
        assert server.url == f"ws://127.0.0.1:{server.port}/arcp"
        peer = await Peer.to(WebSocketConnector(server.url))
        await peer.hello()
        _, frames = await peer.run("count", 2000)
        told = 1  # that nothing was acknowledged
        assert seqs(frames) == list(range(1, 2002 + told))
        assert [body["phase"] for body in bodies(frames, "status")] == ["back_pressure"]
        await peer.close()


async def test_a_session_goes_on_over_a_cut_socket(make: MakeRuntime) -> None:
    runtime = make()
    counting(runtime)
    async with runtime.serve() as server, FaultyProxy(server.url) as proxy:
        peer = await Peer.to(WebSocketConnector(proxy.url))
        await peer.hello()
        accepted = await peer.submit("count", 20_000)
        seen: list[int] = []
        told = 1  # that nothing was acknowledged
        while len(seen) < 20_001 + told:
            try:
                frame = await peer.read()
                seen += seqs([frame])
                if len(seen) in (3000, 9000):
                    proxy.cut()
            except LinkLost:
                block = peer.block(len(seen))
                await peer.close()
                peer = await Peer.to(WebSocketConnector(proxy.url))
                assert (await peer.hello(resume=block))["type"] == "session.welcome"
        assert seen == list(range(1, 20_002 + told))
        assert frame["job_id"] == accepted["payload"]["job_id"]
        await peer.close()


async def test_leaving_a_server_ends_its_links_neither_sessions_nor_jobs(
    make: MakeRuntime,
) -> None:
    runtime = make()
    async with runtime.serve() as server:
        peers = [await Peer.to(WebSocketConnector(server.url)) for _ in range(2)]
        for peer in peers:
            await peer.hello()
        stepper, job_id = await started(runtime, peers[0])
    for peer in peers:
        assert await peer.ended() == []
        await peer.close()
    inside = await Peer.to(runtime)
    assert (await inside.hello(resume=peers[0].block(0)))["type"] == "session.welcome"
    stepper.end.set()
    assert seqs(await inside.follow(job_id)) == [1]
    await inside.close()


async def test_a_server_with_idle_clients_stops_within_a_bound(make: MakeRuntime) -> None:
    runtime = make()
    server = runtime.serve()
    await server.__aenter__()
    sockets = []
    for _ in range(2):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        sockets.append(writer)
        writer.write(
            b"GET /arcp HTTP/1.1\r\nHost: localhost\r\n"
            b"Upgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert b"101" in await reader.readline()
    async with asyncio.timeout(10):  # neither client answers the goodbye
        await server.close()
    for writer in sockets:
        writer.close()


async def test_routes_in_an_application_of_somebody_else(make: MakeRuntime) -> None:
    runtime = make()
    counting(runtime)
    app = web.Application()
    runtime.add_routes(app, "/agents")

    async def health(request: web.Request) -> web.Response:
        return web.Response(text="ok")

    app.router.add_get("/health", health)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    peer = await Peer.to(WebSocketConnector(f"ws://127.0.0.1:{port}/agents"))
    await peer.hello()
    assert (await peer.run("count", 1))[1][-1]["payload"]["result"] == "counted"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/health") as reply:
            assert await reply.text() == "ok"
        async with session.get(f"http://127.0.0.1:{port}/agents") as reply:
            assert reply.status == 400
    await runner.cleanup()
    assert await peer.ended() == []
    await peer.close()


async def test_pages_of_other_sites_come_in_only_with_a_token(make: MakeRuntime) -> None:
    evil = {"Origin": "https://evil.example"}
    async with make().serve() as server:
        with pytest.raises(ConnectFailed):
            await WebSocketConnector(server.url, headers=evil).connect()
        own = {"Origin": f"http://127.0.0.1:{server.port}"}
        await (await WebSocketConnector(server.url, headers=own).connect()).close()
    async with make(auth={"t": "p"}).serve() as server:
        peer = await Peer.to(WebSocketConnector(server.url, headers=evil))
        assert (await peer.hello(token="t"))["type"] == "session.welcome"
        await peer.close()


async def test_a_frame_over_the_limit_closes_the_link_and_the_session_resumes(
    make: MakeRuntime,
) -> None:
    runtime = make(limits=Limits(frame_bytes=10_000, event_bytes=10_000))
    async with runtime.serve() as server:
        peer = await Peer.to(WebSocketConnector(server.url))
        await peer.hello()
        await peer.raw(b" " * 200_000)
        with pytest.raises(LinkLost) as lost:
            await peer.transport.receive()
        assert lost.value.close_code == 1009
        await peer.close()
        fresh = await Peer.to(WebSocketConnector(server.url))
        assert (await fresh.hello(resume=peer.block(0)))["type"] == "session.welcome"
        await fresh.close()


async def test_a_closed_runtime_turns_clients_away(
    make: MakeRuntime, caplog: pytest.LogCaptureFixture
) -> None:
    runtime = make()
    async with runtime.serve() as server:
        await runtime.close()
        transport = await WebSocketConnector(server.url).connect()
        with pytest.raises(LinkLost):
            await transport.receive()
        await transport.close()
    assert not caplog.records


STDIO = """
import asyncio, sys
from arcp_client.runtime import Runtime

runtime = Runtime()

@runtime.agent("count")
async def count(input, job):
    print("this is no frame")
    for n in range(input):
        await job.progress(n, input)
    return "counted"

asyncio.run(runtime.serve_stdio())
"""


async def test_a_job_over_stdio(tmp_path: Path) -> None:
    script = tmp_path / "agent.py"
    script.write_text(STDIO)
    connector = StdioConnector([sys.executable, str(script)], cwd=Path.cwd())
    peer = await Peer.to(connector)
    assert (await peer.hello())["type"] == "session.welcome"
    _, frames = await peer.run("count", 500)
    assert seqs(frames) == list(range(1, 502))
    await peer.raw(b"not json")
    assert (await peer.read())["payload"]["code"] == "INVALID_REQUEST"
    await peer.raw(b"")  # a blank line is nothing
    assert (await peer.ask("session.list_jobs"))["type"] == "session.jobs"
    await peer.close()


async def test_a_closed_runtime_cannot_be_connected_to(make: MakeRuntime) -> None:
    runtime = make(name="mine")
    assert runtime.target == "runtime://mine"
    await runtime.close()
    await runtime.close()
    with pytest.raises(ConnectFailed) as failed:
        await runtime.connect()
    assert failed.value.permanent
    with pytest.raises(ConnectFailed):
        async with runtime.serve():
            pass


async def test_closing_ends_links_also_those_that_say_nothing(make: MakeRuntime) -> None:
    runtime = make()
    async with runtime.serve() as server:
        silent = await Peer.to(WebSocketConnector(server.url))
        peer = await Peer.to(WebSocketConnector(server.url))
        await peer.hello()
        await runtime.close()
        assert await peer.ended() == []
        await silent.ended()
        await silent.close()
        await peer.close()


async def test_what_the_client_keeps_in_its_context_does_not_reach_an_agent(
    runtime: Runtime, open_peer: Any
) -> None:
    import contextvars

    secret = contextvars.ContextVar("secret", default="nothing")
    secret.set("mine")

    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> str:
        return secret.get()

    peer = await open_peer(runtime)
    assert (await peer.run("a"))[1][-1]["payload"]["result"] == "nothing"


async def test_a_frame_is_json_of_one_line(runtime: Runtime, open_peer: Any) -> None:
    @runtime.agent("a")
    async def a(input: Any, job: JobContext) -> Any:
        await job.log("two\nlines \u2028 \ud83d\ude00 \ud800")
        return "\ud800"

    peer = await open_peer(runtime)
    await peer.submit("a")
    for _ in range(2):
        data = await peer.transport.receive()
        assert b"\n" not in data
        json.loads(data)


def stdio(tmp_path: Path, frames: list[bytes], *options: str, text: str = STDIO) -> list[Any]:
    """What a runtime answers to a parent that writes all at once and closes its end."""
    script = tmp_path / "agent.py"
    script.write_text(text)
    done = subprocess.run(
        [sys.executable, str(script), *options],
        input=b"\n".join(frames), capture_output=True, timeout=40, check=True, cwd=Path.cwd(),
    )  # fmt: skip
    return [json.loads(line) for line in done.stdout.splitlines()]


HELLO = b'{"arcp":"1.1","id":"h","type":"session.hello","payload":{"capabilities":{}}}'


def test_over_stdio_what_came_is_answered_before_the_end(tmp_path: Path) -> None:
    (welcome,) = stdio(tmp_path, [HELLO])
    assert welcome["type"] == "session.welcome"
    submit = b'{"arcp":"1.1","id":"s","type":"job.submit","payload":{"agent":"count","input":3}}'
    frames = stdio(tmp_path, [HELLO, submit, b"not json", b'{"type":"session.list_jobs","id":"l"}'])
    assert [f["type"] for f in frames][:2] == ["session.welcome", "job.accepted"]
    refused = [f for f in frames if f["type"] == "session.error"]
    assert [f["payload"].get("request_id") for f in refused] == [None, "l"]  # not negotiated


def test_over_stdio_what_came_is_answered_also_by_a_runtime_with_a_disk(tmp_path: Path) -> None:
    durable = STDIO.replace("import Runtime", "import Runtime, SqliteEventLog").replace(
        "Runtime()", "Runtime(event_log=SqliteEventLog(sys.argv[1]))"
    )
    submit = b'{"arcp":"1.1","id":"s","type":"job.submit","payload":{"agent":"count","input":3}}'
    frames = stdio(tmp_path, [HELLO, submit], str(tmp_path / "db"), text=durable)
    assert [f["type"] for f in frames][:2] == ["session.welcome", "job.accepted"]


STUBBORN = """
import asyncio, contextlib
from arcp_client import Client, Limits, Runtime

async def main():
    started = asyncio.Event()
    runtime = Runtime(limits=Limits(kill_grace=0))

    @runtime.agent("stubborn")
    async def stubborn(input, job):
        started.set()
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.Event().wait()

    async with Client(runtime) as client:
        await client.submit("stubborn")
        await started.wait()
        await runtime.close()
    print("closed")

asyncio.run(main())
print("over")
"""


def test_a_program_ends_though_an_agent_swallows_its_end(tmp_path: Path) -> None:
    script = tmp_path / "program.py"
    script.write_text(STUBBORN)
    done = subprocess.run(
        [sys.executable, str(script)],
        capture_output=True, text=True, timeout=40, check=True, cwd=Path.cwd(),
    )  # fmt: skip
    assert done.stdout.split() == ["closed", "over"]
    assert "abandoned" in done.stderr
