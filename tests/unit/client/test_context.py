"""Handlers and hooks run in the context of their registration (D19)."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest
from reactivex import operators as ops

from arcp_client import Client, Order, Runtime, events
from arcp_client.errors import HandlerError
from arcp_client.rx import concat_map_async
from tests.unit.client.conftest import Gates

cell: ContextVar[str] = ContextVar("cell", default="nowhere")


@pytest.mark.parametrize("order", list(Order))
@pytest.mark.parametrize("connected", [False, True], ids=["before connect", "after"])
async def test_d19_handlers_see_the_context_of_their_registration(
    runtime: Runtime, order: Order, connected: bool
) -> None:
    seen: list[tuple[str, str]] = []
    client = Client(runtime)
    if connected:
        cell.set("connect")
        await client.connect()
    for name in ("first", "second"):
        cell.set(name)

        @client.on(events.Log, order=order)
        async def handler(event: events.Log, name: str = name) -> None:
            await asyncio.sleep(0)
            seen.append((name, cell.get()))

    cell.set("sync")
    client.on(events.Log, order=order)(lambda _: seen.append(("sync", cell.get())))
    cell.set("submit")
    async with client:
        await (await client.submit("say", ["a", "b"])).result()
        await client.drain()
    assert sorted(seen) == [(name, name) for name in ("first", "second", "sync") for _ in "ab"]


async def test_d19_what_a_handler_registers_has_the_context_of_that_handler(
    runtime: Runtime, gates: Gates
) -> None:
    seen: list[str] = []
    async with Client(runtime) as client:

        @client.on(events.Log)
        async def outer(event: events.Log) -> None:
            if event.message == "before":
                cell.set("outer")
                client.on(events.Completed)(lambda _: seen.append(cell.get()))
                gates["g"].set()

        await (await client.submit("gated", "g")).result()
        await client.drain()
    assert seen == ["outer"]


async def test_d19_hooks_see_the_context_of_their_registration(runtime: Runtime) -> None:
    seen: dict[str, str] = {}
    told = asyncio.Event()
    client = Client(runtime)
    cell.set("on_state")
    client.on_state(lambda _: seen.update(state=cell.get()))
    cell.set("on_error")

    @client.on_error
    async def failed(error: HandlerError) -> None:
        seen["error"] = cell.get()
        told.set()

    cell.set("on")

    def own(event: Any, error: Exception) -> None:
        seen["own"] = cell.get()

    def broken(event: Any) -> None:
        raise ValueError

    client.on(events.Log)(broken)
    client.on(events.Log, on_error=own)(broken)
    cell.set("connect")
    async with client:
        await (await client.submit("say", ["a"])).result()
        await asyncio.wait_for(told.wait(), 10)
    assert seen == {"state": "on_state", "error": "on_error", "own": "on"}


async def test_d19_observers_see_the_context_of_their_subscription(runtime: Runtime) -> None:
    seen: dict[str, str] = {}

    async def store(event: Any) -> None:
        seen["operator"] = cell.get()

    async with Client(runtime) as client:
        cell.set("plain")
        client.notifications.subscribe(
            lambda _: seen.update(plain=cell.get()),
            on_completed=lambda: seen.update(completed=cell.get()),
        )
        cell.set("mapped")
        client.notifications.pipe(ops.map(lambda _: seen.update(mapped=cell.get()))).subscribe()
        cell.set("operator")
        client.notifications.pipe(concat_map_async(store)).subscribe()
        cell.set("submit")
        await (await client.submit("say", ["a"])).result()
        await client.drain()
    assert seen == {
        "plain": "plain", "completed": "plain", "mapped": "mapped", "operator": "operator",
    }  # fmt: skip
