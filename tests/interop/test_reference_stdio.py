"""The reference runtime over pipes: how long a line it reads, and what a client makes of that."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, Reconnect, StdioConnector, Timeouts, Transport
from arcp_client._wire.ids import new_id
from arcp_client.errors import LinkLost, LocalProtocolError
from tests.interop.kit import AT_ONCE
from tests.interop.rules import rule

pytestmark = pytest.mark.usefixtures("forked")

ARGV = [sys.executable, str(Path(__file__).with_name("stdio_child.py"))]
LIMIT = 64 * 1024


def frame(kind: str, payload: dict[str, Any]) -> dict[str, Any]:
    return {"arcp": "1.1", "id": new_id(), "type": kind, "payload": payload}


def submit(size: int) -> bytes:
    """A submit whose frame has just this many bytes."""
    empty = frame("job.submit", {"agent": "length", "input": ""})
    length = size - len(json.dumps(empty))
    empty["payload"]["input"] = "x" * length
    data = json.dumps(empty).encode()
    assert len(data) == size
    return data


async def greeted() -> Transport:
    """A child that has welcomed us, and no client that would guard it."""
    link = await StdioConnector(ARGV).connect()
    hello = {
        "client": {"name": "by hand", "version": "1"},
        "auth": {"scheme": "bearer", "token": "tok-alice"},
        "capabilities": {"encodings": ["json"], "features": []},
    }
    await link.send(json.dumps(frame("session.hello", hello)).encode())
    assert json.loads(await link.receive())["type"] == "session.welcome"
    return link


@rule("send-10")
async def test_without_a_guard_a_line_over_64_kib_ends_the_runtime() -> None:
    link = await greeted()
    try:
        await link.send(submit(LIMIT))
        types = [json.loads(await link.receive())["type"] for _ in range(2)]
        assert types == ["job.accepted", "job.result"]
        await link.send(submit(LIMIT + 1))
        with pytest.raises(LinkLost) as lost:
            await link.receive()
        assert lost.value.exit_code == 1
        assert "longer than limit" in lost.value.stderr
    finally:
        await link.close()


@rule("send-10")
async def test_with_it_the_request_is_refused_and_the_session_lives_on() -> None:
    client = Client(
        StdioConnector(ARGV),
        token="tok-alice",
        reconnect=Reconnect(wait=AT_ONCE),
        timeouts=Timeouts(request=20),
    )
    async with client:
        waiting = [
            asyncio.ensure_future(client.submit("length", "x" * size))
            for size in (10, LIMIT, 2 * LIMIT, LIMIT - 1000)
        ]
        first, long, longer, last = await asyncio.gather(*waiting, return_exceptions=True)
        for refused in (long, longer):
            assert isinstance(refused, LocalProtocolError)
            text = str(refused)
            assert "job.submit is " in text  # what
            assert "a Python runtime takes 65536 over stdio" in text  # where
            assert "refer to large data" in text  # what to do
        for job, size in ((first, 10), (last, LIMIT - 1000)):
            assert not isinstance(job, BaseException)
            assert (await job.result()).value == size
        assert client.stats().reconnects == 0
