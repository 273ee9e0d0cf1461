"""Event streams that end or break: which are opened again, and how a loss is reported."""

from __future__ import annotations

import asyncio
import json

import pytest

from arcp_client.errors import LinkLost
from tests.unit.acp.http.kit import Agent, Stream, answer, chunk, event, linked, request, serving

pytestmark = pytest.mark.usefixtures("nothing_is_left")


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcp_client.acp._http.stream._FIRST_PAUSE", 0.001)
    monkeypatch.setattr("arcp_client.acp._http.stream._LONGEST_PAUSE", 0.001)


async def reopened(agent: Agent) -> Stream:
    stream = await agent.streams.get()
    assert stream.headers["acp-connection-id"] == "c1"
    return stream


async def test_a_stream_that_ends_properly_is_opened_again() -> None:
    async with serving() as agent, linked(agent) as (link, stream):
        for number in range(5):
            await stream.event(chunk(number))
            await stream.end()
            stream = await reopened(agent)
            assert "last-event-id" not in stream.headers
        await stream.event(chunk(5))
        received = [json.loads(await link.receive()) for _ in range(6)]
        assert received == [chunk(number) for number in range(6)]


@pytest.mark.parametrize("session", ["", "s1"])
async def test_a_broken_stream_without_ids_ends_the_link_and_says_what_may_be_lost(
    session: str, version: str
) -> None:
    """Rule A10."""
    async with serving() as agent, linked(agent) as (link, stream):
        if session:
            await link.send(request("session/prompt", session, id=1))
            stream = await agent.streams.get()
        await stream.event(chunk(1))
        stream.cut()
        assert json.loads(await link.receive()) == chunk(1)
        name = f"session {session}" if session else "the connection"
        if version == "cut":
            name = "(session s1|the connection)"  # both have lost their connection of TCP
        words = rf"event stream of {name} from http://127.*broke.*may be missing.*load or resume"
        for _ in range(2):
            with pytest.raises(LinkLost, match=words):
                await link.receive()
        with pytest.raises(LinkLost, match=words):
            await link.send(request("m", id=2))


async def test_a_cut_at_any_byte_gives_whole_messages_in_order_and_then_the_loss() -> None:
    stream_bytes = b":\n\n" + b"".join(event({"n": f"é{n}"}) for n in range(3)) + b":\n\n"
    for cut in range(len(stream_bytes)):
        async with serving() as agent, linked(agent) as (link, stream):
            await stream.raw(stream_bytes[:cut])
            stream.cut()
            received = []
            with pytest.raises(LinkLost, match="may be missing"):
                while True:
                    received.append(json.loads(await link.receive()))
            whole = stream_bytes[:cut].count(b"}\n\n")
            assert received == [{"n": f"é{n}"} for n in range(whole)]


@pytest.mark.parametrize("proper", [True, False])
async def test_a_stream_with_ids_is_continued_after_the_last_one(proper: bool) -> None:
    sent = [event({"n": n}, id=f"e{n}") for n in range(4)]
    stream_bytes = b"".join(sent)
    ends = [len(b"".join(sent[: n + 1])) for n in range(4)]
    for cut in range(ends[0], len(stream_bytes)):
        async with serving() as agent, linked(agent) as (link, stream):
            await stream.raw(stream_bytes[:cut])
            if proper:
                await stream.end()
            else:
                stream.cut()
            stream = await reopened(agent)
            got = sum(end <= cut for end in ends)
            assert stream.headers["last-event-id"] == f"e{got - 1}"
            await stream.raw(b"".join(sent[got:]))
            received = [json.loads(await link.receive()) for _ in range(4)]
            assert received == [{"n": n} for n in range(4)]


async def test_an_end_inside_an_event_is_no_proper_end() -> None:
    async with serving() as agent, linked(agent) as (link, stream):
        await stream.raw(b"data: {}\n")
        await stream.end()
        with pytest.raises(LinkLost, match="ended inside an event"):
            await link.receive()


async def test_a_body_without_a_length_has_no_proper_end(version: str) -> None:
    if version:
        pytest.skip("HTTP/2 always marks the end")
    async with serving() as agent:
        agent.framing = "Content-Type: text/event-stream\r\nConnection: close"
        async with linked(agent) as (link, stream):
            stream.writer.write(event(chunk(1)))
            stream.cut()
            assert json.loads(await link.receive()) == chunk(1)
            with pytest.raises(LinkLost, match="closed the connection"):
                await link.receive()


@pytest.mark.parametrize("status", [404, 410, 401])
async def test_a_stream_that_may_not_be_opened_again_ends_the_link(status: int) -> None:
    async with serving() as agent, linked(agent) as (link, stream):
        agent.replies["GET"] = [answer(status)]
        await stream.end()
        with pytest.raises(LinkLost, match=f"cannot be opened again.*HTTP {status}"):
            await link.receive()


async def test_a_server_that_still_has_the_old_stream_or_is_busy_is_asked_again() -> None:
    async with serving() as agent, linked(agent) as (link, stream):
        agent.replies["GET"] = [answer(409), answer(503), answer(429), answer(409)]
        await stream.end()
        stream = await reopened(agent)
        await stream.event(chunk(1))
        assert json.loads(await link.receive()) == chunk(1)


async def test_a_server_that_stays_away_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arcp_client.acp._http.stream._REOPENING", 0.05)
    async with serving() as agent, linked(agent) as (link, stream):
        agent.replies["GET"] = [answer(503)] * 10_000
        await stream.end()
        with pytest.raises(LinkLost, match=r"opened again within 0\.05 s.*HTTP 503"):
            await link.receive()


async def test_the_pause_that_the_server_sets_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    paused: list[float] = []
    sleep = asyncio.sleep

    async def noted(seconds: float) -> None:
        if seconds > 0:
            paused.append(seconds)
        await sleep(0)

    monkeypatch.setattr("arcp_client.acp._http.stream.asyncio.sleep", noted)
    async with serving() as agent, linked(agent) as (_link, stream):
        await stream.raw(b"retry: 2500\n\n")
        await stream.end()
        await reopened(agent)
    assert paused[0] == pytest.approx(2.5, abs=0.01)
