"""Collects the state of one job: when it was accepted, and its progress.

The commands `status`, `watch` and `run` use it. Only listings say when a job was accepted (§6.6),
and only events show its progress (§7.6), so `job_facts` makes two requests.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterable
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from arcp_client import ArcpError, Client, JobHandle, JobSummary, Verdict, events
from arcp_client import _digits as digits
from arcp_client.cli.interrupts import beside
from arcp_client.errors import FeatureNotNegotiated
from arcp_client.projection import Bar, JobProjection
from arcp_client.projection.values import short

__all__ = ["JobFacts", "entry_of", "job_facts"]

_PATIENCE = 3.0
"""Seconds that each request may take; then its answer is left out."""
_MOST = 10_000
"""Entries of a listing that are searched at most."""
_LOOK = 0.01
_QUIET = 0.3


@dataclass(frozen=True, slots=True)
class JobFacts:
    """The state of a job.

    Attributes:
        job: the watched job.
        seen: the state folded from its events.
        verdict: what the job is doing.
        entry: the job's entry in the runtime's listing; None if there is none.
        progress: the progress events from which `bars` are computed, by unit.
    """

    job: JobHandle
    seen: JobProjection
    verdict: Verdict
    entry: JobSummary | None
    progress: dict[str | None, events.Progress] = field(default_factory=dict)

    def bars(self) -> list[dict[str, Any]]:
        """Its progress bars in JSON form, with exactly the numbers that the agent sent (W1)."""
        return [self._bar(bar) for bar in self.seen.progress]

    def _bar(self, bar: Bar) -> dict[str, Any]:
        told = {**asdict(bar), "share": bar.share}
        event = self.progress.get(bar.units)
        if event is not None and event.current == bar.current:
            numbers = ("current",) if bar.total is None else ("current", "total")
            told |= {name: digits.value_of(event, name) for name in numbers}
        return told


async def entry_of(client: Client, job_id: str) -> JobSummary | None:
    """Return the job's entry in the runtime's listing; None if absent or not answered in time."""
    jobs: Any = client.jobs()
    with contextlib.suppress(ArcpError, TimeoutError):
        async with asyncio.timeout(_PATIENCE), aclosing(jobs) as listed:
            looked_at = 0
            async for entry in listed:
                looked_at += 1
                if entry.job_id == job_id:
                    return cast(JobSummary, entry)
                if looked_at >= _MOST:
                    break
    return None


async def job_facts(client: Client, job_id: str) -> JobFacts:
    """Watch a job with its history, and read the available history.

    Raises:
        ArcpError: the job cannot be watched.
    """
    stream = client.events()
    job = await client.watch(job_id, history=True)
    seen = JobProjection.of(job)
    progress: dict[str | None, events.Progress] = {}
    over = asyncio.Event()  # the job's last event is in; `seen` may know of the end before
    async with beside(_fold(stream, seen, progress, over)):
        entry = await entry_of(client, job_id)
        with contextlib.suppress(ArcpError, TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                try:
                    await client.ping()  # answered after the history
                except FeatureNotNegotiated:
                    await _quiet(seen, over)
                while client.stats().queued and not over.is_set():  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(_LOOK)
    return JobFacts(job, seen, job.verdict, entry, progress)


async def _quiet(seen: JobProjection, over: asyncio.Event) -> None:
    """Wait until no event arrives for a moment; for runtimes that do not answer pings."""
    before = -1
    while before != seen.events and not over.is_set():
        before = seen.events
        await asyncio.sleep(_QUIET)


async def _fold(
    stream: AsyncIterable[events.Event],
    seen: JobProjection,
    progress: dict[str | None, events.Progress],
    over: asyncio.Event,
) -> None:
    async for event in stream:
        seen.apply(event)
        if isinstance(event, events.Progress) and event.job_id == seen.job_id:
            progress[event.units and short(event.units)] = event
            for units in progress.keys() - {bar.units for bar in seen.progress}:
                del progress[units]
        if event.terminal and event.job_id == seen.job_id:
            over.set()
