"""Handlers and hooks of an ACP client run in the context of their registration (D19)."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from arcp_client.acp import AcpLimits, updates
from tests.unit.acp.kit import chunk, connected, opened, settled, words

cell: ContextVar[str] = ContextVar("cell", default="nowhere")


@pytest.mark.parametrize("limit", [None, 5.0], ids=["no limit", "limit"])
async def test_d19_handlers_see_the_context_of_their_registration(limit: float | None) -> None:
    seen: list[tuple[str, str, str]] = []
    async with connected(limits=AcpLimits(handler=limit)) as (agent, client):
        cell.set("client")

        @client.on(updates.AgentMessageChunk)
        async def shared(update: Any) -> None:
            await asyncio.sleep(0)
            seen.append(("client", cell.get(), words(update)))
            cell.set("changed")

        cell.set("open")
        session = await opened(agent, client)
        cell.set("session")

        @session.on(updates.AgentMessageChunk)
        async def own(update: Any) -> None:
            seen.append(("session", cell.get(), words(update)))
            await asyncio.sleep(0)
            seen.append(("session", cell.get(), words(update)))

        cell.set("sync")
        session.subscribe(
            lambda update: seen.append(("sync", cell.get(), words(update))),
            updates.AgentMessageChunk,
        )
        cell.set("prompt")
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(chunk("1"), chunk("2"), agent.answer(call, {"stopReason": "end_turn"}))
        await prompting
    assert seen == [
        (name, name, number)
        for number in ("1", "2")
        for name in ("client", "session", "session", "sync")
    ]


async def test_d19_a_handler_may_call_its_session_in_another_context() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        answered = asyncio.Event()

        @session.on(updates.AgentMessageChunk)
        async def nested(update: Any) -> None:
            if words(update) == "first":
                await session.prompt("again")  # returns at once: the lane waits for this handler
                answered.set()

        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(chunk("first"))
        again = await agent.next("session/prompt")
        await agent.send(agent.answer(again, {"stopReason": "end_turn"}))
        await asyncio.wait_for(answered.wait(), 10)
        await agent.send(agent.answer(call, {"stopReason": "end_turn"}))
        await prompting


async def test_d19_hooks_see_the_context_of_their_registration() -> None:
    seen: dict[str, str] = {}
    async with connected() as (agent, client):
        for name in ("error", "strange", "closed"):
            cell.set(name)
            hook = getattr(client, f"on_{name}")
            hook(lambda _, name=name: seen.update({name: cell.get()}))
        cell.set("notification")
        client.on_notification("_x/told")(lambda _: seen.update(notification=cell.get()))
        cell.set("request")

        @client.on_request("_x/ask")
        async def serve(_: Any) -> str:
            await asyncio.sleep(0)
            return cell.get()

        cell.set("later")
        session = await opened(agent, client)

        @session.on(updates.AgentMessageChunk)
        def broken(_: Any) -> None:
            raise ValueError

        await agent.line(b"not json")
        await agent.send({"jsonrpc": "2.0", "method": "_x/told", "params": {}}, chunk("1"))
        asked = agent.request("_x/ask")
        await agent.send(asked)
        assert (await agent.reply_to(asked))["result"] == "request"
        await settled()
    assert seen == {name: name for name in ("error", "strange", "closed", "notification")}
