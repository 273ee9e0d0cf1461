"""Serves the bridge over streamable HTTP, as an ASGI application."""

from __future__ import annotations

import hmac
from collections.abc import Iterable

from mcp.server.transport_security import TransportSecuritySettings
from pydantic import SecretStr

from arcp_client import _arguments as check
from arcp_client._asgi import AsgiPeer, Message, Receive, Scope, Send, header_values
from arcp_client._security import (
    AllowedHosts,
    WrongTokens,
    client_address,
    host_name,
    is_address,
    on_loopback,
)
from arcp_client._shutdown import ShutdownWatch
from arcp_client.mcp.bridge import BridgeServer

__all__ = ["HttpBridge", "http_app"]

_MOST_SESSIONS = 1024


def http_app(
    bridge: BridgeServer,
    *,
    path: str = "/mcp",
    token: str | SecretStr | None = None,
    allowed_hosts: Iterable[str] = (),
) -> HttpBridge:
    """Make an ASGI application that serves a bridge over streamable HTTP.

    Run it with a server such as uvicorn, with its lifespan. A connection to a loopback address is
    answered only under a loopback name or one of ``allowed_hosts``; a page of another site is
    refused. Without a token, connections to other addresses are refused.

    Args:
        bridge: what `server` made. The caller closes it after the application has ended.
        path: the URL's path.
        token: the bearer token that MCP clients must send.
        allowed_hosts: further host names, such as that of a proxy; without scheme and port.

    Raises:
        ValueError: the token is empty, or a host name is not one.
        TypeError: an argument has the wrong type.
    """
    check.an_instance("bridge", bridge, BridgeServer, "what server() made")
    check.a_text("path", path)
    if not path.startswith("/"):
        raise ValueError(f"path must begin with /, unlike {path!r:.60}")
    check.an_instance("token", token, (str, SecretStr), "a text or a SecretStr", none=True)
    secret = token.get_secret_value() if isinstance(token, SecretStr) else token
    if secret == "":
        raise ValueError("token must not be empty")
    hosts = AllowedHosts(check.texts("allowed_hosts", allowed_hosts))
    return HttpBridge(bridge, path, secret, hosts)


class HttpBridge:
    """The bridge as an ASGI 3 application; see `http_app`."""

    def __init__(
        self, bridge: BridgeServer, path: str, token: str | None, hosts: AllowedHosts
    ) -> None:
        self._bridge = bridge
        self._token = None if token is None else token.encode()
        self._hosts = hosts
        self._wrong_tokens = WrongTokens()
        self._shutdown = ShutdownWatch(bridge.stop)
        self._app = bridge.streamable_http_app(
            streamable_http_path=path,
            max_sessions=_MOST_SESSIONS,
            # `_refusal` checks hosts and origins, by the rules of all servers of this package.
            transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one scope; the ASGI server calls this."""
        if scope["type"] == "lifespan":
            await self._live(scope, receive, send)
            return
        if scope["type"] == "http" and (refusal := await self._refusal(scope)) is not None:
            await _answer(send, *refusal)
            return
        self._shutdown.enter()
        try:
            await self._app(scope, receive, send)
        finally:
            self._shutdown.leave()

    async def _live(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def noticed() -> Message:
            message = await receive()
            if message["type"] == "lifespan.shutdown":
                self._bridge.stop()
            return message

        await self._app(scope, noticed, send)

    async def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        peer = AsgiPeer(scope)
        hosts = header_values(scope, b"host")
        host = host_name(hosts)
        local = on_loopback(peer)
        if host is None:
            return 400, "the request names no host"
        if host not in self._hosts and (local or (self._hosts and not is_address(host))):
            return 403, "this host name is not allowed; see allowed_hosts"
        if not self._hosts.own(header_values(scope, b"origin"), hosts[0]):
            return 403, "pages of other sites are refused"
        if self._token is None:
            if local:
                return None
            return 403, "without a token, only this machine is served"
        return await self._authenticate(scope, client_address(peer))

    async def _authenticate(self, scope: Scope, address: str) -> tuple[int, str] | None:
        assert self._token is not None
        sent = header_values(scope, b"authorization")
        scheme, _, given = (sent[0] if len(sent) == 1 else "").partition(" ")
        if scheme.lower() == "bearer" and not self._wrong_tokens.full(address):
            if hmac.compare_digest(given.strip().encode("latin-1", "replace"), self._token):
                return None
            await self._wrong_tokens.delay(address)
        return 401, "a bearer token is required"


async def _answer(send: Send, status: int, text: str) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": f"{text}\n".encode()})
