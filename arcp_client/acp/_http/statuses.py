"""Says what an HTTP status of an agent's server means, and what to do about it."""

from __future__ import annotations

from arcp_client.acp._http.requests import HTTP2_ONLY, StatusError
from arcp_client.transports._connect import phrase

__all__ = ["ENDED", "NEW_CLIENT", "not_connected", "refusal"]

ENDED = frozenset({401, 403, 404, 410})
"""After these, the server takes no further message of this connection."""

NEW_CLIENT = "make a new client, and load or resume the session"

_CREDENTIALS = "check the token, headers=, and the URL's user and password"
_UNKNOWN = "it no longer knows this connection, which it has ended or lost in a restart"

_MEANS = {
    400: "it does not understand the message",
    401: f"it no longer accepts the credentials; {_CREDENTIALS}",
    403: f"it forbids this to the client; {_CREDENTIALS}",
    404: _UNKNOWN,
    409: "the stream of this session has another receiver; load or resume the session",
    410: _UNKNOWN,
    413: "the message is larger than it accepts",
    415: "it does not take JSON, so it is probably no agent; check the URL",
    429: "it gets too many requests; try again later",
}

_AT_FIRST = {
    400: "it does not take a connection here; check the URL's path",
    401: f"it refused the credentials; {_CREDENTIALS}",
    403: f"it forbids this path or this host name to the client; check the URL; {_CREDENTIALS}",
    404: "no agent answers there; check port and path: agents usually listen at /acp",
    426: "it takes WebSockets only; use a ws:// or wss:// URL",
    429: "it gets too many requests; try again later",
    505: f"it does not take this version of HTTP; {HTTP2_ONLY}",
}
_NO_AGENT = "that is no ACP agent over HTTP; check the URL, or use ws:// or wss:// if it is"


def refusal(error: StatusError, peer: str) -> str:
    """Describe a refused message of an open connection."""
    return _text(error, peer, _MEANS.get(error.status, ""))


def not_connected(error: StatusError, peer: str) -> str:
    """Describe a refused connection."""
    otherwise = "" if error.status >= 500 else f"{_NO_AGENT} one over a WebSocket"
    return _text(error, peer, _AT_FIRST.get(error.status, otherwise))


def _text(error: StatusError, peer: str, means: str) -> str:
    text = f"{peer} answered {phrase(error.status)}"
    if means:
        text += f": {means}"
    if error.retry_after is not None:
        text += f" (after {error.retry_after:g} s)"
    return f"{text} (it says '{error.said}')" if error.said else text
