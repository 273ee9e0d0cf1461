"""Sends the HTTP requests of one link, which share cookies, headers and connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import aiohttp

from arcp_client._scrubbing import Scrubber
from arcp_client.acp._http.exchange import FAILURES, HttpClient, HttpFailed, HttpResponse
from arcp_client.errors import ConnectFailed
from arcp_client.transports._connect import (
    NOT_HTTP,
    REDIRECTS,
    Address,
    RedirectRefused,
    failed,
    judge,
    sanitized,
)

__all__ = ["HTTP2_ONLY", "HttpRequests", "StatusError", "TooLarge", "failure_of", "reason_of"]

_SAID = 8 * 1024  # bytes of an error's body to read
_SHOWN = 200  # characters of it to show
_LONGEST_WAIT = 86_400.0

_CUT_OFF = (aiohttp.ServerDisconnectedError, aiohttp.ClientOSError)
HTTP2_ONLY = (
    "if it takes HTTP/2 only, install 'arcp-client[http2]', and for an http:// URL pass"
    " HttpConnector(url, http2=True)"
)
"""What to do if the server may have refused HTTP/1.1."""


class StatusError(Exception):
    """The server answered with a status other than the expected one.

    Attributes:
        status: the status.
        said: the server's own words, shortened and without secrets; may be empty.
        retry_after: seconds after which to try again, if the server says so.
    """

    def __init__(self, status: int, said: str, retry_after: float | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.said = said
        self.retry_after = retry_after


class TooLarge(Exception):
    """A body is over its limit."""


class HttpRequests:
    """The requests to one URL.

    Args:
        address: the URL, with the headers of every request.
        client: sends them; closed with this object.
    """

    def __init__(self, address: Address, client: HttpClient) -> None:
        self._scrubber = Scrubber(_secrets(address))
        self._client = client

    async def stream(self, headers: Mapping[str, str], *, timeout: float) -> HttpResponse:
        """Open an event stream: a GET whose answer has no end.

        Raises:
            StatusError: the server answered with something else.
            FAILURES: there was no answer within ``timeout`` seconds.
        """
        wanted = {
            "Accept": "text/event-stream",
            "Accept-Encoding": "identity",  # what compresses may also hold back
            "Cache-Control": "no-store",
        }
        async with asyncio.timeout(timeout):
            response = await self._request("GET", {**headers, **wanted})
        try:
            if response.status != 200:
                raise await self._status(response)
            if (kind := _kind(response)) != "text/event-stream":
                shown = self._shown(kind)
                raise StatusError(200, f"the answer is {shown}, not text/event-stream")
        except BaseException:
            response.close()
            raise
        return response

    async def post(
        self, frame: bytes, headers: Mapping[str, str], *, limit: int
    ) -> tuple[bytes, Mapping[str, str]]:
        """Send a message; return the body and the headers of the answer.

        Raises:
            StatusError: the server refused it.
            TooLarge: the body is larger than ``limit`` bytes.
            FAILURES: there was no answer.
        """
        sent = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        response = await self._request("POST", sent, frame)
        try:
            if not 200 <= response.status < 300:
                raise await self._status(response)
            body, whole = await _body(response, limit)
        finally:
            response.close()
        if not whole:
            raise TooLarge
        return body, response.headers

    async def delete(self, headers: Mapping[str, str]) -> None:
        """End the connection at the server, which need not know it any more."""
        response = await self._request("DELETE", headers)
        response.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def _request(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> HttpResponse:
        response = await self._client.request(method, headers, body)
        if response.status in REDIRECTS:
            response.close()
            raise RedirectRefused(sanitized(response.headers.get("location", "")), response.status)
        return response

    async def _status(self, response: HttpResponse) -> StatusError:
        body = b""
        with contextlib.suppress(*FAILURES):  # the status is known
            async with asyncio.timeout(1.0):
                body, _ = await _body(response, _SAID)
        text = body.decode(errors="replace") if _kind(response) != "text/html" else ""
        return StatusError(
            response.status, self._shown(text), _seconds(response.headers.get("retry-after"))
        )

    def _shown(self, text: str) -> str:
        text = " ".join(self._scrubber.text(text).split())
        text = "".join(char for char in text if char.isprintable())
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def reason_of(error: BaseException, *, timeout: float) -> str:
    """Say without secrets why there was no answer."""
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the server closed the connection"
    return _judge(error, timeout)[0]


def failure_of(error: BaseException, peer: str, *, timeout: float) -> ConnectFailed:
    """Describe why a link could not be opened, without secrets."""
    text, permanent = _judge(error, timeout)
    if isinstance(error, _CUT_OFF) and not isinstance(error, aiohttp.ClientConnectorError):
        text = f"{text}; {HTTP2_ONLY}"  # so some servers refuse HTTP/1.1
    return failed(error, peer, text, permanent)


def _judge(error: BaseException, timeout: float) -> tuple[str, bool]:
    """Return what failed, and whether another try is useless."""
    text, permanent = judge(error, timeout)
    if isinstance(error, HttpFailed):
        return error.reason, error.permanent
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if "no application protocol" in str(inner).lower().replace("_", " "):
        return f"the server does not take HTTP/1.1 over TLS; {HTTP2_ONLY}", True
    if text == NOT_HTTP:
        return f"the answer is not HTTP/1.1; {HTTP2_ONLY}", permanent
    return text, permanent


async def _body(response: HttpResponse, limit: int) -> tuple[bytes, bool]:
    """Return up to ``limit`` bytes of a body, and whether these are all."""
    pieces, size = [], 0
    while piece := await response.read():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            return b"".join(pieces)[:limit], False
    return b"".join(pieces), True


def _kind(response: HttpResponse) -> str:
    """Return the media type of a body."""
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    return kind or "application/octet-stream"


def _secrets(address: Address) -> list[str]:
    values = [part for value in address.headers.values() for part in (value, *value.split())]
    parts = urlsplit(address.url)
    values += [unquote(parts.password or "")]
    values += [unquote(pair.partition("=")[2]) for pair in parts.query.split("&")]
    return [value for value in values if len(value) >= 4]


def _seconds(text: str | None) -> float | None:
    """Read a Retry-After in seconds; a date, the other form, is not read."""
    if text is None or not text.isascii() or not text.isdigit():
        return None
    return min(float(text[:9]), _LONGEST_WAIT)
