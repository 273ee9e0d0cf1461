"""The seam between the rules of streamable HTTP and a version of HTTP: requests and responses.

`HttpRequests` and `AgentStream` are above, `http1` and `http2` below. Nothing below knows ACP. Of
the libraries of HTTP, what is above knows only the errors of aiohttp: both versions raise them if a
connection cannot be opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import aiohttp

__all__ = ["FAILURES", "HttpClient", "HttpFailed", "HttpResponse"]

FAILURES = (aiohttp.ClientError, OSError, ValueError)
"""What a request, or reading its response, raises if the connection fails."""


class HttpFailed(ConnectionError):
    """A connection failed for a reason that is told without secrets.

    Attributes:
        reason: the reason.
        permanent: whether another try is useless.
        unprocessed: whether the server has certainly not acted on the request.
    """

    def __init__(self, reason: str, *, permanent: bool = False, unprocessed: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.permanent = permanent
        self.unprocessed = unprocessed


class HttpResponse(Protocol):
    """A response whose head has arrived. Close it; that also ends a body that goes on."""

    @property
    def status(self) -> int:
        """The status."""

    @property
    def headers(self) -> Mapping[str, str]:
        """The headers; names are in lower case."""

    @property
    def delimited(self) -> bool:
        """Whether the end of the body differs from a lost connection."""

    async def read(self) -> bytes:
        """Return the next bytes of the body; nothing at its end. A slow reader stops the server.

        Raises:
            FAILURES: the connection or the response broke.
        """

    def close(self) -> None:
        """Close the response. Idempotent."""


class HttpClient(Protocol):
    """Sends requests to one URL, with the headers and cookies of the link. Follows no redirect."""

    async def request(
        self, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        """Send a request and wait for the head of its response. The caller sets the deadline.

        Raises:
            FAILURES: there was none.
        """

    async def close(self) -> None:
        """Close all connections."""
