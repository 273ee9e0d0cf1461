"""Opens links to an agent over HTTP; `AcpClient` makes such a connector for a URL."""

from __future__ import annotations

from collections.abc import Mapping
from ssl import SSLContext

import aiohttp

from arcp_client import _arguments as check
from arcp_client.acp._http.negotiation import NegotiatedClient, http2_is_installed
from arcp_client.acp._http.requests import HttpRequests
from arcp_client.acp._http.transport import HttpTransport
from arcp_client.transports._connect import Address
from arcp_client.transports.base import MAX_FRAME

__all__ = ["HttpConnector"]


class HttpConnector:
    """Opens links to the agent behind one URL, over the streamable HTTP transport of ACP.

    Each link has its own connections and cookies. Redirects are refused, because they would send
    the token to another host.

    With the extra ``http2``, an ``https://`` server is offered HTTP/2 and HTTP/1.1, and chooses
    (ALPN). Over HTTP/2, a link has one connection, and further ones only if the server does not
    take all requests there. Over HTTP/1.1, each open session takes a connection for its event
    stream, and the link one more.

    Args:
        url: ``http://`` or ``https://``. A user name and password become HTTP basic authentication;
            messages never contain them, the query or the fragment.
        ssl: an ``SSLContext``, an aiohttp ``Fingerprint``, or ``False`` to skip verification; None
            verifies against the system's certificates.
        headers: HTTP headers of every request.
        proxy: URL of an HTTP proxy. Environment variables are ignored.
        http2: True: HTTP/2 only, also without TLS ("prior knowledge"), where HTTP/1.1 is the rule
            because nothing can be chosen. False: HTTP/1.1 only. None: as above. A context in
            ``ssl`` is not changed: to offer HTTP/2, it needs
            ``context.set_alpn_protocols(["h2", "http/1.1"])``.
        max_frame: bytes; larger messages are refused when sent, and dropped when received.
        connect_timeout: seconds to open a connection, and again to open an event stream.
        post_timeout: seconds for the server's answer to a message, which does not wait for the
            agent's. The answer to ``initialize`` has the limit `AcpLimits.start` instead.

    Raises:
        TypeError, ValueError: an argument is wrong.
        ImportError: ``http2`` is True, and the extra ``http2`` is not installed.
    """

    def __init__(
        self,
        url: str,
        *,
        ssl: SSLContext | aiohttp.Fingerprint | bool | None = None,
        headers: Mapping[str, str] | None = None,
        proxy: str | None = None,
        http2: bool | None = None,
        max_frame: int = MAX_FRAME,
        connect_timeout: float = 10.0,
        post_timeout: float = 60.0,
    ) -> None:
        self._address = Address(url, ssl=ssl, headers=headers, proxy=proxy)
        check.an_instance("http2", http2, bool, "True or False", none=True)
        if http2 and not http2_is_installed():
            raise ImportError(
                "http2=True needs the extra http2: pip install 'arcp-client[http2]'", name="h2"
            )
        self._http2 = http2
        check.a_number("max_frame", max_frame, least=1)
        check.seconds("connect_timeout", connect_timeout, above=True)
        check.seconds("post_timeout", post_timeout, above=True)
        self._max_frame = max_frame
        self._connect_timeout = connect_timeout
        self._post_timeout = post_timeout

    def __repr__(self) -> str:
        return f"<HttpConnector {self.target}>"

    @property
    def target(self) -> str:
        """``scheme://host:port/path``, without user, query and fragment."""
        return self._address.target

    async def connect(self) -> HttpTransport:
        """Prepare a link. The server is asked when ``initialize`` is sent.

        Raises:
            ConnectFailed: the URL is not one of HTTP.
        """
        self._address.check_scheme("http", "a URL of HTTP")
        client = NegotiatedClient(
            self._address, connect_timeout=self._connect_timeout, http2=self._http2
        )
        return HttpTransport(
            HttpRequests(self._address, client),
            peer=self.target,
            max_frame=self._max_frame,
            connect_timeout=self._connect_timeout,
            post_timeout=self._post_timeout,
        )
