"""The runtime's listing and the feeds in, the table of jobs and its changes out.

While somebody looks at the table, the runtime is asked for its jobs every few seconds; a job that
somebody looks at is up to date in between. Changes are kept for a while, each with a number: a
viewer holds nothing but the number up to which it was told, and one who is too late is given the
whole table again.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
_SHARE = 20
"""A listing that takes long is asked for less often: at most a 20th of the time is spent on it."""


class Board:
    """The table of jobs of one client.

    Args:
        client: whose.
        feeds: gives the feed of a job that somebody looks at.
        scrubber: masks secrets in what jobs say of themselves.

    Attributes:
        news: tells of changes.
        last: the number of the newest change.
        truncated: there are more jobs than the table has.
    """

    def __init__(
        self, client: Client, feeds: Callable[[str], Feed | None], scrubber: Scrubber
    ) -> None:
        self._client = client
        self._feeds = feeds
        self._scrubber = scrubber
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
        """A job that somebody looks at has changed."""
        self._touched.add(feed.job.id)
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
            await asyncio.sleep(max(_EVERY, _SHARE * self._took) if self._lists else _EVERY)

    async def _ask(self) -> None:
        if not self._lists:
            self._touched |= set(self._rows)
            return
        found: dict[str, JobSummary] = {}
        truncated = False
        async for summary in self._client.jobs():
            if len(found) >= _MOST:
                truncated = True
                break
            found[summary.job_id] = summary
        before, self._summaries = self._summaries, found
        self.truncated = truncated
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
        if feed is not None:
            feed.summary = summary or feed.summary
            return feed.row()
        handle = self._client.job(job_id)
        if summary is None and (handle is None or (self._lists and handle.status in ENDED)):
            return None  # the runtime does not know it any more
        row: dict[str, Any] = self._scrubber(rows.row(job_id, summary=summary, handle=handle))
        return row

    def _change(self, kind: str, value: dict[str, Any]) -> None:
        self.last += 1
        self._changes.append((self.last, frames.frame(kind, frames.encoded(value))))
