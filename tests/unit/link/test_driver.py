"""The driver has one timer for all that is due later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from arcp_client._link.driver import Driver
from arcp_client._protocol import actions
from arcp_client._protocol.actions import EventRun
from arcp_client.errors import LinkLost
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


class Queue:
    """A session with actions that a test gives it."""

    deadline: float | None = None

    def __init__(self, *out: Any) -> None:
        self.out = list(out)

    def take(self) -> list[Any]:
        out, self.out = self.out, []
        return out


def gone(job_id: str) -> actions.JobGone:
    return actions.JobGone(job_id, LinkLost("gone"))


def log(message: str) -> Log:
    return Log(seq=1, session_id="sess_1", job_id="job_1", message=message)


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


async def test_what_a_frame_causes_is_done_before_the_events_of_later_frames() -> None:
    class Batch(Queue):
        def receive(self, frames: list[bytes], now: float, start: int) -> EventRun:
            run = EventRun()
            if start == 0:
                run.append(log("first"))
                self.out.append(log("second"))  # the frame that is not of the run causes it
                run.more = True
            else:
                run.append(log("third"))
            return run

    published: list[Any] = []
    session: Any = Batch()
    driver = Driver(session, publish=published.extend, apply=lambda _: None)
    driver.received([b"", b"", b""])
    assert [event.message for event in published] == ["first", "second", "third"]
    driver.stop()


async def test_what_an_action_adds_is_done_after_the_actions_that_are_there() -> None:
    def apply(action: Any) -> None:
        done.append(action.job_id)
        if action.job_id == "one":
            session.out.append(gone("three"))
            driver.carry_out()

    done: list[str] = []
    session: Any = Queue(gone("one"), gone("two"))
    driver = Driver(session, publish=lambda _: None, apply=apply)
    driver.carry_out()
    assert done == ["one", "two", "three"]
    session.out.append(gone("one"))
    driver.carry_out()
    assert done[3:] == ["one", "three"]
    driver.stop()
