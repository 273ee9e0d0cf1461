"""HTTP/1.1 through aiohttp: each request that is open has a connection of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import aiohttp

from arcp_client.acp._http.exchange import HttpResponse
from arcp_client.transports._connect import Address
from arcp_client.transports._keep_alive import keep_alive

__all__ = ["Http1Client"]

_REUSE = 2.0  # seconds: less than servers keep idle connections, usually 5 or more


class Http1Client:
    """Sends requests with aiohttp.

    Args:
        address: the URL, with the headers of every request.
        connect_timeout: seconds to open a connection.
    """

    def __init__(self, address: Address, *, connect_timeout: float) -> None:
        self._address = address
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_REUSE),
            cookie_jar=aiohttp.CookieJar(unsafe=True),  # also of hosts without a name
            timeout=aiohttp.ClientTimeout(total=None, connect=connect_timeout),
        )

    async def request(
        self, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        """Send a request and wait for the head of its response."""
        response = await self._session.request(
            method,
            self._address.url,
            headers={**self._address.headers, **headers},
            data=body,
            ssl=self._address.ssl,
            proxy=self._address.proxy,
            allow_redirects=False,
        )
        connection = response.connection
        if method == "GET" and connection is not None and connection.transport is not None:
            keep_alive(connection.transport.get_extra_info("socket"))
        return Http1Response(response)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()
        await asyncio.sleep(0)  # a callback closes the sockets themselves


class Http1Response:
    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers = {name.lower(): value for name, value in response.headers.items()}
        # Without either, the end of the connection is the end of the body.
        self.delimited = "transfer-encoding" in self.headers or "content-length" in self.headers

    async def read(self) -> bytes:
        return await self._response.content.readany()

    def close(self) -> None:
        self._response.close()
