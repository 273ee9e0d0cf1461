"""Job ids in, their feeds out: one for each job that somebody looks at, over one session.

A feed begins with its first viewer and is kept for a while after its last one, so that a page which
is loaded again goes on where it was. There is a limit to their number: beyond it, the one that was
looked at longest ago goes.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from pydantic import SecretStr

from arcp_client import ArcpError, Client, JobHandle, JobView, errors
from arcp_client._tasks import TaskOwner, cancel_and_wait
from arcp_client.web.feed import MEMORY, Feed
from arcp_client.web.problems import Problem

__all__ = ["LINGER", "Feeds"]

LINGER = 60.0
"""Seconds that the events of a job are kept once nobody looks at it."""
_SLICE = 64
_FOR_PAGES = 8
"""Feeds for which there is always room, however many jobs are followed."""
_REMEMBERED = 1024
_GOODBYE = 1.0

_log = logging.getLogger("arcp_client.web")


class _Kept:
    """A feed, who looks at it, and what ends it."""

    def __init__(self, feed: Feed, *, ours: bool) -> None:
        self.feed = feed
        self.ours = ours
        self.viewers = 0
        self.looked_at = False
        self.pump: asyncio.Task[None] | None = None
        self.timer: asyncio.TimerHandle | None = None


class Feeds:
    """The feeds of one application.

    Args:
        client: whose jobs they are; ``None`` if only jobs that are at hand are looked at.
        secrets: values that must not be shown.
        limit: how many there are at most.
        memory: bytes of events that each one keeps.
        linger: seconds that one is kept without viewers.
        changed: told of each event of a job that is looked at.
    """

    def __init__(
        self,
        client: Client | None = None,
        *,
        secrets: Iterable[str | SecretStr] = (),
        limit: int = 32,
        memory: int = MEMORY,
        linger: float = LINGER,
        changed: Callable[[Feed], None] = lambda _: None,
    ) -> None:
        self._client = client
        self._secrets = tuple(secrets)
        self._limit = limit
        self._memory = memory
        self._linger = linger
        self._changed = changed
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._left_alone: OrderedDict[str, None] = OrderedDict()
        self._leaving: dict[str, asyncio.Task[None]] = {}
        self._opening: dict[str, asyncio.Task[Feed]] = {}
        self._followed: frozenset[str] = frozenset()
        self._refused: set[str] = set()
        self._owner = TaskOwner("arcp_client.web", on_failure=_failed)
        self._closed = False

    def __iter__(self) -> Iterator[Feed]:
        return iter([kept.feed for kept in self._kept.values()])

    def get(self, job_id: str) -> Feed | None:
        """The feed of a job, if there is one."""
        kept = self._kept.get(job_id)
        return kept.feed if kept is not None else None

    async def open(self, job_id: str) -> Feed:
        """The feed of a job, begun if need be. It is kept for a while, also without a viewer.

        Raises:
            JobNotFound, PermissionDenied: the runtime refused it.
            ArcpError: it cannot be asked.
            Problem: there are too many.
        """
        kept = self._usable(job_id)
        if kept is not None:
            return kept.feed
        opening = self._opening.get(job_id)
        if opening is None:
            # A task of its own: whoever asked first may leave, and others wait for the same.
            opening = self._opening[job_id] = self._begin(job_id)
        return await asyncio.shield(opening)

    def follow(self, job_ids: Sequence[str]) -> frozenset[str]:
        """Keep the feeds of these jobs, and begin those that are missing, as far as there is room.

        Pages come first: they take the room of what nobody looks at. A job that the runtime refuses
        is not asked for again until it was left out once.

        Returns:
            Those of them that the runtime refused.
        """
        wanted = frozenset(job_ids)
        before, self._followed = self._followed, wanted
        self._refused &= wanted
        for job_id in before - wanted:
            kept = self._kept.get(job_id)
            if kept is None or kept.viewers:
                continue
            if kept.feed.over and not kept.looked_at:
                self._drop(kept)
            else:
                self._left(kept)
        for job_id in wanted & self._kept.keys():
            kept = self._kept[job_id]
            if kept.timer is not None and not kept.feed.over:
                kept.timer.cancel()
                kept.timer = None
        room = self._limit - _FOR_PAGES - len(self._kept) - len(self._opening)
        for job_id in job_ids:
            if job_id in self._kept or job_id in self._opening or job_id in self._refused:
                continue
            if room <= 0 or self._closed:
                break
            room -= 1
            self._opening[job_id] = self._begin(job_id)
            self._owner.spawn(self._try(job_id, self._opening[job_id]), name="follow")
        return frozenset(self._refused)

    def _begin(self, job_id: str) -> asyncio.Task[Feed]:
        opening = self._owner.spawn(self._watch(job_id), name="watch")
        opening.add_done_callback(lambda _: self._opening.pop(job_id, None))
        return opening

    async def _try(self, job_id: str, opening: asyncio.Task[Feed]) -> None:
        try:
            await asyncio.shield(opening)
        except errors.RequestError as error:
            self._refused.add(job_id)
            _log.debug("job %s cannot be followed: %s", job_id, error)
        except (ArcpError, Problem) as error:
            _log.debug("job %s is not followed now: %s", job_id, error)

    def adopt(self, job: JobHandle, *, ours: bool = False) -> Feed:
        """The feed of a job that is at hand, begun if need be.

        Args:
            job: the job.
            ours: nobody else watches it: it is watched no longer when the feed goes.
        """
        kept = self._usable(job.id)
        if kept is not None:
            return kept.feed
        self._make_room()
        feed = Feed(job, secrets=self._secrets, memory=self._memory)
        kept = self._kept[job.id] = _Kept(feed, ours=ours)
        kept.pump = self._owner.spawn(self._run(kept), name=f"feed {job.id}")
        self._left(kept)
        return feed

    @contextmanager
    def viewing(self, feed: Feed) -> Iterator[bool]:
        """Somebody looks at a feed for as long as the block lasts; False if it went meanwhile."""
        kept = self._kept.get(feed.job.id)
        if kept is None or kept.feed is not feed:
            yield False
            return
        kept.viewers += 1
        kept.looked_at = True
        if kept.timer is not None:
            kept.timer.cancel()
            kept.timer = None
        self._kept.move_to_end(feed.job.id)
        try:
            yield True
        finally:
            kept.viewers -= 1
            self._left(kept)

    async def close(self) -> None:
        """End all of them, and watch their jobs no longer: the client may go on."""
        for kept in tuple(self._kept.values()):
            self._drop(kept)
        self._closed = True
        if self._leaving:
            await asyncio.wait(self._leaving.values(), timeout=_GOODBYE)
        await self._owner.close()

    # ------------------------------------------------------------------

    def _usable(self, job_id: str) -> _Kept | None:
        if self._closed:
            raise Problem(503, "SHUTTING_DOWN", "the dashboard is being stopped", "try again later")
        kept = self._kept.get(job_id)
        if kept is not None and kept.feed.error is not None and not kept.viewers:
            self._drop(kept)  # perhaps it can be had again
            return None
        if kept is not None and kept.timer is not None:  # whoever asks is about to look
            kept.timer.cancel()
            kept.timer = None
            self._left(kept)
        return kept

    async def _watch(self, job_id: str) -> Feed:
        assert self._client is not None
        leaving = self._leaving.get(job_id)
        if leaving is not None:  # else it would be left after it was watched again
            await asyncio.wait({leaving})
        # What somebody else watches over the same session is not ours to leave.
        ours = self._client.job(job_id) is None or job_id in self._left_alone
        view = await self._client.watch(job_id, history=True)
        self._left_alone.pop(job_id, None)
        return self.adopt(view, ours=ours)

    async def _run(self, kept: _Kept) -> None:
        """Feed the feed."""
        feed = kept.feed
        try:
            async for event in feed.job:
                feed.add(event)
                self._changed(feed)
                if feed.last % _SLICE == 0:
                    await asyncio.sleep(0)  # thousands may be waiting; others want to run
        except ArcpError as error:
            feed.fail(error)
        except Exception as error:  # noqa: BLE001  nobody waits for what never comes
            _failed(error)
            lost = "the dashboard failed over an event of the job; see its log"
            feed.fail(errors.JobLost(lost, job_id=feed.job.id))
        else:
            if not feed.over:
                feed.fail(errors.JobLost("the job is watched no longer", job_id=feed.job.id))
        self._changed(feed)
        self._left(kept)

    def _left(self, kept: _Kept) -> None:
        followed = kept.feed.job.id in self._followed and not kept.feed.over
        if kept.viewers == 0 and kept.timer is None and not self._closed and not followed:
            loop = asyncio.get_running_loop()
            kept.timer = loop.call_later(self._linger, self._drop, kept)

    def _make_room(self) -> None:
        if len(self._kept) < self._limit:
            return
        for kept in self._kept.values():
            if kept.viewers == 0:
                self._drop(kept)
                return
        raise Problem(
            503, "TOO_MANY_JOBS", f"{self._limit} jobs are looked at already", "close some pages"
        )

    def _drop(self, kept: _Kept) -> None:
        feed = kept.feed
        if self._kept.get(feed.job.id) is kept:
            del self._kept[feed.job.id]
        if kept.timer is not None:
            kept.timer.cancel()
            kept.timer = None
        feed.close()
        if kept.pump is not None and not kept.pump.done():
            leaving = self._owner.spawn(self._end(kept), name="unwatch")
            self._leaving[feed.job.id] = leaving
            leaving.add_done_callback(lambda _: self._leaving.pop(feed.job.id, None))

    async def _end(self, kept: _Kept) -> None:
        if kept.pump is not None:
            await cancel_and_wait([kept.pump])
        feed = kept.feed
        if not feed.over:
            feed.fail(errors.JobLost("the job is watched no longer", job_id=feed.job.id))
        if kept.ours and isinstance(feed.job, JobView):
            self._left_alone[feed.job.id] = None
            if len(self._left_alone) > _REMEMBERED:
                self._left_alone.popitem(last=False)
            try:
                await feed.job.unsubscribe()
            except ArcpError as error:
                _log.debug("job %s could not be left: %s", feed.job.id, error)


def _failed(error: BaseException) -> None:
    if not isinstance(error, ArcpError | Problem):  # these are whoever's that waited
        _log.error("the dashboard failed", exc_info=error)
