"""Virtual time for the tests that ask for ``clock``; all others run in real time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest

from arcp_client.testing.clock import VirtualClock, VirtualTimeLoop

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> dict[str, LoopFactory]:
    if "clock" in getattr(item, "fixturenames", ()):
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    with VirtualClock.current().installed() as clock:
        yield clock
