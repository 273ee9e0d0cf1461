"""Keeps the table of jobs that pages show, and the changes of its rows.

While a page shows the table, the runtime is asked for its jobs every few seconds, and the newest
running jobs are followed: their rows change with their events. The newest ended jobs are followed
once, for when and why they ended. A job that two listings in a row no longer have, and whose end
nobody saw, is lost. Changes are kept for a while, each with a number: a
viewer holds nothing but the number up to which it was told, and one who is too late is given the
whole table again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from arcp_client import ArcpError, Client, JobSummary, errors
from arcp_client._tasks import TaskOwner
from arcp_client.projection import ENDED
from arcp_client.transcripts import Scrubber
from arcp_client.web import frames, rows
from arcp_client.web.feed import Feed
from arcp_client.web.signals import Signal

__all__ = ["Board"]

_log = logging.getLogger("arcp_client.web")

_SECONDS = 0.25
_EVERY = 2.0
_CHANGES = 512
_MOST = 2000
_FOLLOWED = 20
"""Running jobs whose events are followed; those beyond stand as the listing says."""
_LOOKED_UP = 4
"""Ended jobs that are followed at a time."""
_SHOWN = 200
"""Newest ended jobs whose times and reasons are looked up."""
_SHARE = 20
"""A listing that takes long is asked for less often: at most a 20th of the time is spent on it."""


class Board:
    """The table of jobs of one client.

    Args:
        client: whose.
        feeds: gives the feed of a job that somebody looks at.
        scrubber: masks secrets in what jobs say of themselves.
        follow: keeps the feeds of these jobs, and of no others that no page shows; gives those that
            the runtime refused.

    Attributes:
        news: tells of changes.
        last: the number of the newest change.
        truncated: there are more jobs than the table has.
    """

    def __init__(
        self,
        client: Client,
        feeds: Callable[[str], Feed | None],
        scrubber: Scrubber,
        follow: Callable[[Sequence[str]], frozenset[str]] = lambda _: frozenset(),
    ) -> None:
        self._client = client
        self._feeds = feeds
        self._scrubber = scrubber
        self._follow = follow
        self._outcomes: dict[str, rows.Outcome] = {}
        self._absent: frozenset[str] = frozenset()
        self._lost: frozenset[str] = frozenset()
        self._rows: dict[str, dict[str, Any]] = {}
        self._summaries: dict[str, JobSummary] = {}
        self._touched: set[str] = set()
        self._changes: deque[tuple[int, bytes]] = deque(maxlen=_CHANGES)
        self._refreshed = float("-inf")
        self._took = 0.0
        self._lists = True
        self._asking = asyncio.Lock()
        self._owner = TaskOwner("arcp_client.web")
        self._viewers = 0
        self._poll: asyncio.Task[None] | None = None
        self.news = Signal(_SECONDS)
        self.last = 0
        self.truncated = False

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The whole table."""
        self._update()
        return list(self._rows.values())

    def since(self, seen: int) -> tuple[int, bytes] | None:
        """The changes behind a number as frames, and the newest one's number.

        ``None`` if they are not known any more: then the whole table has to be told.
        """
        self._update()
        if seen == self.last:
            return seen, b""
        if not self._changes or self._changes[0][0] > seen + 1:
            return None
        return self.last, b"".join(each for n, each in self._changes if n > seen)

    def touch(self, feed: Feed) -> None:
        """A job that is followed has changed."""
        self._touched.add(feed.job.id)
        if feed.over:
            self._settle(feed)
        self.news.tell()

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Somebody looks at the table for as long as the block lasts."""
        self._viewers += 1
        if self._poll is None or self._poll.done():
            self._poll = self._owner.spawn(self._keep(), name="jobs")
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers and self._poll is not None:
                self._poll.cancel()
                self._follow(())

    async def refresh(self) -> None:
        """Ask the runtime for its jobs, unless somebody has done so just now."""
        async with self._asking:
            began = time.monotonic()
            if began - self._refreshed < max(_EVERY, _SHARE * self._took):
                return
            try:
                await self._ask()
            except errors.FeatureNotNegotiated:
                self._lists = False
            except ArcpError as error:  # the link says it
                _log.debug("the runtime's jobs are not known: %s", error)
            self._refreshed = time.monotonic()
            self._took = self._refreshed - began
        self.news.tell()

    async def close(self) -> None:
        """Leave no task and no timer."""
        self.news.close()
        await self._owner.close()

    # ------------------------------------------------------------------

    async def _keep(self) -> None:
        while True:
            await self.refresh()
            self._choose()
            await asyncio.sleep(max(_EVERY, _SHARE * self._took) if self._lists else _EVERY)

    async def _ask(self) -> None:
        if not self._lists:
            self._touched |= set(self._rows)
            return
        found: dict[str, JobSummary] = {}
        truncated = False
        known = set(self._rows) | {job.id for job in self._client.open_jobs()}
        async for summary in self._client.jobs():
            if len(found) >= _MOST:
                truncated = True
                break
            found[summary.job_id] = summary
        absent = frozenset() if truncated else frozenset(known - found.keys())
        self._absent, self._lost = absent, absent & self._absent
        before = self._summaries
        self._summaries = found | {
            job_id: before[job_id] for job_id in absent & before.keys() if self._open(job_id)
        }
        self._outcomes = {job_id: o for job_id, o in self._outcomes.items() if job_id in found}
        self.truncated = truncated
        self._touched |= absent
        self._touched |= before.keys() - found.keys()
        self._touched |= {
            job_id
            for job_id, summary in found.items()
            if summary != before.get(job_id) or self._client.job(job_id) is not None
        }

    def _update(self) -> None:
        """Work out what the changes are."""
        touched, self._touched = self._touched, set()
        touched |= {job.id for job in self._client.open_jobs()} - set(self._rows)
        for job_id in touched:
            row = self._row(job_id)
            if row is None:
                if self._rows.pop(job_id, None) is not None:
                    self._change("gone", {"job_id": job_id})
            elif row != self._rows.get(job_id):
                self._rows[job_id] = row
                self._change("job", row)

    def _row(self, job_id: str) -> dict[str, Any] | None:
        summary, feed = self._summaries.get(job_id), self._feeds(job_id)
        lost = job_id in self._lost
        if feed is not None:
            feed.summary = summary or feed.summary
            feed.unknown = lost
            return feed.row()
        handle = self._client.job(job_id)
        if summary is None and (handle is None or (self._lists and handle.status in ENDED)):
            return None  # the runtime does not know it any more
        made = rows.row(
            job_id,
            summary=summary,
            handle=handle,
            outcome=self._outcomes.get(job_id),
            lost=lost,
        )
        row: dict[str, Any] = self._scrubber(made)
        return row

    def _open(self, job_id: str) -> bool:
        """Whether this session holds the job and has not seen its end."""
        handle = self._client.job(job_id)
        return handle is not None and handle.status not in ENDED

    def _choose(self) -> None:
        """Follow the jobs that pages show first."""
        newest = sorted(self._summaries.values(), key=_created, reverse=True)
        gone = self._absent
        running = [s.job_id for s in newest if s.status not in ENDED and s.job_id not in gone]
        ended = [s.job_id for s in newest if s.status in ENDED][:_SHOWN]
        unseen = [job_id for job_id in ended if job_id not in self._outcomes]
        refused = self._follow((*running[:_FOLLOWED], *unseen[:_LOOKED_UP]))
        for job_id in refused.intersection(unseen):
            self._outcomes[job_id] = rows.Outcome(self._summaries[job_id].status)

    def _settle(self, feed: Feed) -> None:
        """Keep how a job ended, and look at the next one."""
        summary = self._summaries.get(feed.job.id)
        outcome = rows.Outcome.of(feed.projection)
        if feed.ended is None and summary is not None and summary.status in ENDED:
            outcome = replace(outcome, status=summary.status)
        if outcome.status not in ENDED:
            return
        self._outcomes[feed.job.id] = outcome
        if self._viewers:
            self._choose()

    def _change(self, kind: str, value: dict[str, Any]) -> None:
        self.last += 1
        self._changes.append((self.last, frames.frame(kind, frames.encoded(value))))


def _created(summary: JobSummary) -> float:
    return summary.created_at.timestamp() if summary.created_at is not None else 0.0
