"""HTTP/2: all requests of a link share one connection, as long as the server takes them there."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import chain

import aiohttp
from yarl import URL

from arcp_client._tasks import TaskOwner
from arcp_client.acp._http.dialing import basic, chosen, dial
from arcp_client.acp._http.exchange import HttpFailed, HttpResponse
from arcp_client.transports._connect import Address
from arcp_client.version import __version__

try:
    from arcp_client.acp._http.http2_connection import Http2Connection
except ModuleNotFoundError as _missing:
    raise ImportError(
        "HTTP/2 needs the extra http2: pip install 'arcp-client[http2]'", name=_missing.name
    ) from _missing

__all__ = ["Http2Client"]

# Headers of a connection, which HTTP/2 does not have.
_HOP_BY_HOP = frozenset(
    {"connection", "host", "keep-alive", "proxy-connection", "transfer-encoding", "upgrade"}
)
_UNCHOSEN = (
    "the server does not choose HTTP/2 by ALPN; do not pass http2=True, or let the context in ssl="
    ' offer it: context.set_alpn_protocols(["h2", "http/1.1"])'
)


class Http2Client:
    """Sends requests over HTTP/2: after ALPN with TLS, and at once without TLS.

    A further connection is opened when the last one has ended, when its server takes no further
    requests, and when it has as many open ones as the server allows. A request that a server has
    certainly not processed is sent once more.

    Args:
        address: the URL, with the headers of every request.
        connect_timeout: seconds to open a connection.
        only: whether HTTP/1.1 is not offered to the server.
    """

    def __init__(self, address: Address, *, connect_timeout: float, only: bool) -> None:
        self._address = address
        self._connect_timeout = connect_timeout
        self._protocols = ("h2",) if only else ("h2", "http/1.1")
        self._only = only
        self._url = URL(address.url)
        self._headers = _own_headers(self._url, address.headers)
        self._cookies = aiohttp.CookieJar(unsafe=True)  # also of hosts without a name
        self._connections: list[Http2Connection] = []
        self._opening = asyncio.Lock()
        self._owner = TaskOwner(f"http2 {address.target}")

    async def open(self) -> bool:
        """Open the first connection; return whether the server speaks HTTP/2.

        Raises:
            FAILURES: there is no connection, or `only` is set and the server chose HTTP/1.1.
        """
        async with asyncio.timeout(self._connect_timeout):
            pipe = await dial(self._address, self._protocols)
        if self._url.scheme == "https" and chosen(pipe) != "h2":
            pipe[1].transport.abort()
            if self._only:
                raise HttpFailed(_UNCHOSEN, permanent=True)
            return False
        connection = Http2Connection(pipe)
        self._owner.spawn(connection.run(), name="read")
        self._connections.append(connection)
        return True

    async def request(
        self, method: str, headers: Mapping[str, str], body: bytes | None
    ) -> HttpResponse:
        """Send a request and wait for the head of its response."""
        fields = {**self._headers, **{name.lower(): value for name, value in headers.items()}}
        cookies = self._cookies.filter_cookies(self._url)
        if cookies:
            pairs = [f"{name}={morsel.coded_value}" for name, morsel in cookies.items()]
            fields["cookie"] = "; ".join(filter(None, [fields.get("cookie"), *pairs]))
        if body is not None:
            fields["content-length"] = str(len(body))
        sent = [(":method", method), *fields.items()]
        try:
            response = await (await self._connection()).request(sent, body)
        except HttpFailed as error:
            if not error.unprocessed:
                raise
            response = await (await self._connection()).request(sent, body)
        self._cookies.update_cookies_from_headers(response.cookies, self._url)
        return response

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.close()
        self._connections.clear()
        await self._owner.close()
        await asyncio.sleep(0)  # a callback closes the sockets themselves

    async def _connection(self) -> Http2Connection:
        async with self._opening:
            self._connections = [each for each in self._connections if not each.lost]
            for connection in self._connections:
                if connection.has_room:
                    return connection
            if not await self.open():
                raise HttpFailed("the server does not speak HTTP/2 any more")
            return self._connections[-1]


def _own_headers(url: URL, given: Mapping[str, str]) -> dict[str, str]:
    """Return what every request has, in the order of HTTP/2.

    Raises:
        ValueError: a header or the URL cannot be sent.
    """
    headers = {name.lower(): value for name, value in given.items()}
    if any(char in text for text in chain(*headers.items()) for char in "\r\n\0"):
        raise ValueError("a header with a line break")
    if (credentials := basic(url)) is not None:
        if "authorization" in headers:
            raise ValueError("two kinds of credentials")
        headers["authorization"] = credentials
    authority = headers.get("host") or url.raw_authority.rpartition("@")[2]
    kept = {name: value for name, value in headers.items() if name not in _HOP_BY_HOP}
    return {
        ":scheme": url.scheme,
        ":authority": authority,
        ":path": url.raw_path_qs,
        "user-agent": f"arcp-client/{__version__}",
        "accept-encoding": "identity",
        **kept,
    }
