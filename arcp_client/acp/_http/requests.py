"""Sends the HTTP requests of one link, which share cookies, headers and connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

import aiohttp

from arcp_client._scrubbing import Scrubber
from arcp_client.transports._connect import Address, judge, refuse_redirect
from arcp_client.transports._keep_alive import keep_alive

__all__ = ["FAILURES", "HttpRequests", "StatusError", "TooLarge", "reason_of"]

FAILURES = (aiohttp.ClientError, OSError, ValueError)
"""What a request raises if it gets no answer."""

_REUSE = 2.0  # seconds: less than servers keep idle connections, usually 5 or more
_SAID = 8 * 1024  # bytes of an error's body to read
_SHOWN = 200  # characters of it to show
_LONGEST_WAIT = 86_400.0


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
        connect_timeout: seconds to open a connection.
    """

    def __init__(self, address: Address, *, connect_timeout: float) -> None:
        self._address = address
        self._scrubber = Scrubber(_secrets(address))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_REUSE),
            cookie_jar=aiohttp.CookieJar(unsafe=True),  # also of hosts without a name
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout),
            middlewares=(refuse_redirect,),
        )

    async def stream(self, headers: Mapping[str, str], *, timeout: float) -> aiohttp.ClientResponse:
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
            if response.content_type != "text/event-stream":
                kind = self._shown(response.content_type)
                raise StatusError(200, f"the answer is {kind}, not text/event-stream")
        except BaseException:
            response.close()
            raise
        connection = response.connection
        if connection is not None and connection.transport is not None:
            keep_alive(connection.transport.get_extra_info("socket"))
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
        async with response:
            if not 200 <= response.status < 300:
                raise await self._status(response)
            body, whole = await _body(response, limit)
        if not whole:
            raise TooLarge
        return body, response.headers

    async def delete(self, headers: Mapping[str, str]) -> None:
        """End the connection at the server, which need not know it any more."""
        response = await self._request("DELETE", headers)
        response.release()

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await asyncio.sleep(0)  # a callback closes the sockets themselves

    async def _request(
        self, method: str, headers: Mapping[str, str], data: bytes | None = None
    ) -> aiohttp.ClientResponse:
        return await self._session.request(
            method,
            self._address.url,
            headers={**self._address.headers, **headers},
            data=data,
            ssl=self._address.ssl,
            proxy=self._address.proxy,
        )

    async def _status(self, response: aiohttp.ClientResponse) -> StatusError:
        body = b""
        with contextlib.suppress(aiohttp.ClientError, OSError):  # the status is known
            async with asyncio.timeout(1.0):
                body, _ = await _body(response, _SAID)
        text = body.decode(errors="replace") if response.content_type != "text/html" else ""
        return StatusError(
            response.status, self._shown(text), _seconds(response.headers.get("Retry-After"))
        )

    def _shown(self, text: str) -> str:
        text = " ".join(self._scrubber.text(text).split())
        text = "".join(char for char in text if char.isprintable())
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def reason_of(error: BaseException, *, timeout: float) -> str:
    """Say without secrets why there was no answer."""
    if isinstance(error, aiohttp.ServerDisconnectedError | aiohttp.ClientPayloadError):
        return "the server closed the connection"
    return judge(error, timeout)[0]


async def _body(response: aiohttp.ClientResponse, limit: int) -> tuple[bytes, bool]:
    """Return up to ``limit`` bytes of a body, and whether these are all."""
    pieces, size = [], 0
    async for piece in response.content.iter_any():
        pieces.append(piece)
        size += len(piece)
        if size > limit:
            response.close()
            return b"".join(pieces)[:limit], False
    return b"".join(pieces), True


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
