"""Chooses the version of HTTP when the first request of a link is sent."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Mapping
from importlib.util import find_spec

from arcp_client.acp._http.exchange import HttpClient, HttpResponse
from arcp_client.acp._http.http1 import Http1Client
from arcp_client.transports._connect import Address

__all__ = ["NegotiatedClient", "http2_is_installed"]

_log = logging.getLogger("arcp_client.acp")


def http2_is_installed() -> bool:
    """Whether the extra ``http2`` is installed."""
    return find_spec("h2") is not None


class NegotiatedClient:
    """Sends requests with the version of HTTP that this side and the server agree on.

    Args:
        address: the URL, with the headers of every request.
        connect_timeout: seconds to open a connection.
        http2: as in `HttpConnector`.
    """

    def __init__(self, address: Address, *, connect_timeout: float, http2: bool | None) -> None:
        self._address = address
        self._connect_timeout = connect_timeout
        self._http2 = http2
        self._client: HttpClient | None = None

    async def request(
        self, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        """Send a request and wait for the head of its response."""
        if self._client is None:
            self._client = await self._choose()
        return await self._client.request(method, headers, body)

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.close()

    async def _choose(self) -> HttpClient:
        secure = self._address.target.startswith("https://")
        wanted = self._http2
        if wanted or (wanted is None and secure and http2_is_installed()):
            # Imported on use: the module needs the extra.
            module = importlib.import_module("arcp_client.acp._http.http2")
            client = module.Http2Client(
                self._address, connect_timeout=self._connect_timeout, only=wanted is True
            )
            if await client.open():
                _log.debug("%s: over HTTP/2", self._address.target)
                return client  # type: ignore[no-any-return]
        _log.debug("%s: over HTTP/1.1", self._address.target)
        return Http1Client(self._address, connect_timeout=self._connect_timeout)
