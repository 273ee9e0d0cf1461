"""Converts errors of HTTP connections to ConnectFailed, with advice and without secrets."""

from __future__ import annotations

import os
import socket
import ssl as tls
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from arcp_client import _arguments as check
from arcp_client.errors import ConnectFailed

__all__ = [
    "NOT_HTTP",
    "REDIRECTS",
    "Address",
    "RedirectRefused",
    "explain",
    "failed",
    "judge",
    "may_pass",
    "phrase",
    "refuse_redirect",
    "sanitized",
]

REDIRECTS = frozenset({301, 302, 303, 307, 308})

NOT_HTTP = "the answer is not HTTP"
"""What `judge` says of bytes that are no answer of HTTP/1.1."""

_WORTH_ANOTHER_TRY = frozenset({408, 425, 429})

_DEFAULT_PORTS = {"ws": 80, "wss": 443, "http": 80, "https": 443}

_ADVICE = {
    400: "the server does not accept WebSockets at this path; check the URL's path",
    401: "the server refused the credentials of the HTTP request; check headers=, the token of an"
    " ACP agent, and the URL's user and password",
    403: "the server forbids this path or this host name to the client; check the URL and headers=,"
    " and a runtime's allowed_hosts=",
    404: "no runtime or agent answers there; check port and path: runtimes usually listen at /arcp",
    407: "the proxy refused the credentials; check proxy=",
}


class RedirectRefused(aiohttp.ClientError):
    """The server answered the handshake with a redirect.

    Attributes:
        location: the target of the redirect, sanitized.
        status: the HTTP status.
    """

    def __init__(self, location: str, status: int) -> None:
        super().__init__(location)
        self.location = location
        self.status = status


async def refuse_redirect(
    request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """A middleware that ends the request where aiohttp would follow a redirect."""
    response = await handler(request)
    if response.status in REDIRECTS:
        location = response.headers.get("Location", "")
        response.close()
        raise RedirectRefused(sanitized(location), response.status)
    return response


class Address:
    """The URL of a connector, with its headers, TLS settings and proxy.

    Attributes:
        target: ``scheme://host:port/path``, without user, query and fragment.

    Raises:
        TypeError, ValueError: an argument is wrong.
    """

    def __init__(
        self,
        url: str,
        *,
        ssl: tls.SSLContext | aiohttp.Fingerprint | bool | None,
        headers: Mapping[str, str] | None,
        proxy: str | None,
    ) -> None:
        check.a_text("url", url, empty=True)
        check.a_mapping("headers", headers, none=True)
        given: dict[str, Any] = dict(headers or {})
        for name, value in given.items():
            if not isinstance(value, str):  # the value is not shown: it may be a secret
                kind = type(value).__name__
                raise TypeError(f"header {name!r:.60} must be a string, not a {kind}")
        check.a_text("proxy", proxy, none=True)
        kinds = (tls.SSLContext, aiohttp.Fingerprint, bool)
        check.an_instance("ssl", ssl, kinds, "an SSLContext or False", none=True)
        self.url = url
        self.headers: dict[str, str] = given
        self.ssl = True if ssl is None else ssl
        self.proxy = proxy
        self.target = sanitized(url)

    def check_scheme(self, scheme: str, name: str) -> None:
        """Check that the URL has a scheme, such as ``ws``, or its secure form, such as ``wss``.

        Raises:
            ConnectFailed: it has another one, so it is not ``name``.
        """
        if not self.target.startswith((f"{scheme}://", f"{scheme}s://")):
            raise ConnectFailed(
                f"not {name}: {self.target}; it must look like {scheme}://host:port/path"
                f" or {scheme}s://host/path",
                permanent=True,
            )


def sanitized(url: str) -> str:
    """Return ``scheme://host:port/path`` of a URL, without user, password, query and fragment."""
    try:
        parts = urlsplit(url)
        scheme, host, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        return "(not a URL)"
    if not host:
        return "(a URL without a host)"
    if port is None:
        port = _DEFAULT_PORTS.get(scheme)
    authority = f"[{host}]" if ":" in host else host
    if port is not None:
        authority = f"{authority}:{port}"
    return f"{scheme}://{authority}{parts.path or '/'}"


def explain(error: BaseException, target: str, *, timeout: float) -> ConnectFailed:
    """Describe the failure, advise what to do, and decide whether a retry can help."""
    return failed(error, target, *judge(error, timeout))


def failed(error: BaseException, target: str, text: str, permanent: bool) -> ConnectFailed:
    """Make the error of a connection from what `judge` says of it.

    The error of aiohttp is dropped, because its text and its arguments contain the whole URL and
    the proxy's password. The error of the operating system is kept as ``__cause__``.
    """
    failure = ConnectFailed(f"cannot connect to {target}: {text}", permanent=permanent)
    failure.__cause__ = _harmless_cause(error)
    return failure


def judge(error: BaseException, timeout: float) -> tuple[str, bool]:
    """Return what failed, and whether another try is useless."""
    match error:
        case RedirectRefused():
            return f"the server redirects to {error.location} ({error.status}); use that URL", True
        case aiohttp.ClientConnectorCertificateError() | tls.SSLCertVerificationError():
            return f"the server's certificate does not verify ({_reason(error)}); {_TRUST}", True
        case aiohttp.ServerFingerprintMismatch():
            return "the fingerprint of the server's certificate differs from the expected one", True
        case aiohttp.ClientSSLError() | tls.SSLError():
            return _tls(error)
        case aiohttp.ClientProxyConnectionError():
            return f"the proxy does not answer ({_reason(error)})", False
        case aiohttp.ClientConnectorDNSError() | socket.gaierror():
            return f"the host name cannot be resolved ({_reason(error)})", False
        case aiohttp.ClientResponseError():
            return _http(error)
        case aiohttp.ServerDisconnectedError():
            return "the server closed the connection during the handshake", False
        case TimeoutError():
            return f"no complete answer within {timeout:g} s", False
        case aiohttp.InvalidURL() | ValueError():
            return "the URL, a header or the proxy's URL is malformed", True
        case RuntimeError():
            return "the aiohttp session cannot be used, it is probably closed", True
        case _:
            return _reason(error), False


_TRUST = "name its authority in SSL_CERT_FILE or by ssl=, or correct the host name"


def _http(error: aiohttp.ClientResponseError) -> tuple[str, bool]:
    status = error.status
    if not isinstance(error, (aiohttp.WSServerHandshakeError, aiohttp.ClientHttpProxyError)):
        # A peer that is restarting may answer anything, so this failure is not permanent.
        return NOT_HTTP, False
    if status == HTTPStatus.SWITCHING_PROTOCOLS:
        return f"the server's upgrade answer is wrong ({error.message})", True
    if may_pass(status):
        return phrase(status), False
    advice = _ADVICE.get(status, "that is not a WebSocket endpoint; check the URL's path")
    return f"{phrase(status)}: {advice}", True


def phrase(status: int) -> str:
    """Return an HTTP status as text, such as ``HTTP 404 Not Found``."""
    try:
        return f"HTTP {status} {HTTPStatus(status).phrase}"
    except ValueError:
        return f"HTTP {status}"


def may_pass(status: int) -> bool:
    """Whether another try can help after a status: the server is busy or broken."""
    return status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _WORTH_ANOTHER_TRY


def _tls(error: aiohttp.ClientSSLError | tls.SSLError) -> tuple[str, bool]:
    inner = _harmless_cause(error)
    reason = getattr(inner, "reason", None)
    if reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE"):
        advice = "use ws:// or http://, or another port"
        return f"the server does not speak TLS at this port; {advice}", True
    if isinstance(inner, tls.SSLCertVerificationError):
        return f"the server's certificate does not verify ({inner.verify_message}); {_TRUST}", True
    return f"the TLS handshake failed ({_reason(error)})", False


def _reason(error: BaseException) -> str:
    cause = _harmless_cause(error)
    if isinstance(cause, tls.SSLCertVerificationError):
        return cause.verify_message
    if isinstance(cause, socket.gaierror | tls.SSLError):
        return cause.strerror or type(cause).__name__  # their numbers are not errno values
    for known in (cause, error):
        if isinstance(known, OSError) and known.errno is not None:
            return os.strerror(known.errno)  # the text of aiohttp's errors may hold the URL
    return type(cause or error).__name__


def _harmless_cause(error: BaseException) -> BaseException | None:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return error.certificate_error
    if isinstance(error, aiohttp.ClientConnectorError):
        return error.os_error
    if isinstance(error, OSError) and not isinstance(error, aiohttp.ClientError):
        return error
    return None
