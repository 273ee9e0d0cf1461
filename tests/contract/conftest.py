"""Every test here runs over every transport."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tests.contract.world import TRANSPORTS, World

Worlds = Callable[..., Awaitable[World]]


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "requirement(*ids): lines of tests/contract/requirements.py")


@pytest.fixture(params=TRANSPORTS)
async def worlds(request: pytest.FixtureRequest) -> AsyncIterator[Worlds]:
    """Makes runtimes with options, served over the transport of this run."""
    made: list[World] = []

    async def make(**options: Any) -> World:
        world = World(request.param, **options)
        await world.begin()
        made.append(world)
        return world

    yield make
    for world in made:
        await world.end()


@pytest.fixture
async def world(worlds: Worlds) -> World:
    """A runtime with three agents that wait for a test."""
    return await worlds()
