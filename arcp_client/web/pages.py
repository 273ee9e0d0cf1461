"""Streams a job to a page of the user's own application."""

from __future__ import annotations

import logging
import weakref

from aiohttp import web

from arcp_client import JobHandle
from arcp_client import _arguments as check
from arcp_client.web import frames
from arcp_client.web.feeds import Feeds
from arcp_client.web.problems import Problem
from arcp_client.web.streams import EventStream, Streams
from arcp_client.web.tabs import tell_job

__all__ = ["asked", "end_streams", "share", "sse"]

_log = logging.getLogger("arcp_client.web")

_UNENDED = 5.0
"""Seconds that a stream lasts in an application whose shutdown does not end it."""

_FEEDS: weakref.WeakKeyDictionary[web.Application, Feeds] = weakref.WeakKeyDictionary()
_TOLD: weakref.WeakSet[web.Application] = weakref.WeakSet()


def sse(job: JobHandle) -> web.StreamResponse:
    """A response that tells a page of your own of one job, live: server-sent events.

    Return it from an aiohttp handler. It sends what the dashboard's own page is sent: ``job`` with
    the state of the job, ``reset`` before a timeline begins anew, ``events`` with batches of events
    and ``end`` after the last one; see the page "Dashboard" of the reference for their data. The id
    of a batch is a position, so that a browser whose connection is cut goes on where it was without
    a duplicate or a hole. Any number of pages share what is kept of the job. Secrets are masked.

    Who may see the job is for the handler to decide, before it returns this.

    An application without `add_routes` wants ``app.on_shutdown.append(end_streams)``. In one that
    has neither, aiohttp would wait for open streams when it shuts down, so that each ends after
    five seconds; a browser then comes again by itself and goes on where it was.

    Args:
        job: the job, of any client.

    Raises:
        TypeError: it is no job, such as the ``None`` of a client that does not know it.
    """
    check.an_instance("job", job, JobHandle, "a JobHandle")

    async def play(stream: EventStream, request: web.Request) -> None:
        feeds = _FEEDS.get(request.app)
        if feeds is None:
            feeds = Feeds()
            share(request.app, feeds)
        if not _ended_by(request.app):
            stream.stop_after(_UNENDED)
        try:
            feed = feeds.adopt(job)
        except Problem as refused:  # the headers are sent: the browser comes again
            _log.warning("job %s is not streamed: %s", job.id, refused)
            return
        with feeds.viewing(feed):
            await tell_job(stream, feed, asked(request), link=None)

    return EventStream(play)


def _ended_by(app: web.Application) -> bool:
    """Whether the application's shutdown ends its streams; says so once if it does not."""
    streams = Streams.of(app)
    if streams.ends or end_streams in app.on_shutdown:
        return True
    if app not in _TOLD:
        _TOLD.add(app)
        _log.warning(
            "streams of sse() end every %g s, since the application's shutdown would wait for them:"
            " call app.on_shutdown.append(end_streams) before it starts",
            _UNENDED,
        )
    return False


async def end_streams(app: web.Application) -> None:
    """End the streams of an application at once; for ``app.on_shutdown``.

    Without it, the streams of `sse` last only some seconds each.
    """
    await Streams.of(app).close()
    feeds = _FEEDS.get(app)
    if feeds is not None:
        await feeds.close()


def share(app: web.Application, feeds: Feeds) -> None:
    """Let the streams of an application have these feeds."""
    _FEEDS[app] = feeds


def asked(request: web.Request) -> frames.Position | None:
    """Where a page that comes back goes on."""
    # A browser that comes back by itself repeats the address, and with it an older position.
    return frames.position(request.headers.get("Last-Event-ID") or request.query.get("after"))
