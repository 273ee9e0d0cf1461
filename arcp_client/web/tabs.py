"""Feeds, the table and the link in, what one open page is told out: a loop that holds positions."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

from arcp_client import errors
from arcp_client.web import frames
from arcp_client.web.board import Board
from arcp_client.web.feed import Feed
from arcp_client.web.frames import Position
from arcp_client.web.link import Link
from arcp_client.web.streams import EventStream

__all__ = ["tell_job", "tell_overview"]


async def tell_job(
    stream: EventStream, feed: Feed, asked: Position | None, *, link: Link | None
) -> None:
    """Tell of one job up to its end."""
    after, reason = feed.start(asked)
    told_link, told_detail = 0, 0
    with ExitStack() as stack:
        stack.enter_context(feed.news.to(stream.wake))
        stack.enter_context(feed.detail.to(stream.wake))
        if link is not None:
            stack.enter_context(link.shown.to(stream.wake))
        while not stream.stopped:
            if link is not None:
                link.look()
                if told_link != link.shown.turn:
                    told_link = link.shown.turn
                    await stream.send(link.shown.frame)
            if told_detail != feed.detail.turn:
                told_detail = feed.detail.turn
                await stream.send(feed.detail.frame)
            if after < feed.first - 1:
                after, reason = feed.first - 1, "expired"
            if reason is not None:
                await stream.send(feed.reset(reason))
                reason = None
                continue  # what is oldest may have changed while that was written
            batch = feed.read(after)
            if batch is not None:
                after, frame = batch
                await stream.send(frame)
                continue
            if feed.over and not isinstance(feed.error, errors.ClientClosed):
                end = {"status": feed.ended or "lost"}
                await stream.send(frames.frame("end", frames.encoded(end)))
                return
            await stream.rest()


async def tell_overview(
    stream: EventStream, board: Board, link: Link, overview: Callable[[], bytes]
) -> None:
    """Tell of the table of jobs, for as long as somebody listens."""
    with board.viewing(), board.news.to(stream.wake), link.shown.to(stream.wake):
        whole: bytes | None = overview()
        seen, told_link = board.last, link.shown.turn
        while not stream.stopped:
            if whole is not None:
                await stream.send(whole)
                whole = None
            link.look()
            if told_link != link.shown.turn:
                told_link = link.shown.turn
                await stream.send(link.shown.frame)
            changes = board.since(seen)
            if changes is None:
                whole = overview()
                seen = board.last
                continue
            if changes[1]:
                await stream.send(changes[1])
                seen = changes[0]
                continue
            await stream.rest()
