"""Hooks run one call at a time, with a bounded queue, until they are closed."""

from __future__ import annotations

import asyncio

import pytest

from arcp_client._dispatch.hooks import Hooks
from tests.unit.dispatch.kit import turns


async def test_a_hook_keeps_1024_values_with_the_one_that_it_handles() -> None:
    release = asyncio.Event()
    seen: list[int] = []

    async def hook(value: int) -> None:
        seen.append(value)
        await release.wait()

    hooks: Hooks[int] = Hooks("on_test")
    hooks.add(hook)
    hooks.emit(0)
    await turns()
    assert seen == [0]
    for value in range(1, 1101):
        hooks.emit(value)
    release.set()
    while seen[-1] != 1100:
        await asyncio.sleep(0)
    assert seen == [0, *range(1101 - 1023, 1101)]
    hooks.close()


async def test_a_closed_hook_ends_its_queued_calls_and_begins_no_others() -> None:
    seen: list[int] = []
    hooks: Hooks[int] = Hooks("on_test")
    hooks.add(seen.append)
    hooks.emit(1)
    hooks.emit(2)
    hooks.close()
    hooks.emit(3)
    await turns()
    assert seen == [1, 2]


async def test_a_hook_that_raises_is_logged_and_called_for_the_next_value(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen: list[int] = []
    hooks: Hooks[int] = Hooks("on_test")

    def hook(value: int) -> None:
        seen.append(value)
        raise ValueError("no")

    hooks.add(hook)
    hooks.emit(1)
    hooks.emit(2)
    await turns()
    assert seen == [1, 2]
    assert [record.getMessage() for record in caplog.records] == ["a hook of on_test raised"] * 2
    assert caplog.records[0].exc_info is not None
    hooks.close()
