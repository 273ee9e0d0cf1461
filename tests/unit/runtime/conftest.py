"""Runtimes and raw peers for the runtime's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from arcp_client.runtime import Runtime
from tests.unit.runtime.peer import Peer

MakeRuntime = Callable[..., Runtime]


@pytest.fixture
async def make() -> AsyncIterator[MakeRuntime]:
    """Makes runtimes that are closed after the test."""
    made: list[Runtime] = []

    def build(**options: Any) -> Runtime:
        runtime = Runtime(**options)
        made.append(runtime)
        return runtime

    yield build
    for runtime in made:
        await runtime.close()


@pytest.fixture
def runtime(make: MakeRuntime) -> Runtime:
    return make()


@pytest.fixture
async def open_peer() -> AsyncIterator[Callable[..., Any]]:
    """Opens peers that are closed after the test."""
    opened: list[Peer] = []

    async def build(target: Any, **hello: Any) -> Peer:
        peer = await Peer.to(target)
        opened.append(peer)
        await peer.hello(**hello)
        return peer

    yield build
    for peer in opened:
        await peer.close()
