"""The bridge as an ASGI application: who is served, over real sockets, and what a shutdown does."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
import uvicorn

mcp = pytest.importorskip("mcp")

from mcp.client.streamable_http import (  # noqa: E402
    create_mcp_http_client,
    streamable_http_client,
)

from arcp_client import Client, events  # noqa: E402
from arcp_client.mcp import http_app, server  # noqa: E402

SECRET = "t0ken-of-mcp"


class Uvicorn(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


@asynccontextmanager
async def served(app: Any, port: int) -> AsyncIterator[str]:
    config = uvicorn.Config(
        app, host="127.0.0.1", port=port, log_config=None, ws="none", timeout_graceful_shutdown=1
    )
    web = Uvicorn(config)
    task = asyncio.create_task(web.serve())
    while not web.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        web.should_exit = True
        await task


@pytest.fixture
async def bridge(client: Client) -> AsyncIterator[Any]:
    bridge = server(client)
    yield bridge
    await bridge.close()


async def status(url: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as session, session.post(url, headers=headers) as answer:
        await answer.read()
        return answer.status


async def test_calls_over_http_bring_results_and_notifications(
    bridge: Any, unused_tcp_port: int
) -> None:
    seen: list[Any] = []

    async def progress(current: float, total: float | None, message: str | None) -> None:
        seen.append((current, total))

    app = http_app(bridge)
    async with served(app, unused_tcp_port) as url, mcp.Client(url) as tools:
        answer = await tools.call_tool("report", {"title": "May"}, progress_callback=progress)
        assert answer.structured_content["result"] == {"title": "May", "pages": [1]}
    assert seen == [(1.0, 3.0), (3.0, 3.0)]


async def test_a_call_that_is_cancelled_over_http_cancels_its_job(
    bridge: Any, client: Client, agents: Any, unused_tcp_port: int
) -> None:
    app = http_app(bridge)
    async with served(app, unused_tcp_port) as url, mcp.Client(url) as tools:
        call = asyncio.create_task(tools.call_tool("wait", {}))
        await agents.started.wait()
        (job,) = client.open_jobs()
        call.cancel()
        await asyncio.wait({call})
        assert [event.code async for event in job.events(events.Failed)] == ["CANCELLED"]


async def call_with_key(url: str, key: str, tool: str, **given: Any) -> Any:
    """Call a tool from a new session whose requests have the header ``Idempotency-Key``."""
    async with (
        create_mcp_http_client(headers={"Idempotency-Key": key}) as http,
        mcp.Client(streamable_http_client(url, http_client=http)) as tools,
    ):
        return await tools.call_tool(tool, given)


async def test_the_header_with_an_idempotency_key_is_the_key_of_the_submit(
    bridge: Any, client: Client, unused_tcp_port: int
) -> None:
    async with served(http_app(bridge), unused_tcp_port) as url:
        first = await call_with_key(url, "k1", "report", title="May")
        again = await call_with_key(url, "k1", "report", title="May")
        other = await call_with_key(url, "k2", "report", title="May")
        submitted = await client.submit("report", {"title": "May"}, idempotency_key="k1")
    ids = [answer.structured_content["job_id"] for answer in (first, again, other)]
    assert ids[0] == ids[1] != ids[2]
    assert submitted.id == ids[0]


async def test_another_body_under_one_key_is_refused_by_name(
    bridge: Any, unused_tcp_port: int
) -> None:
    async with served(http_app(bridge), unused_tcp_port) as url:
        await call_with_key(url, "k1", "report", title="May")
        for tool, given in (("report", {"title": "June"}), ("echo", {"input": {"title": "May"}})):
            refused = await call_with_key(url, "k1", tool, **given)
            assert refused.is_error
            assert "DUPLICATE_KEY" in str(refused.structured_content)


async def test_a_server_that_ends_leaves_the_jobs_running(
    bridge: Any, client: Client, agents: Any, unused_tcp_port: int
) -> None:
    calls: list[asyncio.Task[Any]] = []

    async def call(url: str) -> None:
        with contextlib.suppress(Exception, asyncio.CancelledError):
            async with mcp.Client(url) as tools:
                await tools.call_tool("wait", {})

    async with served(http_app(bridge), unused_tcp_port) as url:
        calls.append(asyncio.create_task(call(url)))
        await agents.started.wait()
        (job,) = client.open_jobs()
        bridge.stop()
    calls[0].cancel()
    await asyncio.wait(calls)
    agents.go.set()
    assert (await job.result()).value == "late"


async def test_a_token_is_required_if_there_is_one(bridge: Any, unused_tcp_port: int) -> None:
    async with served(http_app(bridge, token=SECRET), unused_tcp_port) as url:
        assert await status(url) == 401
        assert await status(url, Authorization="Bearer wrong") == 401
        assert await status(url, Authorization=f"Basic {SECRET}") == 401
        assert await status(url, Authorization=f"Bearer {SECRET}") not in {401, 403}


async def test_other_host_names_and_pages_of_other_sites_are_refused(
    bridge: Any, unused_tcp_port: int
) -> None:
    app = http_app(bridge, allowed_hosts=["tools.example"])
    async with served(app, unused_tcp_port) as url:
        assert await status(url, Host="evil.example") == 403
        assert await status(url, Host="tools.example") != 403
        assert await status(url, Origin="https://evil.example") == 403
        assert await status(url, Origin=f"http://127.0.0.1:{unused_tcp_port}") != 403


async def test_without_a_token_only_this_machine_is_served(bridge: Any) -> None:
    answers: list[Any] = []

    async def send(message: Any) -> None:
        answers.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b""}

    scope = {
        "type": "http", "method": "POST", "path": "/mcp", "query_string": b"",
        "headers": [(b"host", b"192.0.2.1")], "server": ("192.0.2.1", 80),
        "client": ("192.0.2.2", 5000), "scheme": "http", "http_version": "1.1",
    }  # fmt: skip
    await http_app(bridge)(scope, receive, send)
    assert answers[0]["status"] == 403


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"token": ""}, "token must not be empty"),
        ({"path": "mcp"}, "path must begin with /"),
        ({"allowed_hosts": ["http://x"]}, "is not a host name"),
    ],
)
def test_wrong_options_are_refused(bridge: Any, options: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        http_app(bridge, **options)
