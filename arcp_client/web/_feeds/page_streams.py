"""Yields the job list and its changes as frames for one page.

The generator keeps nothing but positions, so a slow page costs no memory: `JobList` holds the
changes, and `EventStream` writes the frames.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable

from arcp_client._feeds import frames
from arcp_client._feeds.stream import FrameStream
from arcp_client.web._feeds.job_list import JobList
from arcp_client.web._feeds.link_status import LinkStatus

__all__ = ["overview_frames"]


async def overview_frames(
    stream: FrameStream, job_list: JobList, link: LinkStatus, overview: Callable[[], bytes]
) -> AsyncGenerator[bytes, None]:
    """Yield the overview, then the changes of the job list and of the link, until the page leaves.

    Args:
        stream: the state of the stream.
        job_list: the source of the changes.
        link: the state of the link.
        overview: returns the frame with the whole job list.
    """
    with job_list.viewing(), job_list.changed.waking(stream.wake), link.shared.waking(stream.wake):
        whole: bytes | None = overview()
        seen, link_sent = job_list.last, link.shared.revision
        yield stream.sending(frames.RETRY)
        while not stream.stopped:
            if whole is not None:
                yield stream.sending(whole)
                whole = None
            link.poll()
            if link_sent != link.shared.revision:
                link_sent = link.shared.revision
                yield stream.sending(link.shared.frame)
            changes = job_list.since(seen)
            if changes is None:
                whole = overview()
                seen = job_list.last
                continue
            if changes[1]:
                seen = changes[0]
                yield stream.sending(changes[1])
                continue
            if await stream.wait():
                yield stream.sending(frames.KEEPALIVE)
