"""Sends the transcript of a job, or its result, as a file for the browser to save."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from dataclasses import replace

from aiohttp import web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.web_request import BaseRequest

from arcp_client import ArcpError, Client, transcripts
from arcp_client._feeds import frames
from arcp_client._feeds.job_feed import JobFeed
from arcp_client.web._http.problems import Problem
from arcp_client.web._http.write_timeout import WriteTimeout

__all__ = ["document", "result", "transcript"]

DOCUMENT = "arcp-client.job/1"

_RESULT_TIMEOUT = 30.0
_PIECE = 64 * 1024


class _File(web.StreamResponse):
    """A response that is written in pieces. An error after the headers closes the connection."""

    def __init__(self, pieces: AsyncIterator[bytes], *, name: str, content_type: str) -> None:
        super().__init__(headers=_headers(name, content_type))
        self._pieces = pieces
        self._written = False
        self._request: BaseRequest | None = None

    async def prepare(self, request: BaseRequest) -> AbstractStreamWriter | None:
        """Send the headers. aiohttp calls this."""
        self._request = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        """Write the pieces, then end the response. aiohttp calls this."""
        request = self._request
        if not self._written and isinstance(request, web.Request):
            self._written = True
            write_timeout = WriteTimeout.of(request.app)
            try:
                async for piece in self._pieces:
                    write_timeout.watch(request.transport)
                    await self.write(piece)
            except ArcpError as error:
                # The last chunk of HTTP is missing, so the browser reports an incomplete file.
                raise ConnectionResetError("the file is incomplete") from error
        await super().write_eof(data)


def _headers(name: str, content_type: str) -> dict[str, str]:
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", name)[:120]
    disposition = f'attachment; filename="{plain}"'
    return {"Content-Disposition": disposition, "Content-Type": content_type}


def transcript(client: Client, feed: JobFeed) -> web.StreamResponse:
    """The kept events of a job as a transcript, with secrets masked."""
    return _File(
        _transcript(client, feed),
        name=f"{feed.job.id}.jsonl",
        content_type="application/jsonl; charset=utf-8",
    )


async def _transcript(client: Client, feed: JobFeed) -> AsyncIterator[bytes]:
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


def document(feed: JobFeed, given: bytes | None) -> web.StreamResponse:
    """The state of a job, what was submitted, and the kept events as one JSON document.

    Args:
        feed: the job.
        given: what was submitted, if it is known.
    """
    return _File(
        _document(feed, given), name=f"{feed.job.id}.json", content_type="application/json"
    )


async def _document(feed: JobFeed, given: bytes | None) -> AsyncIterator[bytes]:
    state = frames.encoded(feed.describe())
    head = frames.encoded(DOCUMENT), given or b"null", state
    yield b'{"schema":%b,"submitted":%b,"job":%b,"first_event":%d,"events":[' % (
        *head,
        feed.kept.first,
    )
    piece = bytearray()
    after = feed.kept.first - 1
    while (batch := feed.kept.read(after)) is not None:
        last, frame = batch
        entries = frame.partition(b"data: ")[2].strip()[1:-1]  # without the brackets of the list
        piece += (b"," if after >= feed.kept.first else b"\n") + entries
        after = last
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece) + b"]}\n"


async def _error(feed: JobFeed) -> BaseException | None:
    try:
        async with asyncio.timeout(_RESULT_TIMEOUT):
            await feed.job.result()
    except (ArcpError, TimeoutError) as error:
        return error
    return None


async def result(feed: JobFeed) -> web.StreamResponse:
    """The result of a job that succeeded.

    Raises:
        Problem: the job has not ended, or the result did not arrive in time.
        ArcpError: the job has no result, or the result is not available.
    """
    if feed.error is not None and isinstance(feed.error, ArcpError):
        raise feed.error
    if not feed.over:
        raise Problem(409, "NOT_ENDED", "the job has not ended", "wait for its end")
    if feed.streamed is not None:
        pieces = _pieces(feed)
        try:
            async with asyncio.timeout(_RESULT_TIMEOUT):
                first = await anext(pieces, b"")  # an error here can still set the status
        except TimeoutError:
            raise Problem(504, "RESULT_TOO_SLOW", "the result did not arrive in time") from None
        text = feed.streamed == "text"
        return _File(
            _after(first, pieces),
            name=f"{feed.job.id}.{'txt' if text else 'bin'}",
            content_type="text/plain; charset=utf-8" if text else "application/octet-stream",
        )
    try:
        async with asyncio.timeout(_RESULT_TIMEOUT):
            value = (await feed.job.result()).value
    except TimeoutError:
        raise Problem(504, "RESULT_TOO_SLOW", "the result did not arrive in time") from None
    if isinstance(value, bytes):
        headers = _headers(f"{feed.job.id}.bin", "application/octet-stream")
        return web.Response(body=value, headers=headers)
    if isinstance(value, str):
        body = feed.scrubber.text(value).encode("utf-8", "replace")
        headers = _headers(f"{feed.job.id}.txt", "text/plain; charset=utf-8")
        return web.Response(body=body, headers=headers)
    headers = _headers(f"{feed.job.id}.json", "application/json")
    body = feed.value() or frames.encoded(feed.scrubber(value))
    return web.Response(body=body + b"\n", headers=headers)


async def _pieces(feed: JobFeed) -> AsyncIterator[bytes]:
    async for piece in feed.job.chunks():
        if feed.streamed == "text":
            yield feed.scrubber.text(piece.decode("utf-8", "replace")).encode()
        else:
            yield piece


async def _after(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    yield first
    async for piece in rest:
        yield piece
