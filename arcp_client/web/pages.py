"""Streams a job to a page of your own application."""

from __future__ import annotations

import logging
import weakref
from collections.abc import AsyncGenerator
from contextlib import aclosing

from aiohttp import web

from arcp_client import JobHandle
from arcp_client import _arguments as check
from arcp_client._feeds import frames
from arcp_client._feeds.registry import FeedRegistry, FeedUnavailable
from arcp_client._feeds.stream import FrameStream, viewed
from arcp_client._log_fields import log_fields
from arcp_client.web._feeds.event_stream import EventStream, OpenStreams

__all__ = ["asked_position", "end_streams", "share_feeds", "sse"]

_log = logging.getLogger("arcp_client.web")

_UNENDED_SECONDS = 5.0
"""Seconds after which a stream ends in an application that does not end it at shutdown."""

_FEEDS: weakref.WeakKeyDictionary[web.Application, FeedRegistry] = weakref.WeakKeyDictionary()
_WARNED: weakref.WeakSet[web.Application] = weakref.WeakSet()


def sse(job: JobHandle) -> web.StreamResponse:
    """Stream a job to a page of your own as server-sent events.

    Return the response from an aiohttp handler. It sends the same frames as the dashboard: ``job``
    with the state of the job, ``reset`` before the events start again, ``events`` with a batch of
    events, and ``end`` after the last one. The page "Dashboard" of the reference describes their
    data. The id of a batch is a position, at which a browser that reconnects continues, without a
    duplicate or a gap. All pages share the stored events of the job. Secrets are masked.

    The handler must check that the user may see the job.

    An application that does not call `arcp_client.web.add_routes` should call
    ``app.on_shutdown.append(end_streams)``. Otherwise aiohttp would wait for open streams at
    shutdown, so each stream ends after five seconds; the browser reconnects and continues where it
    was.

    Args:
        job: the job, of any client.

    Raises:
        TypeError: ``job`` is not a job, such as the ``None`` that `Client.job` returns.
    """
    check.an_instance("job", job, JobHandle, "a JobHandle")

    async def play(stream: FrameStream, request: web.Request) -> AsyncGenerator[bytes, None]:
        feeds = _FEEDS.get(request.app)
        if feeds is None:
            feeds = FeedRegistry()
            share_feeds(request.app, feeds)
        if not _ended_by(request.app):
            response.stop_after(_UNENDED_SECONDS)
        try:
            feed = feeds.adopt(job)
        except FeedUnavailable as refused:  # the headers are sent; the browser will reconnect
            _log.warning(
                "job %s is not streamed: %s", job.id, refused, extra=log_fields(job=job.id)
            )
            return
        async with aclosing(viewed(stream, feeds, feed, asked_position(request))) as told:
            async for frame in told:
                yield frame

    response = EventStream(play)
    return response


def _ended_by(app: web.Application) -> bool:
    """Whether the application ends its streams at shutdown. If not, logs a warning, once."""
    streams = OpenStreams.of(app)
    if streams.end_at_shutdown or end_streams in app.on_shutdown:
        return True
    if app not in _WARNED:
        _WARNED.add(app)
        _log.warning(
            "each stream of sse() ends after %g s, since the shutdown of the application would wait"
            " for it: call app.on_shutdown.append(end_streams) before it starts",
            _UNENDED_SECONDS,
        )
    return False


async def end_streams(app: web.Application) -> None:
    """End the streams of an application when it shuts down; for ``app.on_shutdown``.

    Without it, each stream of `sse` ends after a few seconds.
    """
    await OpenStreams.of(app).close()
    feeds = _FEEDS.get(app)
    if feeds is not None:
        await feeds.close()


def share_feeds(app: web.Application, feeds: FeedRegistry) -> None:
    """Let the streams of `sse` in an application use these feeds."""
    _FEEDS[app] = feeds


def asked_position(request: web.Request) -> frames.Position | None:
    """The position after which a page wants to continue."""
    # The header counts: a browser that reconnects repeats the URL with an older position.
    return frames.position(request.headers.get("Last-Event-ID") or request.query.get("after"))
