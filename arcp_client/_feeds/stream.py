"""Yields the events of one job as server-sent events, from the position of the reader on.

Each open stream runs one generator. The generator keeps nothing but a position, so a slow reader
costs no memory: `JobFeed` holds the events, and the caller that iterates over the generator writes
them. This module knows no web framework.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing
from typing import Protocol

from arcp_client import errors
from arcp_client._feeds import frames
from arcp_client._feeds.frames import Position
from arcp_client._feeds.history import QUIET
from arcp_client._feeds.job_feed import JobFeed, ResumePoint
from arcp_client._feeds.registry import FeedRegistry
from arcp_client._feeds.signals import SharedFrame

__all__ = ["Companion", "FrameStream", "job_frames", "viewed"]

_KEEPALIVE = 15.0
"""Seconds of silence after which a comment is sent; proxies close idle streams after a minute."""
_HISTORY_POLL = 0.1


class Companion(Protocol):
    """A frame that a stream sends besides the events of its job, whenever it changes.

    Attributes:
        shared: the frame.
    """

    shared: SharedFrame

    def poll(self) -> None:
        """Notify readers if the frame has changed."""


class FrameStream:
    """The state of one stream: whether it must end, and when it has something to send.

    Args:
        interval: the longest wait in seconds; `connected` is checked after each.
        limit: bytes after which the stream ends; the reader then continues with its next request;
            ``None`` for no limit.
        connected: returns whether the reader is still connected.

    Attributes:
        allowed: returns whether the reader is still authorized.
        wake: the event to set when there may be something to send.
    """

    def __init__(
        self,
        *,
        interval: float = _KEEPALIVE,
        limit: int | None = None,
        connected: Callable[[], bool] = lambda: True,
    ) -> None:
        self._interval = interval
        self._limit = limit
        self._connected = connected
        self._stopped = False
        self._sent = 0
        self._sent_at = asyncio.get_running_loop().time()
        self.allowed: Callable[[], bool] = lambda: True
        self.wake = asyncio.Event()

    @property
    def stopped(self) -> bool:
        """Whether the stream must end."""
        return self._stopped or not self.allowed()

    @property
    def spent(self) -> bool:
        """Whether the stream has sent as many bytes as it may."""
        return self._limit is not None and self._sent >= self._limit

    def stop(self) -> None:
        """End the stream at its next step."""
        self._stopped = True
        self.wake.set()

    def sending(self, frame: bytes) -> bytes:
        """Count a frame that is sent now, and return it."""
        self._sent += len(frame)
        self._sent_at = asyncio.get_running_loop().time()
        return frame

    async def wait(self, most: float = _KEEPALIVE) -> bool:
        """Wait until there may be something to send.

        Returns whether the stream has been silent for so long that a comment is due.

        Args:
            most: the longest wait in seconds.
        """
        loop = asyncio.get_running_loop()
        due = self._sent_at + _KEEPALIVE
        if not self._stopped:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(self._interval, most, max(0.0, due - loop.time()))):
                    await self.wake.wait()
        self.wake.clear()
        if not self._connected():
            self._stopped = True
        return loop.time() >= due


async def job_frames(
    stream: FrameStream,
    feed: JobFeed,
    asked: Position | None,
    *,
    link: Companion | None = None,
    tail: int | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the events of a job until the job ends.

    Args:
        stream: the state of the stream.
        feed: the job.
        asked: the position that the reader asked for; ``None`` starts at the oldest event.
        link: the state of the link to send as well, if any. Such a stream stays open after the
            client was closed.
        tail: how many of the newest events a reader wants that starts anew; ``None`` for all.
    """
    place: ResumePoint | None = None
    link_sent, detail_sent = 0, 0
    with ExitStack() as stack:
        stack.enter_context(feed.changed.waking(stream.wake))
        stack.enter_context(feed.detail.waking(stream.wake))
        if link is not None:
            stack.enter_context(link.shared.waking(stream.wake))
        yield stream.sending(frames.RETRY)
        while not stream.stopped:
            if link is not None:
                link.poll()
                if link_sent != link.shared.revision:
                    link_sent = link.shared.revision
                    yield stream.sending(link.shared.frame)
            if detail_sent != feed.detail.revision:
                detail_sent = feed.detail.revision
                yield stream.sending(feed.detail.frame)
            if place is None:
                place = feed.resume_point(asked, tail)
                if place is None:  # the history of the job still arrives
                    if await stream.wait(QUIET if tail is None else _HISTORY_POLL):
                        yield stream.sending(frames.KEEPALIVE)
                    continue
            if place.after < feed.kept.first - 1:
                start = feed.kept.first - 1 if tail is None else feed.kept.tail_start(tail)
                place = ResumePoint(start, "expired")
            if place.reason is not None:
                reason, place = place.reason, ResumePoint(place.after)
                yield stream.sending(feed.reset(reason, place.after, tail=tail is not None))
                continue  # the oldest event may have changed meanwhile
            batch = feed.kept.read(place.after, place.shift)
            if batch is not None:
                place = ResumePoint(batch[0], shift=place.shift)
                yield stream.sending(batch[1])
                if stream.spent:
                    yield frames.CONTINUE
                    return
                continue
            if feed.over:
                if not isinstance(feed.error, errors.ClientClosed):
                    end = {"status": feed.ended or "lost"}
                    yield stream.sending(frames.frame("end", frames.encoded(end)))
                    return
                if link is None:
                    return
            if await stream.wait():
                yield stream.sending(frames.KEEPALIVE)


async def viewed(
    stream: FrameStream,
    feeds: FeedRegistry,
    feed: JobFeed,
    asked: Position | None,
    *,
    link: Companion | None = None,
    tail: int | None = None,
) -> AsyncGenerator[bytes, None]:
    """Yield the frames of `job_frames` while the feed counts a viewer.

    The stream ends at once if the registry has dropped the feed; the browser reconnects.
    """
    with feeds.viewing(feed) as kept:
        if kept:
            async with aclosing(job_frames(stream, feed, asked, link=link, tail=tail)) as source:
                async for frame in source:
                    yield frame
