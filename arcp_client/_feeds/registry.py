"""Keeps one feed for each job that browsers follow, over one session with the runtime.

A *viewer* is an open stream to a page. A feed (`JobFeed`) starts with its first viewer. It is kept
for a while after its last viewer has left, so that a page that is reloaded continues where it was.
The number of feeds is limited: a new feed replaces the one that has been without viewers for
longest.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager
from typing import Protocol

from pydantic import SecretStr

from arcp_client import errors
from arcp_client._feeds.batches import batches
from arcp_client._feeds.job_feed import MEMORY, JobFeed
from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client.errors import ArcpError
from arcp_client.events import Gap
from arcp_client.job import JobHandle, JobView

__all__ = ["LINGER", "FeedRegistry", "FeedUnavailable", "JobSource", "TooManyFeeds"]

LINGER = 60.0
"""Seconds for which the events of a job are kept after its last viewer has left."""
_LIGHT = 16 * 1024
"""Bytes of events that a feed keeps that only the job list follows."""
FOLLOWED = 256
"""The maximum number of such feeds; they do not count to the limit of the others."""
_REMEMBERED = 1024
_CLOSE_TIMEOUT = 1.0

_log = logging.getLogger("arcp_client.web")


class JobSource(Protocol):
    """Finds jobs and watches them, as a `Client` does."""

    def job(self, job_id: str) -> JobHandle | None:
        """The handle of a job that the session knows."""

    async def watch(self, job_id: str, *, history: bool = False) -> JobView:
        """Follow a job."""


class FeedUnavailable(Exception):
    """No feed can be started, because the application or the client ends."""


class TooManyFeeds(FeedUnavailable):
    """No feed can be started, because the maximum number of feeds have viewers."""


class _Registered:
    """A feed with its viewers, the task that reads the job, and the timer that drops it."""

    def __init__(self, feed: JobFeed, *, owned: bool, light: bool = False) -> None:
        self.feed = feed
        self.owned = owned
        self.light = light
        self.viewers = 0
        self.viewed = False
        self.reader: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None


class FeedRegistry:
    """The feeds of one application.

    Args:
        client: watches jobs; ``None`` if feeds are only made by `adopt`.
        secrets: values to mask.
        limit: the maximum number of feeds, besides those that `follow` starts.
        memory: bytes of events that each feed keeps.
        total: bytes of events that all feeds keep together: with many feeds, each keeps an equal
            share. By default ``limit`` times ``memory``.
        linger: seconds for which a feed without viewers is kept.
        changed: called with the feed after each event.
    """

    def __init__(
        self,
        client: JobSource | None = None,
        *,
        secrets: Iterable[str | SecretStr] = (),
        limit: int = 32,
        memory: int = MEMORY,
        total: int | None = None,
        linger: float = LINGER,
        changed: Callable[[JobFeed], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._secrets = tuple(secrets)
        self._limit = limit
        self._memory = memory
        self._total = limit * memory if total is None else total
        self._linger = linger
        self._changed = changed
        self._feeds: OrderedDict[str, _Registered] = OrderedDict()
        self._unsubscribed: OrderedDict[str, None] = OrderedDict()
        self._ending: dict[str, asyncio.Task[None]] = {}
        self._opening: dict[str, asyncio.Task[JobFeed]] = {}
        self._starting: set[str] = set()
        self._followed: frozenset[str] = frozenset()
        self._refused: set[str] = set()
        self._owner = TaskOwner("arcp_client.web", on_failure=_failed)
        self._closed = False

    def __iter__(self) -> Iterator[JobFeed]:
        return iter([found.feed for found in self._feeds.values()])

    def get(self, job_id: str) -> JobFeed | None:
        """The feed of a job, if there is one."""
        found = self._feeds.get(job_id)
        return found.feed if found is not None else None

    async def open(self, job_id: str) -> JobFeed:
        """Return the feed of a job; start it if there is none.

        The feed is kept for a while even if it gets no viewer.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused the request.
            ArcpError: the request failed.
            FeedUnavailable: no feed can be started.
        """
        found = self._usable(job_id)
        if found is not None:
            return found.feed
        opening = self._opening.get(job_id)
        self._starting.discard(job_id)  # the feed that starts is for a page
        if opening is None:
            # A separate task: several pages wait for it, and the first one may leave.
            opening = self._opening[job_id] = self._begin(job_id)
        return await asyncio.shield(opening)

    def follow(self, job_ids: Sequence[str]) -> frozenset[str]:
        """Keep the feeds of these jobs even without viewers, and start the missing ones.

        These feeds keep few events. A page that opens one of them gets a feed that begins with the
        first event again. If the runtime has refused a job, the registry asks for it again only
        after a call in which the job was not among ``job_ids``. At most 256 jobs are followed.

        Returns:
            The jobs that the runtime refused.
        """
        wanted = frozenset(job_ids)
        before, self._followed = self._followed, wanted
        self._refused &= wanted
        for job_id in before - wanted:
            found = self._feeds.get(job_id)
            if found is None or found.viewers:
                continue
            if found.feed.over and not found.viewed:
                self._drop(found)
            else:
                self._start_timer(found)
        for job_id in wanted & self._feeds.keys():
            found = self._feeds[job_id]
            if found.timer is not None and not found.feed.over:
                found.timer.cancel()
                found.timer = None
        room = FOLLOWED - sum(found.light for found in self._feeds.values()) - len(self._starting)
        for job_id in job_ids:
            if job_id in self._feeds or job_id in self._opening or job_id in self._refused:
                continue
            if room <= 0 or self._closed:
                break
            room -= 1
            self._starting.add(job_id)
            self._opening[job_id] = self._begin(job_id, light=True)
            self._owner.spawn(self._try(job_id, self._opening[job_id]), name="follow")
        return frozenset(self._refused)

    def _begin(self, job_id: str, *, light: bool = False) -> asyncio.Task[JobFeed]:
        opening = self._owner.spawn(self._watch(job_id, light=light), name="watch")

        def done(_: object) -> None:
            self._opening.pop(job_id, None)
            self._starting.discard(job_id)

        opening.add_done_callback(done)
        return opening

    async def _try(self, job_id: str, opening: asyncio.Task[JobFeed]) -> None:
        try:
            await asyncio.shield(opening)
        except errors.RequestError as error:
            self._refused.add(job_id)
            _log.debug("job %s cannot be followed: %s", job_id, error, extra=log_fields(job=job_id))
        except (ArcpError, FeedUnavailable) as error:
            _log.debug(
                "job %s is not followed now: %s", job_id, error, extra=log_fields(job=job_id)
            )

    def adopt(self, job: JobHandle, *, owned: bool = False, light: bool = False) -> JobFeed:
        """Return the feed of a job whose handle exists; start it if there is none.

        Args:
            job: the job.
            owned: the registry subscribed to the job, and unsubscribes when it drops the feed.
            light: the feed keeps few events, until a page opens it.

        Raises:
            FeedUnavailable: no feed can be started.
        """
        found = self._usable(job.id, light=light)
        if found is not None:
            return found.feed
        full = [each for each in self._feeds.values() if not each.light]
        if not light:
            self._make_room(full)
        share = min(self._memory, self._total // (len(full) + 1))
        feed = JobFeed(job, secrets=self._secrets, memory=min(_LIGHT, share) if light else share)
        found = self._feeds[job.id] = _Registered(feed, owned=owned, light=light)
        for each in () if light else full:
            each.feed.kept.limit(share)
        found.reader = self._owner.spawn(self._read(found), name=f"feed {job.id}")
        self._start_timer(found)
        return feed

    @contextmanager
    def viewing(self, feed: JobFeed) -> Iterator[bool]:
        """Count a viewer for the duration of the block. Yields False if the feed was dropped."""
        found = self._feeds.get(feed.job.id)
        if found is None or found.feed is not feed:
            yield False
            return
        found.viewers += 1
        found.viewed = True
        if found.timer is not None:
            found.timer.cancel()
            found.timer = None
        self._feeds.move_to_end(feed.job.id)
        try:
            yield True
        finally:
            found.viewers -= 1
            self._start_timer(found)

    def end(self) -> None:
        """Drop all feeds, and refuse further ones. Idempotent."""
        for found in tuple(self._feeds.values()):
            self._drop(found)
        self._closed = True

    async def close(self) -> None:
        """Drop all feeds and unsubscribe from their jobs; the client may stay open."""
        self.end()
        if self._ending:
            await asyncio.wait(self._ending.values(), timeout=_CLOSE_TIMEOUT)
        await self._owner.close()

    # ------------------------------------------------------------------

    def _usable(self, job_id: str, *, light: bool = False) -> _Registered | None:
        if self._closed:
            raise FeedUnavailable("the streams of jobs have ended")
        found = self._feeds.get(job_id)
        if found is not None and found.feed.error is not None and not found.viewers:
            self._drop(found)  # a new subscription may succeed
            return None
        if found is not None and found.light and not light:
            if found.feed.kept.first > 1:  # a page needs the first events, which it has dropped
                self._drop(found)
                return None
            full = sum(not each.light for each in self._feeds.values())
            if full >= self._limit:
                self._make_room([each for each in self._feeds.values() if not each.light])
                full -= 1
            found.light = False
            found.feed.kept.limit(min(self._memory, self._total // (full + 1)))
        if found is not None and found.timer is not None:  # a viewer is about to come
            found.timer.cancel()
            found.timer = None
            self._start_timer(found)
        return found

    async def _watch(self, job_id: str, *, light: bool) -> JobFeed:
        assert self._client is not None
        ending = self._ending.get(job_id)
        if ending is not None:  # its unsubscription must not follow the new subscription
            await asyncio.wait({ending})
        # The application may watch the same job over this session: that subscription is its own.
        owned = self._client.job(job_id) is None or job_id in self._unsubscribed
        view = await self._client.watch(job_id, history=True)
        self._unsubscribed.pop(job_id, None)
        return self.adopt(view, owned=owned, light=light and job_id in self._starting)

    async def _read(self, found: _Registered) -> None:
        """Add the events of the job to its feed."""
        feed = found.feed
        if feed.job.resumed:
            feed.add(Gap(first=0, last=None, reason="not_retained", job_id=feed.job.id))
        try:
            async with aclosing(batches(feed.job.events())) as read:
                async for batch in read:
                    feed.extend(batch)
                    self._changed(feed)
        except ArcpError as error:
            feed.fail(error)
        except Exception as error:  # noqa: BLE001  the feed ends with an error, which pages show
            _failed(error)
            lost = "an event of the job could not be streamed; see the log of the server"
            feed.fail(errors.JobLost(lost, job_id=feed.job.id))
        self._changed(feed)
        self._start_timer(found)

    def _start_timer(self, found: _Registered) -> None:
        followed = found.feed.job.id in self._followed and not found.feed.over
        if found.viewers == 0 and found.timer is None and not self._closed and not followed:
            loop = asyncio.get_running_loop()
            found.timer = loop.call_later(self._linger, self._drop, found)

    def _make_room(self, full: Sequence[_Registered]) -> None:
        if len(full) < self._limit:
            return
        for found in full:
            if found.viewers == 0:
                self._drop(found)
                return
        raise TooManyFeeds(f"pages already show {self._limit} jobs")

    def _drop(self, found: _Registered) -> None:
        feed = found.feed
        if self._feeds.get(feed.job.id) is found:
            del self._feeds[feed.job.id]
        if found.timer is not None:
            found.timer.cancel()
            found.timer = None
        feed.close()
        if found.reader is not None and not found.reader.done():
            ending = self._owner.spawn(self._end(found), name="unwatch")
            self._ending[feed.job.id] = ending
            ending.add_done_callback(lambda _: self._ending.pop(feed.job.id, None))

    async def _end(self, found: _Registered) -> None:
        if found.reader is not None:
            await cancel_and_wait([found.reader])
        feed = found.feed
        if not feed.over:
            feed.fail(errors.JobLost("the server stopped watching it", job_id=feed.job.id))
        if found.owned and isinstance(feed.job, JobView):
            self._unsubscribed[feed.job.id] = None
            if len(self._unsubscribed) > _REMEMBERED:
                self._unsubscribed.popitem(last=False)
            try:
                await feed.job.unsubscribe()
            except ArcpError as error:
                _log.debug(
                    "the subscription of job %s could not be ended: %s",
                    feed.job.id,
                    error,
                    extra=log_fields(job=feed.job.id),
                )


def _failed(error: BaseException) -> None:
    # The others are raised again in the request that waits for the feed.
    if not isinstance(error, ArcpError | FeedUnavailable):
        _log.error("the stream of a job failed", exc_info=error)
