"""The windows of a browser share one stream; each gets what it asked for, from its position on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import aiohttp
import pytest

from arcp_client import Client
from tests.unit.web.kit import JSON, SOON, Gates, Parser, site


class Message(NamedTuple):
    """One message of a shared stream."""

    name: str
    kind: str
    mark: str
    data: Any


class Browser:
    """Opens a shared stream, as the worker of a browser does."""

    def __init__(self, http: aiohttp.ClientSession, url: Any) -> None:
        self._http = http
        self._url = url
        self.id = ""

    async def messages(self) -> AsyncIterator[Message]:
        """The messages of a new stream; `id` is set before the first one."""
        parser = RawParser()
        async with self._http.get(self._url / "api/streams") as response:
            assert response.status == 200, await response.text()
            while piece := await response.content.readany():
                for kind, data in parser.feed(piece):
                    if kind == "hello":
                        self.id = data.strip('"')
                        yield Message("", "hello", "", None)
                    else:
                        name, what, mark, text = data.split(" ", 3)
                        yield Message(name, what, mark, text)

    async def change(self, **body: Any) -> aiohttp.ClientResponse:
        """Begin or end a subscription."""
        url = self._url / f"api/streams/{self.id}"
        async with self._http.post(url, json=body, headers=JSON) as response:
            await response.read()
            return response


class RawParser(Parser):
    """Leaves the data of events as text."""

    def feed(self, data: bytes) -> list[Any]:
        found = []
        *blocks, self._rest = (self._rest + data).split(b"\n\n")
        for block in blocks:
            fields = dict(line.split(b": ", 1) for line in block.split(b"\n") if b": " in line)
            if b"event" in fields:
                found.append((fields[b"event"].decode(), fields[b"data"].decode()))
        return found


async def test_two_subscriptions_share_a_stream_and_keep_their_own_positions(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 20, "gate": "half"})
    async with site(client) as served, aiohttp.ClientSession() as http:
        browser = Browser(http, served.url(""))
        seen: dict[str, int] = {"a": 0, "b": 0}
        mark = ""
        async with asyncio.timeout(SOON):
            async for message in browser.messages():
                if message.kind == "hello":
                    answer = await browser.change(add="a", path=f"api/jobs/{job.id}/stream")
                    assert answer.status == 202
                if message.kind == "events":
                    seen[message.name] += message.data.count('"n":')
                    mark = message.mark
                    if message.name == "a" and seen["a"] >= 10 and not seen["b"]:
                        path = f"api/jobs/{job.id}/stream"
                        await browser.change(add="b", path=path, after=mark)
                        gates["half"].set()
                if message.kind == "closed" and message.name == "b":
                    break
        assert seen["a"] == 21
        assert 0 < seen["b"] <= 11, "it began after the position"


async def test_a_subscription_ends_when_it_is_removed(
    client: Client, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    async with site(client) as served, aiohttp.ClientSession() as http:
        browser = Browser(http, served.url(""))
        async with asyncio.timeout(SOON):
            async for message in browser.messages():
                if message.kind == "hello":
                    await browser.change(add="list", path="api/overview/stream")
                    await browser.change(add="job", path=f"api/jobs/{job.id}/stream")
                elif message.name == "job":
                    assert (await browser.change(remove="job")).status == 202
                    break
        gates["one"].set()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"add": "a", "path": "api/jobs/job_no/stream"}, 404),
        ({"add": "a", "path": "api/secret"}, 404),
        ({"add": "a b", "path": "api/overview/stream"}, 400),
        ({"add": 3}, 400),
    ],
)
async def test_a_subscription_that_is_refused_says_why(
    client: Client, body: dict[str, Any], status: int
) -> None:
    async with site(client) as served, aiohttp.ClientSession() as http:
        browser = Browser(http, served.url(""))
        async with asyncio.timeout(SOON):
            async for _ in browser.messages():
                assert (await browser.change(**body)).status == status
                break


async def test_a_stream_that_has_ended_takes_no_subscription(client: Client) -> None:
    async with site(client) as served, aiohttp.ClientSession() as http:
        browser = Browser(http, served.url(""))
        browser.id = "no-such-stream"
        assert (await browser.change(add="a", path="api/overview/stream")).status == 404
