"""The driver has one timer for all that is due later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client._link.driver import Driver
from arcp_client.events import Event, Log


class Session:
    """A session that has one event to publish after each loss of a link."""

    deadline: float | None = None

    def __init__(self) -> None:
        self._out: list[Log] = []

    def lost(self, now: float, refusal: Exception | None) -> None:
        self._out.append(Log(seq=1, session_id="sess_1", job_id="job_1", message="lost"))

    def take(self) -> list[Log]:
        out, self._out = self._out, []
        return out


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


async def test_the_consequences_of_a_lost_link_do_not_wait_for_the_next_one() -> None:
    published: list[Event] = []
    session: Any = Session()
    driver = Driver(session, publish=published.extend, apply=lambda _: None)
    driver.detach()
    assert [event.kind for event in published] == ["log"]
    driver.stop()
