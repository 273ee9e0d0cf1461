"""A client against peers that take less, offer less or answer oddly, over a real WebSocket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from arcp_client import Buffer, Client, events
from arcp_client.errors import LocalProtocolError, RemoteProtocolError
from tests.backpressure.peer import serving
from tests.backpressure.script import FEATURES, Script


class OnePage(Script):
    """Whatever page is asked for, it is the same, and another one follows."""

    def answer(self, message: dict[str, Any]) -> Iterator[bytes]:
        if message["type"] != "session.list_jobs":
            yield from super().answer(message)
            return
        self.heard.append(message)
        jobs = [{"job_id": "job_1", "agent": "flood@1", "status": "running"}]
        page = {"request_id": message["id"], "jobs": jobs, "next_cursor": "again"}
        yield self.frame("session.jobs", page)


async def test_a_listing_whose_cursor_repeats_ends_with_an_error() -> None:
    """The pages would go on for ever."""
    script = OnePage()
    async with serving(script) as peer, Client(peer.url) as client:
        listed = []
        with pytest.raises(RemoteProtocolError, match="repeats a cursor"):
            async for job in client.jobs():
                listed.append(job.job_id)  # noqa: PERF401
    assert listed == ["job_1", "job_1"]
    asked = [m["payload"].get("cursor") for m in script.heard if m["type"] == "session.list_jobs"]
    assert asked == [None, "again"]


@pytest.mark.parametrize("key", [None, "key"])
async def test_a_request_above_the_peers_limit_fails_once_and_the_session_goes_on(
    key: str | None,
) -> None:
    """It is neither sent again after the reconnect nor waited for."""
    script = Script()
    async with serving(script, largest=100_000) as peer, Client(peer.url) as client:
        with pytest.raises(LocalProtocolError, match="more than this runtime accepts"):
            await client.submit("flood", {"text": "x" * 200_000}, idempotency_key=key)
        job = await client.submit("flood", {"events": 3, "result": "done"})
        assert (await job.result()).value == "done"
        assert peer.links <= 2
    assert [m["payload"]["agent"] for m in script.heard if m["type"] == "job.submit"] == ["flood"]


async def test_what_was_not_negotiated_is_never_sent() -> None:
    """Without ``ack`` and ``heartbeat`` in the welcome there are no acks and no pings."""
    script = Script(features=[name for name in FEATURES if name not in ("ack", "heartbeat")])
    handled: list[int | None] = []
    async with serving(script) as peer, Client(peer.url, buffer=Buffer(soft=64)) as client:

        @client.on(events.Log)
        async def handle(event: events.Log) -> None:
            handled.append(event.seq)

        job = await client.submit("flood", {"events": 2000, "result": 1})
        await job.result()
        await client.drain()
    assert handled == list(range(1, 2001))
    assert {m["type"] for m in script.heard} == {"session.hello", "job.submit", "session.close"}
