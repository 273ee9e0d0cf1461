"""Streams the jobs of one client to browsers, for `JobHandle.sse` and `Client.sse`."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing

from pydantic import SecretStr

from arcp_client._feeds import frames
from arcp_client._feeds.job_feed import JobFeed
from arcp_client._feeds.registry import FeedRegistry, FeedUnavailable, JobSource, TooManyFeeds
from arcp_client._feeds.stream import FrameStream, viewed
from arcp_client._shutdown import ShutdownWatch
from arcp_client._tasks import TaskOwner
from arcp_client.errors import ClientClosed, TooManyStreams
from arcp_client.job import JobHandle

__all__ = ["BrowserStreams"]

_JOBS = 1024
_BYTES = 256 << 20
_LINGER = 600.0
_STREAM_BYTES = 16 << 20
_UNREAD = 30.0
"""Seconds after which a stream ends whose last frame is still with the web server."""


class BrowserStreams:
    """The streams of one client.

    All streams of a job share one feed. At most 1,024 jobs are streamed at a time. Their feeds keep
    8 MiB of events each and 256 MiB together, and are kept for ten minutes after their last stream.
    A stream ends after 16 MiB. So a web server that buffers for slow browsers never holds more than
    that for one of them. A stream also ends if its next frame is not asked for in 30 seconds: the
    browser does not read, or the web server has dropped the response without closing the stream.

    Args:
        client: finds and watches jobs.
        secrets: values to mask.
    """

    def __init__(self, client: JobSource, secrets: Iterable[str | SecretStr] = ()) -> None:
        self._feeds = FeedRegistry(
            client, secrets=secrets, limit=_JOBS, total=_BYTES, linger=_LINGER
        )
        self._open: dict[FrameStream, None] = {}
        self._owner = TaskOwner("arcp_client.web")
        self._shutdown = ShutdownWatch(self.stop)
        self._ended = False

    def __len__(self) -> int:
        return len(self._open)

    def of(self, job: JobHandle, last_event_id: str | None) -> AsyncGenerator[bytes, None]:
        """Stream a job; see `JobHandle.sse`."""
        try:
            feed = self._feeds.adopt(job)
        except FeedUnavailable as error:
            raise _refused(error) from None
        return self._stream(feed, last_event_id)

    async def open(self, job_id: str, last_event_id: str | None) -> AsyncGenerator[bytes, None]:
        """Watch and stream a job; see `Client.sse`."""
        try:
            feed = await self._feeds.open(job_id)
        except FeedUnavailable as error:
            raise _refused(error) from None
        return self._stream(feed, last_event_id)

    def _stream(self, feed: JobFeed, last_event_id: str | None) -> AsyncGenerator[bytes, None]:
        # Starlette drops a generator whose browser has left. Its task is part of a reference cycle,
        # so without a limit the stream would stay open until the next garbage collection.
        def unread() -> None:
            stream = reference()
            if stream is not None:
                self._owner.spawn(_close(stream), name="unread stream")

        stream = self._frames(feed, last_event_id, unread)
        reference = weakref.ref(stream)
        return stream

    async def _frames(
        self, feed: JobFeed, last_event_id: str | None, unread: Callable[[], None]
    ) -> AsyncGenerator[bytes, None]:
        if self._ended:
            return
        loop = asyncio.get_running_loop()
        stream = FrameStream(limit=_STREAM_BYTES)
        self._open[stream] = None
        self._shutdown.enter()
        try:
            asked = frames.position(last_event_id)
            async with aclosing(viewed(stream, self._feeds, feed, asked)) as source:
                async for frame in source:
                    timer = loop.call_later(_UNREAD, unread)
                    try:
                        yield frame
                    finally:
                        timer.cancel()
        finally:
            self._open.pop(stream, None)
            self._shutdown.leave()

    def stop(self) -> None:
        """End the streams that are open now; their readers continue with their next request."""
        for stream in tuple(self._open):
            stream.stop()

    def end(self) -> None:
        """End all streams and drop all feeds, because the client ends. Idempotent."""
        self._ended = True
        self.stop()
        self._feeds.end()

    async def close(self) -> None:
        """Wait for the tasks of `end`, about a second at most."""
        self.end()
        await self._feeds.close()
        await self._owner.close()


async def _close(stream: AsyncGenerator[bytes, None]) -> None:
    with contextlib.suppress(RuntimeError):  # it is read again
        await stream.aclose()


def _refused(error: FeedUnavailable) -> TooManyStreams | ClientClosed:
    if isinstance(error, TooManyFeeds):
        return TooManyStreams(str(error))
    return ClientClosed("the client was closed")
