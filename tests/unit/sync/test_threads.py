"""The threads of a handler, driven by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from arcp_client._dispatch.deadlock import set_call
from arcp_client._dispatch.lanes import Lane
from arcp_client.policy import Order
from arcp_client.sync import _threads
from arcp_client.sync._threads import HandlerThreads
from tests.unit.dispatch.kit import log


class OneAtATime(Lane):
    """A lane whose next event comes when the one before it is done."""

    def __init__(self) -> None:
        super().__init__(None, None)  # type: ignore[arg-type]  # its threads need neither

    def waiting(self) -> Iterator[Any]:
        yield log(self.done)


@pytest.fixture
def lane() -> Lane:
    return OneAtATime()


def call(threads: HandlerThreads, lane: Lane) -> asyncio.Future[None]:
    """Begin the call for the lane's next event, in a task, as the lane's operator does."""
    set_call((lane, lane.done))
    pending = threads(next(lane.waiting()))
    assert pending is not None
    return asyncio.ensure_future(pending)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_call_that_is_cancelled_as_it_ends_does_not_hold_up_the_next(
    lane: Lane, fails: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A time limit may expire in the turn of the loop in which the thread's end arrives."""
    handled: list[int | None] = []

    def handle(event: Any) -> None:
        handled.append(event.seq)
        if fails and event.seq == 0:
            raise ValueError("of the first event")

    threads = HandlerThreads(handle, Order.SESSION)
    end = _threads._Run.end
    monkeypatch.setattr(_threads, "_SLICE", 0.0)  # the thread ends after one call
    monkeypatch.setattr(_threads._Run, "end", lambda run: (end(run), first.cancel()))
    first = call(threads, lane)
    with pytest.raises(asyncio.CancelledError):
        await first
    monkeypatch.undo()

    lane.done = 1
    await call(threads, lane)
    assert handled == [0, 1]
    assert ("of the first event" in caplog.text) is fails
    threads.close()
