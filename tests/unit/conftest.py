"""Fixtures of all unit tests: virtual time and a check for what is left over.

Tests that ask for the fixture ``clock`` run in virtual time; all others in real time. This is the
pattern that the docstring of ``VirtualClock`` gives to users.
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


@pytest.fixture
async def nothing_is_left() -> AsyncIterator[None]:
    """Fails a test that leaves files, sockets, threads or child processes behind."""
    from tests.unit.transports.kit import nothing_left  # few tests need aiohttp

    with nothing_left():
        yield
        for _ in range(10):  # callbacks close the sockets
            await asyncio.sleep(0)
