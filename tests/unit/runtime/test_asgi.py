"""The WebSocket endpoint of a runtime under ASGI, with the checks and limits of its own server."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from arcp_client import Limits, Runtime
from tests.unit.asgi_kit import SOON, Socket, get, headers, lifespan, websocket


def hello(token: str | None = None) -> str:
    return json.dumps(
        {
            "arcp": "1.1",
            "id": "01M8HT72GDPGTBE0N3SYQDETQG",
            "type": "session.hello",
            "payload": {
                "client": {"name": "test", "version": "1"},
                "auth": {"scheme": "bearer", "token": token} if token else {"scheme": "none"},
                "capabilities": {"encodings": ["json"]},
            },
        }
    )


async def welcomed(socket: Socket, token: str | None = None) -> dict[str, Any]:
    """Say hello; returns the answer."""
    assert (await socket.next())["type"] == "websocket.accept"
    await socket.send(hello(token))
    message = await socket.next()
    assert message["type"] == "websocket.send"
    answer: dict[str, Any] = json.loads(message["text"])
    return answer


async def denied(socket: Socket) -> tuple[int, str]:
    start, body = await socket.next(), await socket.next()
    assert start["type"] == "websocket.http.response.start"
    return start["status"], body["body"].decode()


async def test_a_client_is_welcomed_and_a_wrong_token_refused() -> None:
    async with Runtime(auth={"right": "me"}) as runtime:
        app = runtime.asgi()
        async with websocket(app) as socket:
            assert (await welcomed(socket, "right"))["type"] == "session.welcome"
        async with websocket(app) as socket:
            answer = await welcomed(socket, "wrong")
            assert answer["payload"]["code"] == "UNAUTHENTICATED"


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"headers": headers(host="evil.example")}, 403),
        ({"headers": headers(origin="https://evil.example")}, 403),
        ({"headers": []}, 400),
        ({"headers": [*headers(), (b"host", b"localhost")]}, 400),
    ],
    ids=str,
)
async def test_hosts_and_origins_are_checked(change: dict[str, Any], status: int) -> None:
    async with Runtime() as runtime, websocket(runtime.asgi(), **change) as socket:
        assert (await denied(socket))[0] == status


async def test_an_allowed_host_is_served() -> None:
    async with Runtime() as runtime:
        app = runtime.asgi(allowed_hosts=["jobs.example"])
        sent = headers(host="jobs.example", origin="https://jobs.example")
        async with websocket(app, headers=sent) as socket:
            assert (await welcomed(socket))["type"] == "session.welcome"


async def test_a_server_without_the_extension_is_told_to_close() -> None:
    async with Runtime() as runtime:
        bad = headers(host="evil.example")
        async with websocket(runtime.asgi(), headers=bad, extensions={}) as socket:
            assert (await socket.next())["type"] == "websocket.close"


async def test_connections_beyond_the_limit_are_refused() -> None:
    async with Runtime(limits=Limits(connections=1)) as runtime:
        app = runtime.asgi()
        async with websocket(app) as first:
            await welcomed(first)
            async with websocket(app) as second:
                assert (await denied(second))[0] == 503
        async with websocket(app) as third:
            assert (await welcomed(third))["type"] == "session.welcome"


async def test_a_connection_without_a_hello_is_closed_after_the_time_for_it() -> None:
    limits = Limits(handshake_timeout=0.05)
    async with Runtime(limits=limits) as runtime, websocket(runtime.asgi()) as socket:
        assert (await socket.next())["type"] == "websocket.accept"
        told = [await socket.next(), await socket.next()]
        assert json.loads(told[0]["text"])["payload"]["code"] == "UNAUTHENTICATED"
        assert told[1]["type"] == "websocket.close"
        async with asyncio.timeout(SOON):
            await socket.ended.wait()


async def test_what_comes_before_the_welcome_is_limited_in_bytes() -> None:
    limits = Limits(handshake_bytes=1000)
    async with Runtime(limits=limits) as runtime, websocket(runtime.asgi()) as socket:
        assert (await socket.next())["type"] == "websocket.accept"
        await socket.send("x" * 2000)
        assert await socket.next() == {"type": "websocket.close", "code": 1009}
        async with asyncio.timeout(SOON):
            await socket.ended.wait()


async def test_after_the_welcome_a_frame_may_have_the_size_of_any_frame() -> None:
    limits = Limits(handshake_bytes=1000)
    async with Runtime(limits=limits) as runtime:
        kept: list[Any] = []

        @runtime.agent("keep")
        async def keep(input: Any, job: Any) -> None:
            kept.append(input)

        async with websocket(runtime.asgi()) as socket:
            session = (await welcomed(socket))["session_id"]
            payload = {"agent": "keep", "input": "x" * 5000}
            frame = {
                "arcp": "1.1",
                "id": "01M8HT72GDPGTBE0N3SYQDETQH",
                "type": "job.submit",
                "session_id": session,
                "payload": payload,
            }
            await socket.send(json.dumps(frame))
            while json.loads((await socket.next())["text"])["type"] != "job.result":
                pass
        assert kept == ["x" * 5000]


async def test_the_end_of_the_server_closes_the_connections_and_jobs_run_on() -> None:
    async with Runtime() as runtime:
        app = runtime.asgi()
        async with websocket(app) as socket:
            async with lifespan(app):
                await welcomed(socket)
            message = await socket.next()
            while message["type"] == "websocket.send":
                message = await socket.next()
            assert message["type"] == "websocket.close"
            async with asyncio.timeout(SOON):
                await socket.ended.wait()
        async with websocket(app) as socket:
            assert (await welcomed(socket))["type"] == "session.welcome"


async def test_a_closed_runtime_closes_the_connection() -> None:
    runtime = Runtime()
    await runtime.close()
    async with websocket(runtime.asgi()) as socket:
        assert (await socket.next())["type"] == "websocket.accept"
        assert (await socket.next())["type"] == "websocket.close"


async def test_a_request_that_is_no_websocket_is_told_so() -> None:
    async with Runtime() as runtime:
        answer = await get(runtime.asgi(), "/")
        assert answer.status == 426
        assert b"WebSocket" in answer.body
        with pytest.raises(ValueError, match="smtp"):
            await runtime.asgi()({"type": "smtp"}, None, None)  # type: ignore[arg-type]
