"""Telemetry costs next to nothing for an event: the same functions are called."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from arcp_client import Client, JobContext, Runtime, events
from arcp_client._telemetry import Telemetry
from tests.unit.otel.conftest import Collected

EVENTS = 4000


async def calls(telemetry: Telemetry | None) -> int:
    """The number of function calls, of Python and of C, for a job with many events."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    runtime = Runtime(name="unit", telemetry=telemetry)

    @runtime.agent("talk")
    async def talk(_: object, job: JobContext) -> None:
        for number in range(EVENTS):
            await job.progress(number)

    async with runtime, Client(runtime, telemetry=telemetry) as client:

        @client.on(events.Progress)
        async def handle(event: events.Progress) -> None: ...

        sys.setprofile(note)
        try:
            job = await client.submit("talk")
            await job.result()
        finally:
            sys.setprofile(None)
    return count


async def test_an_event_takes_at_most_one_call_in_twenty_more(collected: Collected) -> None:
    """A busy machine ends the time slices of lanes earlier, which adds calls: the fewest count."""
    without, with_ = [], []
    for _ in range(4):
        without.append(await calls(None))
        with_.append(await calls(collected.telemetry))
    assert min(without) > 20 * EVENTS
    assert min(with_) <= 1.05 * min(without)
