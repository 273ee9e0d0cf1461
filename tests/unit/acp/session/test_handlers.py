"""Handlers, hooks and the end: what raises or hangs harms nobody else, nothing is lost quietly."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from arcp_client.acp import AcpLimits, updates
from arcp_client.errors import ClientClosed, HandlerError, LocalProtocolError
from tests.unit.acp.kit import chunk, connected, opened, settled, words


async def prompted(agent: Any, session: Any, *messages: Any) -> Any:
    prompting = asyncio.ensure_future(session.prompt("go"))
    call = await agent.next("session/prompt")
    await agent.send(*messages, agent.answer(call, {"stopReason": "end_turn"}))
    return await prompting


@pytest.mark.parametrize("error", [RuntimeError("no"), asyncio.CancelledError()])
async def test_a_handler_that_raises_is_reported_with_its_update_and_the_rest_go_on(
    error: BaseException,
) -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        failures: list[HandlerError] = []
        client.on_error(failures.append)
        got: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def bad(update: Any) -> None:
            if words(update) == "1":
                raise error

        session.subscribe(lambda u: got.append(words(u)), updates.AgentMessageChunk)
        await prompted(agent, session, *map(chunk, range(4)))
        assert got == ["0", "1", "2", "3"]
        assert len(failures) == 1
        assert words(failures[0].event) == "1"
        assert failures[0].__cause__ is error


async def test_a_handler_that_never_ends_is_cut_by_its_limit() -> None:
    async with connected(limits=AcpLimits(handler=0.01)) as (agent, client):
        session = await opened(agent, client)
        failures: list[HandlerError] = []
        client.on_error(failures.append)

        @session.on(updates.AgentMessageChunk)
        async def hang(_: Any) -> None:
            await asyncio.Event().wait()

        await prompted(agent, session, chunk("a"), chunk("b"))
        assert [type(f.__cause__) for f in failures] == [TimeoutError, TimeoutError]


async def test_a_handler_that_blocks_keeps_the_order() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        done: list[str] = []

        @session.on(updates.AgentMessageChunk)
        def block(update: Any) -> None:
            time.sleep(0.001)
            done.append(words(update))

        await prompted(agent, session, *map(chunk, range(5)))
        assert done == ["0", "1", "2", "3", "4"]


async def test_what_a_hook_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def hook(_: Any) -> None:
        raise RuntimeError("hook")

    async with connected() as (agent, client):
        client.on_strange(hook)
        client.on_error(hook)
        session = await opened(agent, client)
        session.subscribe(hook, updates.AgentMessageChunk)
        await agent.line(b"nonsense")
        await prompted(agent, session, chunk("a"))
    assert caplog.text.count("a hook failed") == 2


async def test_what_can_be_registered() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        with pytest.raises(TypeError, match=r"@session\.on\(updates"):
            session.on(lambda _: None)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="name the kinds"):
            session.subscribe(lambda _: None)
        with pytest.raises(TypeError, match="not an update class"):
            session.on(int)  # type: ignore[type-var]
        with pytest.raises(TypeError, match="a function"):
            session.subscribe(5, updates.Plan)  # type: ignore[arg-type]
        trace: list[str] = []
        client.subscribe(lambda _: trace.append("all"), updates.Update)
        own = session.subscribe(lambda _: trace.append("own"), updates.AgentMessageChunk)
        session.subscribe(lambda _: trace.append("other"), updates.Plan, updates.ToolCall)
        await prompted(agent, session, chunk("a"))
        own.dispose()
        own.dispose()
        await prompted(agent, session, chunk("a"))
        assert trace == ["all", "own", "all"]


# ----------------------------------------------------------------------- iterators


async def test_iterators_are_independent_and_come_late() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        early = session.updates()
        await prompted(agent, session, *map(chunk, range(3)))
        late, new = session.updates(updates.AgentMessageChunk), session.updates(history=False)
        await prompted(agent, session, chunk(3))
        closing = asyncio.ensure_future(session.close())
        await agent.result(await agent.next("session/close"), {})
        await closing
        assert [words(u) async for u in early] == ["0", "1", "2", "3"]
        assert [words(u) async for u in late] == ["0", "1", "2", "3"]
        assert [words(u) async for u in new] == ["3"]


async def test_an_iterator_says_what_it_does_not_have() -> None:
    limits = AcpLimits(history=2)
    async with connected(limits=limits) as (agent, client):
        session = await opened(agent, client)
        await prompted(agent, session, *map(chunk, range(5)))
        stream = session.updates()
        gap = await anext(stream)
        assert isinstance(gap, updates.Gap)
        assert (gap.missed, gap.reason) == (3, "not_retained")
        assert [words(await anext(stream)) for _ in range(2)] == ["3", "4"]


async def test_a_full_iterator_holds_the_session_back_and_is_cut_when_nobody_asks() -> None:
    from arcp_client.policy import Buffer

    limits = AcpLimits(buffer=Buffer(soft=4), stall=0.02)
    async with connected(limits=limits) as (agent, client):
        session = await opened(agent, client)
        stream = session.updates()
        asked = session.updates()
        reading = asyncio.ensure_future(_all(asked, 10))
        await prompted(agent, session, *map(chunk, range(10)))
        assert await reading == [str(n) for n in range(10)]
        first = await anext(stream)
        assert isinstance(first, updates.Gap)
        assert first.reason == "overflow"
        assert first.missed >= 4


async def _all(stream: Any, count: int) -> list[str]:
    return [words(await anext(stream)) for _ in range(count)]


async def test_an_iterator_that_is_forgotten_holds_nothing_back() -> None:
    from arcp_client.policy import Buffer

    async with connected(limits=AcpLimits(buffer=Buffer(soft=2), stall=600)) as (agent, client):
        session = await opened(agent, client)
        async for _ in _first_only(agent, session):
            break
        stream = session.updates()
        await stream.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(stream)
        await prompted(agent, session, *map(chunk, range(10)))


async def _first_only(agent: Any, session: Any) -> Any:
    await prompted(agent, session, chunk("x"))
    async for update in session.updates():
        yield update


# ----------------------------------------------------------------------- the end


async def test_closing_handles_what_has_arrived() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        done: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def slow(update: Any) -> None:
            for _ in range(5):
                await asyncio.sleep(0)
            done.append(words(update))

        stream = session.updates(history=False)
        await agent.send(*map(chunk, range(20)))
        await settled()
        await client.close()
        assert done == [str(n) for n in range(20)]
        with pytest.raises(ClientClosed):
            [u async for u in stream]
        with pytest.raises(ClientClosed):
            await session.prompt("late")
        assert await client.wait_closed() is None
        await client.close()


async def test_closing_does_not_wait_for_ever_and_says_what_it_drops(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        session.subscribe(lambda _: asyncio.Event().wait(), updates.AgentMessageChunk)
        waiting = asyncio.ensure_future(session.prompt("go"))
        await agent.next("session/prompt")
        await agent.send(*map(chunk, range(3)))
        await settled()
        await client.close(drain=0.01)
        with pytest.raises(ClientClosed):
            await waiting
    assert "2 updates of fake were not handled before the end" in caplog.text


async def test_closing_inside_a_handler_lets_it_end() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        ended: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(_: Any) -> None:
            await client.close()
            ended.append("handler")

        await settled()
        await agent.send(chunk("a"))
        await client.wait_closed() if client._connection else None
        await settled()
        assert ended == ["handler"]


async def test_many_close_at_once() -> None:
    async with connected() as (agent, client):
        await opened(agent, client)
        await asyncio.gather(*(client.close() for _ in range(5)))


async def test_a_client_connects_once_and_first() -> None:
    async with connected() as (_, client):
        with pytest.raises(LocalProtocolError, match="was already connected"):
            await client.connect()
    from arcp_client.acp import AcpClient

    with pytest.raises(LocalProtocolError, match="not connected"):
        await AcpClient(["true"]).new_session()
