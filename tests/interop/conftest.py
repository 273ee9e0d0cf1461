"""The reference runtime, and clients of it."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator

import pytest

from arcp_client import Client, Reconnect, Timeouts
from tests.interop.kit import AT_ONCE
from tests.interop.reference import ReferenceRuntime


@pytest.fixture
async def reference() -> AsyncIterator[ReferenceRuntime]:
    """The reference runtime on a free port."""
    # A crashing agent is the subject of some tests, not an error of theirs.
    logging.getLogger("arcp.runtime.server").setLevel(logging.CRITICAL)
    async with ReferenceRuntime() as served:
        yield served


@pytest.fixture
async def client(reference: ReferenceRuntime) -> AsyncIterator[Client]:
    """A client of it, connected as alice."""
    made = Client(
        reference.url,
        token="tok-alice",
        timeouts=Timeouts(request=5, close=2),
        reconnect=Reconnect(wait=AT_ONCE),
    )
    async with made:
        yield made
