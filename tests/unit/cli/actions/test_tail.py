"""The newest events of a history: within a number of events and of bytes, and not for ever."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client import events
from arcp_client.cli.actions import tail
from arcp_client.cli.actions.tail import Tail


def name(event: Any) -> str:
    """A text that names an event."""
    kind = event.kind.rpartition(".")[2]
    if hasattr(event, "question_id"):
        return f"{kind} {event.question_id}"
    return str(getattr(event, "message", kind))


class Said:
    """A report that notes what it is told."""

    def __init__(self) -> None:
        self.shown: list[str] = []
        self.applied: list[str] = []
        self.left_out = 0

    def event(self, event: Any) -> None:
        self.shown.append(name(event))
        self.applied.append(name(event))

    def skip(self, left_out: Any) -> None:
        assert left_out
        self.applied += map(name, left_out)

    def skipped(self, count: int) -> None:
        self.left_out = count


def logs(count: int) -> list[events.Log]:
    return [events.Log(message=str(n)) for n in range(count)]


@given(past=st.integers(0, 30), later=st.integers(0, 5), count=st.none() | st.integers(0, 35))
async def test_all_events_reach_the_state_in_order_and_the_newest_of_the_history_are_shown(
    past: int, later: int, count: int | None
) -> None:
    said: Any = Said()
    one = Tail(said, count)
    given = logs(past + later)
    for event in given[:past]:
        one.event(event)
    one.release()
    for event in given[past:]:
        one.event(event)
    everything = [event.message for event in given]
    assert said.applied == everything
    shown = past if count is None else min(past, count)
    assert said.shown == everything[past - shown :]
    assert said.left_out == past - shown


async def test_bytes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_BYTES", 1000)
    said: Any = Said()
    one = Tail(said, 100)
    for event in logs(10):
        event = events.Log(message=event.message, _frame=b"x" * 300)
        one.event(event)
    one.release()
    assert said.shown == ["7", "8", "9"]
    assert said.left_out == 7


async def test_the_history_ends_with_a_pause_and_in_any_case_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail, "_PAUSE", 0.01)
    said: Any = Said()
    one = Tail(said, 2)
    for event in logs(5):
        one.event(event)
    await one.settle()
    assert said.shown == ["3", "4"]
    monkeypatch.setattr(tail, "_PAUSE", 1000.0)
    monkeypatch.setattr(tail, "_LONGEST", 0.01)
    one = Tail(said, 1)
    await asyncio.wait_for(one.settle(), 30)


async def test_the_history_ends_with_the_last_past_event_that_the_runtime_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail, "_PAUSE", 1000.0)
    monkeypatch.setattr(tail, "_LONGEST", 1000.0)
    said: Any = Said()
    one = Tail(said, 2)
    one.ends_with("e3")
    settling = asyncio.create_task(one.settle())
    for n in range(3):
        one.event(events.Log(id=f"e{n}", message=str(n)))
        await asyncio.sleep(0)
    assert not settling.done()
    one.event(events.Log(id="e3", message="3"))
    await asyncio.wait_for(settling, 30)
    assert said.shown == ["2", "3"]
    again = asyncio.create_task(one.settle())
    one.event(events.Log(id="e3", message="3"))
    await asyncio.sleep(0)
    assert not again.done(), "after a reconnect, only a pause ends what comes again"
    again.cancel()


async def test_a_history_without_events_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tail, "_PAUSE", 1000.0)
    monkeypatch.setattr(tail, "_LONGEST", 1000.0)
    one = Tail(Said(), 2)  # type: ignore[arg-type]
    one.ends_with("")
    await asyncio.wait_for(one.settle(), 30)
    assert one.released.is_set()


async def test_the_histories_of_children_follow_that_of_their_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tail, "_PAUSE", 1000.0)
    monkeypatch.setattr(tail, "_LONGEST", 1000.0)
    said: Any = Said()
    one = Tail(said, 1)
    one.ends_with("e1")
    settling = asyncio.create_task(one.settle())
    one.event(events.Delegate(id="e0", child_job_id="job_2"))
    one.event(events.Log(id="e1", message="of the parent"))
    await asyncio.sleep(0)
    assert not settling.done()
    one.event(events.Log(id="e2", message="of the child"))
    one.release()
    assert said.shown == ["of the child"]
    settling.cancel()


@given(count=st.integers(0, 6))
async def test_a_question_that_is_still_open_is_shown_however_old_it_is(count: int) -> None:
    said: Any = Said()
    one = Tail(said, count)
    past = [
        events.Question(question_id="open"),
        events.Question(question_id="closed"),
        *logs(2),
        events.Answered(question_id="closed"),
        *logs(2),
    ]
    for event in past:
        one.event(event)
    one.release()
    assert said.shown.count("question open") == 1
    assert ("question closed" in said.shown) is (count >= 6)
    assert sorted(said.applied) == sorted(name(event) for event in past)
    assert said.left_out == len(past) - len(said.shown)
