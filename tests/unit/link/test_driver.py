"""The driver has one timer for all that is due later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client._link.driver import Driver


class Session:
    """A session that is asked for its deadline only."""

    deadline: float | None = None


async def test_a_deadline_that_has_passed_needs_no_time_of_its_handle(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """uvloop calls at once what is due, with a handle that has no ``when``."""
    loop = asyncio.get_running_loop()
    at = loop.call_at

    def call_at(when: float, call: Callable[..., Any], *args: Any, **how: Any) -> Any:
        if when <= loop.time():
            return loop.call_soon(call, *args, **how)
        return at(when, call, *args, **how)

    monkeypatch.setattr(loop, "call_at", call_at)
    session: Any = Session()
    driver = Driver(session, publish=lambda _: None, apply=lambda _: None)
    session.deadline = loop.time() - 1.0
    driver.plan(0.0, lambda: None)
    driver._arm()  # as after the next frame
    driver.stop()
