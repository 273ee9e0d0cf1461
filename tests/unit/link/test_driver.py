"""The driver has one timer for all that is due later."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._link.driver import Driver
from arcp_client._protocol import actions
from arcp_client._protocol.actions import EventRun
from arcp_client.errors import LinkLost
from arcp_client.events import Event, Log
from arcp_client.testing import VirtualClock


class Queue:
    """A session with actions that a test gives it."""

    deadline: float | None = None

    def __init__(self, *out: Any) -> None:
        self.actions = list(out)

    def take(self) -> list[Any]:
        taken = self.actions[:]
        self.actions.clear()
        return taken


class Losing(Queue):
    """A session that has one event to publish after each loss of a link."""

    def lost(self, now: float, refusal: Exception | None) -> None:
        self.actions.append(Log(seq=1, session_id="sess_1", job_id="job_1", message="lost"))


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
    session: Any = Losing()
    driver = Driver(session, publish=lambda _: None, apply=lambda _: None)
    session.deadline = loop.time() - 1.0
    driver.carry_out()
    driver.carry_out()  # as after the next frame
    driver.stop()


async def test_the_consequences_of_a_lost_link_do_not_wait_for_the_next_one() -> None:
    published: list[Event] = []
    session: Any = Losing()
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
                self.actions.append(log("second"))  # the frame that is not of the run causes it
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
            session.actions.append(gone("three"))
            driver.carry_out()

    done: list[str] = []
    session: Any = Queue(gone("one"), gone("two"))
    driver = Driver(session, publish=lambda _: None, apply=apply)
    driver.carry_out()
    assert done == ["one", "two", "three"]
    session.actions.append(gone("one"))
    driver.carry_out()
    assert done[3:] == ["one", "three"]
    driver.stop()


class Timed(Queue):
    """A session with a deadline, which an acknowledgement makes later."""

    def __init__(self) -> None:
        super().__init__()
        self.deadline = None
        self.ticks: list[float] = []
        self.acks: list[float] = []

    def tick(self, now: float) -> None:
        self.ticks.append(now)
        self.deadline = None

    def ack(self, number: int, now: float) -> actions.Send:
        self.acks.append(now)
        if self.deadline is not None:
            self.deadline += 1.0
        return actions.Send(b"")


SECONDS = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 5.0])


@given(steps=st.lists(st.tuples(st.sampled_from(["acknowledge", "wait", "pass"]), SECONDS)))
def test_the_timer_is_never_late_for_the_session_or_for_what_is_planned(
    steps: list[tuple[str, float]],
) -> None:
    async def scenario() -> None:
        session: Any = Timed()
        driver = Driver(session, publish=lambda _: None, apply=lambda _: None)
        planned: float | None = None

        def acknowledge(now: float) -> None:
            nonlocal planned
            assert planned == now == driver.now
            planned = None
            assert driver.acknowledge(1, now)

        for step, seconds in [*steps, ("pass", 6.0)]:
            due = driver.now + seconds
            if step == "acknowledge":
                planned = due if planned is None else min(planned, due)
                driver.plan(due, driver.now, acknowledge)
            elif step == "wait":  # a frame begins a wait
                session.deadline = due
                driver.carry_out()
            else:
                await asyncio.sleep(seconds)
                assert planned is None or planned >= driver.now
                assert session.deadline is None or session.deadline >= driver.now
        driver.stop()

    VirtualClock().run(scenario())
