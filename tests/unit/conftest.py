"""Tests that ask for the fixture ``clock`` run in virtual time; all others in real time.

This is the pattern that the docstring of ``VirtualClock`` gives to users.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from arcp_client.testing import VirtualClock, VirtualTimeLoop


def pytest_asyncio_loop_factories(
    item: pytest.Item,
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    if isinstance(item, pytest.Function) and "clock" in item.fixturenames:
        return {"virtual": VirtualTimeLoop}
    return {"real": asyncio.new_event_loop}


@pytest.fixture
async def clock() -> AsyncIterator[VirtualClock]:
    with VirtualClock.current().installed() as clock:
        yield clock
