"""Opens the TCP connection of HTTP/2: TLS with a choice of protocols, and through a proxy."""

from __future__ import annotations

import asyncio
import base64
import functools
import socket
import ssl as tls
from typing import Any, TypeAlias, cast

import aiohttp
from aiohappyeyeballs import start_connection
from yarl import URL

from arcp_client.acp._http.exchange import HttpFailed
from arcp_client.transports._connect import Address, judge
from arcp_client.transports._keep_alive import keep_alive

__all__ = ["Pipe", "basic", "chosen", "dial"]

Pipe: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]
Trust: TypeAlias = tls.SSLContext | aiohttp.Fingerprint | bool

_HEAD = 64 * 1024  # bytes of a proxy's answer
_EYEBALLS = 0.25  # seconds before the next address of a host is tried too
_PORTS = {"http": 80, "https": 443}


async def dial(address: Address, protocols: tuple[str, ...]) -> Pipe:
    """Open a connection to the server of a URL. The caller sets the deadline.

    A context that the user made is used as it is: it decides itself what it offers.

    Args:
        address: the URL, with TLS settings and proxy.
        protocols: what to offer by ALPN, if the URL is of HTTPS.

    Raises:
        FAILURES: there is no connection.
    """
    url = URL(address.url)
    host, port = _place(url)
    context = _context(address.ssl, protocols) if url.scheme == "https" else None
    if address.proxy is None:
        pipe = await _open(host, port, context)
    else:
        pipe = await _through(URL(address.proxy), host, port, context, address.ssl)
    writer = pipe[1]
    try:
        if context is not None and isinstance(address.ssl, aiohttp.Fingerprint):
            address.ssl.check(cast("asyncio.Transport", writer.transport))
    except BaseException:
        writer.transport.abort()
        raise
    keep_alive(writer.get_extra_info("socket"))
    return pipe


def chosen(pipe: Pipe) -> str | None:
    """Return the protocol that the server has chosen by ALPN."""
    secured = pipe[1].get_extra_info("ssl_object")
    protocol: str | None = None if secured is None else secured.selected_alpn_protocol()
    return protocol


def basic(url: URL) -> str | None:
    """Return user name and password of a URL as HTTP basic authentication, if it has any."""
    if url.user is None and url.password is None:
        return None
    pair = f"{url.user or ''}:{url.password or ''}"
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


async def _open(host: str, port: int, context: tls.SSLContext | None) -> Pipe:
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    sock = await start_connection(found, happy_eyeballs_delay=_EYEBALLS)
    name = host if context is not None else None
    return await asyncio.open_connection(sock=sock, ssl=context, server_hostname=name, limit=_HEAD)


async def _through(
    proxy: URL, host: str, port: int, context: tls.SSLContext | None, trust: Trust
) -> Pipe:
    """Open a tunnel with CONNECT, also for HTTP/2 without TLS, which proxies do not forward."""
    if proxy.scheme not in _PORTS:
        raise ValueError("a proxy of another scheme")
    # A fingerprint is the server's, so the proxy, which may get a password, is verified otherwise.
    verified = True if isinstance(trust, aiohttp.Fingerprint) else trust
    own = _context(verified, ("http/1.1",)) if proxy.scheme == "https" else None
    try:
        reader, writer = await _open(*_place(proxy), own)
    except OSError as error:
        reason = judge(error, 0)[0]
        raise HttpFailed(f"the proxy does not answer ({reason})") from None
    try:
        await _connect(proxy, host, port, reader, writer)
        if context is not None:
            await writer.start_tls(context, server_hostname=host)
    except BaseException:
        writer.transport.abort()
        raise
    return reader, writer


async def _connect(
    proxy: URL, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    authority = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if (credentials := basic(proxy)) is not None:
        lines.append(f"Proxy-Authorization: {credentials}")
    writer.write("\r\n".join([*lines, "", ""]).encode("ascii"))
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        raise HttpFailed("the proxy's answer is not HTTP") from None
    version, _, rest = head.partition(b" ")
    status = rest[:3]
    if not version.startswith(b"HTTP/1.") or not status.isdigit():
        raise HttpFailed("the proxy's answer is not HTTP")
    if not status.startswith(b"2"):
        about = aiohttp.RequestInfo(proxy, "CONNECT", _NO_HEADERS, proxy)
        raise aiohttp.ClientHttpProxyError(about, (), status=int(status))


_NO_HEADERS: Any = {}


def _place(url: URL) -> tuple[str, int]:
    if not url.raw_host or url.port is None:
        raise ValueError("no host")
    return url.raw_host.rstrip("."), url.port


def _context(given: Trust, protocols: tuple[str, ...]) -> tls.SSLContext:
    if isinstance(given, tls.SSLContext):
        return given  # other connections of the program may use it: it is not changed
    return _made(given is True, protocols)


@functools.cache
def _made(verified: bool, protocols: tuple[str, ...]) -> tls.SSLContext:
    context = tls.create_default_context()
    if not verified:  # or verified by its fingerprint
        context.check_hostname = False
        context.verify_mode = tls.CERT_NONE
    context.set_alpn_protocols(list(protocols))
    return context
