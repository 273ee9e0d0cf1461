"""A feed in, a file for the browser to save out: the transcript of a job, or its result."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace

from aiohttp import web

from arcp_client import ArcpError, Client, transcripts
from arcp_client.web import frames
from arcp_client.web.feed import Feed
from arcp_client.web.problems import Problem

__all__ = ["result", "transcript"]

_SECONDS = 30.0
_PIECE = 64 * 1024


class _File(web.StreamResponse):
    """Pieces that are written once the headers are; a failure cuts the response off."""

    def __init__(self, pieces: AsyncIterator[bytes], *, name: str, content_type: str) -> None:
        super().__init__(headers=_headers(name, content_type))
        self._pieces = pieces
        self._written = False

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the pieces, then end the response. aiohttp calls it."""
        if not self._written:
            self._written = True
            try:
                async for piece in self._pieces:
                    async with asyncio.timeout(_SECONDS):
                        await self.write(piece)
            except (ArcpError, TimeoutError) as error:
                # Without its last chunk the browser knows that the file is not whole.
                raise ConnectionResetError("the file ends early") from error
        await super().write_eof(data)


def _headers(name: str, content_type: str) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:120]
    disposition = f'attachment; filename="{plain}"'
    return {"Content-Disposition": disposition, "Content-Type": content_type}


def transcript(client: Client, feed: Feed) -> web.StreamResponse:
    """What is kept of a job as a transcript, its secrets masked."""
    return _File(
        _transcript(client, feed),
        name=f"{feed.job.id}.jsonl",
        content_type="application/jsonl; charset=utf-8",
    )


async def _transcript(client: Client, feed: Feed) -> AsyncIterator[bytes]:
    ended, at = feed.ended, 0.0
    parent = feed.summary.parent_job_id if feed.summary is not None else None
    started = replace(feed.started, parent_job_id=parent)
    yield transcripts.encode(transcripts.header(client.session))
    yield transcripts.encode(started, feed.scrubber)
    missing = feed.missing
    if missing is not None:
        yield transcripts.encode(transcripts.entry(missing, 0.0, job_id=feed.job.id))
    piece = bytearray()
    for line in feed.lines():
        at = line.at
        piece += transcripts.encode(line)
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)
    if ended is not None:
        error = await _error(feed)
        outcome = transcripts.outcome(feed.job.id, ended, at, error=error)
        yield transcripts.encode(outcome, feed.scrubber)
    reason = "complete" if ended is not None else "interrupted"
    yield transcripts.encode(transcripts.EndLine(at=at, reason=reason))


async def _error(feed: Feed) -> BaseException | None:
    try:
        async with asyncio.timeout(_SECONDS):
            await feed.job.result()
    except (ArcpError, TimeoutError) as error:
        return error
    return None


async def result(feed: Feed) -> web.StreamResponse:
    """The result of a job that succeeded.

    Raises:
        Problem: the job has not ended.
        ArcpError: it has no result, or its result cannot be had.
    """
    if feed.error is not None and isinstance(feed.error, ArcpError):
        raise feed.error
    if not feed.over:
        raise Problem(409, "NOT_ENDED", "the job has not ended", "wait for its end")
    if feed.streamed is not None:
        pieces = _pieces(feed)
        try:
            async with asyncio.timeout(_SECONDS):
                first = await anext(pieces, b"")  # what is wrong is said while there are headers
        except TimeoutError:
            raise Problem(504, "RESULT_TOO_SLOW", "the result did not come in time") from None
        text = feed.streamed == "text"
        return _File(
            _behind(first, pieces),
            name=f"{feed.job.id}.{'txt' if text else 'bin'}",
            content_type="text/plain; charset=utf-8" if text else "application/octet-stream",
        )
    try:
        async with asyncio.timeout(_SECONDS):
            value = (await feed.job.result()).value
    except TimeoutError:
        raise Problem(504, "RESULT_TOO_SLOW", "the result did not come in time") from None
    if isinstance(value, bytes):
        headers = _headers(f"{feed.job.id}.bin", "application/octet-stream")
        return web.Response(body=value, headers=headers)
    if isinstance(value, str):
        body = feed.scrubber.text(value).encode("utf-8", "replace")
        headers = _headers(f"{feed.job.id}.txt", "text/plain; charset=utf-8")
        return web.Response(body=body, headers=headers)
    headers = _headers(f"{feed.job.id}.json", "application/json")
    body = feed.value() or frames.encoded(feed.scrubber(value))
    return web.Response(body=body, headers=headers)


async def _pieces(feed: Feed) -> AsyncIterator[bytes]:
    async for piece in feed.job.chunks():
        if feed.streamed == "text":
            yield feed.scrubber.text(piece.decode("utf-8", "replace")).encode()
        else:
            yield piece


async def _behind(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
