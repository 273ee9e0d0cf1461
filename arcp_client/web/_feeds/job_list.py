"""Keeps the job list that pages show, and the changes of its rows.

While a page shows the list, `JobList` asks the runtime for its jobs every few seconds. It also
follows the events of running jobs, so that their rows change at once: those that pages show first,
then the newest. It looks up once when and why the newest ended jobs ended. A job counts as lost if
two listings in a row lack it and how it ended is unknown.

The latest changes are kept and numbered. For each page, only the number of the last
change that was sent to it is kept. A page that is too far behind gets the whole list again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from arcp_client import ArcpError, Client, JobSummary, errors
from arcp_client._feeds import frames, rows
from arcp_client._feeds.job_feed import JobFeed
from arcp_client._feeds.signals import Signal
from arcp_client._tasks import TaskOwner
from arcp_client.projection import ENDED, JobRow
from arcp_client.transcripts import Scrubber

__all__ = ["JobList"]

_log = logging.getLogger("arcp_client.web")

_CHANGE_INTERVAL = 0.25
_LIST_INTERVAL = 2.0
_CHANGES = 512
_ROWS = 2000
_FOLLOWED = 250
"""Running jobs whose events are followed; the rows of the others come from the listing alone."""
_VISIBLE = 100
"""Jobs that a page may name as visible; those are followed first."""
_VISIBLE_SECONDS = 30.0
_MANY = 50
_SLOW_INTERVAL = 0.6
"""Seconds between two updates while many rows change."""
_LOOKUPS = 4
"""Ended jobs that are followed at a time."""
_ENDED_SHOWN = 200
"""Newest ended jobs whose end times and errors are looked up."""
_LIST_SHARE = 20
"""A slow listing is requested less often, so that it takes at most a 20th of the time."""


_OVER = ENDED | {rows.LOST}


class JobList:
    """The job list of one client.

    Args:
        client: the client.
        feeds: returns the feed of a job, if there is one.
        scrubber: masks secrets in the rows.
        follow: called with the jobs to follow. It keeps their feeds, drops other feeds without
            viewers, and returns the jobs that the runtime refused.

    Attributes:
        changed: notifies pages of changes.
        asking: the jobs with open questions, which are followed first.
        last: the number of the newest change.
        truncated: whether the runtime has more jobs than the list.
    """

    def __init__(
        self,
        client: Client,
        feeds: Callable[[str], JobFeed | None],
        scrubber: Scrubber,
        follow: Callable[[Sequence[str]], frozenset[str]] = lambda _: frozenset(),
    ) -> None:
        self._client = client
        self._feeds = feeds
        self._scrubber = scrubber
        self._follow = follow
        self._outcomes: dict[str, JobRow] = {}
        self._labels: OrderedDict[str, str] = OrderedDict()
        self._visible: dict[str, float] = {}
        self._absent: frozenset[str] = frozenset()
        self._lost: frozenset[str] = frozenset()
        self._rows: dict[str, dict[str, Any]] = {}
        self._summaries: dict[str, JobSummary] = {}
        self._touched: set[str] = set()
        self._changes: deque[tuple[int, bytes]] = deque(maxlen=_CHANGES)
        self._refreshed = float("-inf")
        self._took = 0.0
        self._lists = True
        self._list_lock = asyncio.Lock()
        self._owner = TaskOwner("arcp_client.web")
        self._viewers = 0
        self._polling: asyncio.Task[None] | None = None
        self.changed = Signal(_CHANGE_INTERVAL)
        self.asking: frozenset[str] = frozenset()
        self.last = 0
        self.truncated = False

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows."""
        self._update()
        return list(self._rows.values())

    def since(self, seen: int) -> tuple[int, bytes] | None:
        """The number of the newest change, and the frames of the changes after a number.

        Returns ``None`` if these changes are no longer kept: then the whole list must be sent.
        """
        self._update()
        if seen == self.last:
            return seen, b""
        if not self._changes or self._changes[0][0] > seen + 1:
            return None
        return self.last, b"".join(each for n, each in self._changes if n > seen)

    def label(self, job_id: str, label: str) -> None:
        """Name a job by the label of its input."""
        self._labels[job_id] = label
        while len(self._labels) > _ROWS:
            self._labels.popitem(last=False)

    def show(self, job_ids: Iterable[str]) -> None:
        """Follow these jobs first for the next half minute: a page shows them."""
        now = time.monotonic()
        for job_id in islice(job_ids, _VISIBLE):
            self._visible[job_id] = now
        self._visible = {
            each: at for each, at in self._visible.items() if now - at < _VISIBLE_SECONDS
        }
        if self._viewers:
            self._choose()

    def touch(self, feed: JobFeed) -> None:
        """Update the row of a job after an event."""
        self._touched.add(feed.job.id)
        if feed.over:
            self._settle(feed)
        self.changed.notify()

    @contextmanager
    def viewing(self) -> Iterator[None]:
        """Keep the list up to date for the duration of the block."""
        self._viewers += 1
        if self._polling is None or self._polling.done():
            self._polling = self._owner.spawn(self._poll_runtime(), name="jobs")
        try:
            yield
        finally:
            self._viewers -= 1
            if not self._viewers and self._polling is not None:
                self._polling.cancel()
                self._follow(())

    async def refresh(self) -> None:
        """Request the listing from the runtime, unless the last one is recent."""
        async with self._list_lock:
            began = time.monotonic()
            if began - self._refreshed < max(_LIST_INTERVAL, _LIST_SHARE * self._took):
                return
            try:
                await self._list()
            except errors.FeatureNotNegotiated:
                self._lists = False
            except ArcpError as error:  # pages show the state of the link
                _log.debug("the runtime's jobs could not be listed: %s", error)
            self._refreshed = time.monotonic()
            self._took = self._refreshed - began
        self.changed.notify()

    async def close(self) -> None:
        """Cancel the tasks and timers."""
        self.changed.close()
        await self._owner.close()

    # ------------------------------------------------------------------

    async def _poll_runtime(self) -> None:
        while True:
            await self.refresh()
            self._choose()
            # Whether a job needs attention changes with the time, too.
            self._touched |= {
                job_id for job_id, row in self._rows.items() if row["status"] not in _OVER
            }
            self.changed.notify()
            took = self._took if self._lists else 0.0
            await asyncio.sleep(max(_LIST_INTERVAL, _LIST_SHARE * took))

    async def _list(self) -> None:
        if not self._lists:
            self._touched |= set(self._rows)
            return
        found: dict[str, JobSummary] = {}
        truncated = False
        known = set(self._rows) | {job.id for job in self._client.open_jobs()}
        async for summary in self._client.jobs():
            if len(found) >= _ROWS:
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
        """Compute the changed rows."""
        touched, self._touched = self._touched, set()
        touched |= {job.id for job in self._client.open_jobs()} - set(self._rows)
        self.changed.interval = _SLOW_INTERVAL if len(touched) > _MANY else _CHANGE_INTERVAL
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
            feed.unlisted = lost
            told = feed.row(label=self._labels.get(job_id))
            shown: dict[str, Any] = feed.scrubber(told.to_dict())
            return {**shown, "followed": not feed.over}
        handle = self._client.job(job_id)
        if summary is None and (handle is None or (self._lists and handle.status in ENDED)):
            return None  # the runtime has dropped the job
        made = rows.row(
            job_id,
            datetime.now(UTC),
            summary=summary,
            handle=handle,
            outcome=self._outcomes.get(job_id),
            lost=lost,
            label=self._labels.get(job_id),
        )
        row: dict[str, Any] = self._scrubber(made.to_dict())
        return {**row, "followed": False}

    def _open(self, job_id: str) -> bool:
        """Whether this session has the job and has not received its end."""
        handle = self._client.job(job_id)
        return handle is not None and handle.status not in ENDED

    def _choose(self) -> None:
        """Follow the newest running jobs, and look up how the newest ended jobs ended."""
        newest = sorted(self._summaries.values(), key=_created, reverse=True)
        gone = self._absent
        running = [s.job_id for s in newest if s.status not in ENDED and s.job_id not in gone]
        now = time.monotonic()
        shown = {each for each, at in self._visible.items() if now - at < _VISIBLE_SECONDS}
        running.sort(key=lambda job_id: (job_id not in self.asking, job_id not in shown))
        ended = [s.job_id for s in newest if s.status in ENDED][:_ENDED_SHOWN]
        unseen = [job_id for job_id in ended if job_id not in self._outcomes]
        refused = self._follow((*running[:_FOLLOWED], *unseen[:_LOOKUPS]))
        for job_id in refused.intersection(unseen):
            self._outcomes[job_id] = JobRow(job_id=job_id, status=self._summaries[job_id].status)

    def _settle(self, feed: JobFeed) -> None:
        """Store how a job ended, and look up the next one."""
        summary = self._summaries.get(feed.job.id)
        outcome = feed.row(label=self._labels.get(feed.job.id))
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
