"""Closes the hubs of a test, because the task of a handler waits for further events."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.unit.dispatch.kit import Hub


@pytest.fixture(autouse=True)
async def hubs_are_closed() -> AsyncIterator[None]:
    yield
    while Hub.opened:
        Hub.opened.pop().close()
