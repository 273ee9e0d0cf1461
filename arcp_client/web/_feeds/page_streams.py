"""Sends a page the events of a job, or the job list, from the position that the page has reached.

One of these coroutines runs for each open page. It keeps only positions: `JobFeed` and `JobList`
keep the frames for all pages, and `EventStream` writes them. So a slow page costs no memory.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from arcp_client import errors
from arcp_client.web._feeds import frames
from arcp_client.web._feeds.event_stream import EventStream
from arcp_client.web._feeds.frames import Position
from arcp_client.web._feeds.job_feed import JobFeed
from arcp_client.web._feeds.job_list import JobList
from arcp_client.web._feeds.link_status import LinkStatus

__all__ = ["stream_job", "stream_overview"]


async def stream_job(
    stream: EventStream, feed: JobFeed, asked: Position | None, *, link: LinkStatus | None
) -> None:
    """Send the events of a job until the job ends.

    Args:
        stream: the response to the page.
        feed: the job.
        asked: the position that the page asked for; ``None`` starts at the oldest event.
        link: the state of the link to send as well, if any.
    """
    after, reason = feed.resume_point(asked)
    link_sent, detail_sent = 0, 0
    with ExitStack() as stack:
        stack.enter_context(feed.changed.waking(stream.wake))
        stack.enter_context(feed.detail.waking(stream.wake))
        if link is not None:
            stack.enter_context(link.shared.waking(stream.wake))
        while not stream.stopped:
            if link is not None:
                link.poll()
                if link_sent != link.shared.revision:
                    link_sent = link.shared.revision
                    await stream.send(link.shared.frame)
            if detail_sent != feed.detail.revision:
                detail_sent = feed.detail.revision
                await stream.send(feed.detail.frame)
            if after < feed.first - 1:
                after, reason = feed.first - 1, "expired"
            if reason is not None:
                await stream.send(feed.reset(reason))
                reason = None
                continue  # the oldest event may have changed during the write
            batch = feed.read(after)
            if batch is not None:
                after, frame = batch
                await stream.send(frame)
                continue
            if feed.over and not isinstance(feed.error, errors.ClientClosed):
                end = {"status": feed.ended or "lost"}
                await stream.send(frames.frame("end", frames.encoded(end)))
                return
            await stream.wait()


async def stream_overview(
    stream: EventStream, job_list: JobList, link: LinkStatus, overview: Callable[[], bytes]
) -> None:
    """Send the overview, then changes of the job list and the link, until the page is closed.

    Args:
        stream: the response to the page.
        job_list: the source of the changes.
        link: the state of the link.
        overview: returns the frame with the whole job list.
    """
    with job_list.viewing(), job_list.changed.waking(stream.wake), link.shared.waking(stream.wake):
        whole: bytes | None = overview()
        seen, link_sent = job_list.last, link.shared.revision
        while not stream.stopped:
            if whole is not None:
                await stream.send(whole)
                whole = None
            link.poll()
            if link_sent != link.shared.revision:
                link_sent = link.shared.revision
                await stream.send(link.shared.frame)
            changes = job_list.since(seen)
            if changes is None:
                whole = overview()
                seen = job_list.last
                continue
            if changes[1]:
                await stream.send(changes[1])
                seen = changes[0]
                continue
            await stream.wait()
