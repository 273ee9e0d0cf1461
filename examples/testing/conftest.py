"""Activates the fixtures of arcp_client, and virtual time for tests that ask for ``clock``."""

import asyncio

import pytest_asyncio

from arcp_client.testing import VirtualClock, VirtualTimeLoop

pytest_plugins = ["arcp_client.testing.pytest_plugin"]


def pytest_asyncio_loop_factories(config, item):
    virtual = "clock" in item.fixturenames
    return {"virtual": VirtualTimeLoop} if virtual else {"real": asyncio.new_event_loop}


@pytest_asyncio.fixture
async def clock():
    with VirtualClock.current().installed() as clock:
        yield clock
