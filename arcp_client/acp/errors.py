"""Errors of the Agent Client Protocol: errors answered by an agent, and refusals sent to it.

::

    RequestError
    └── AgentRefused              the agent answered a call with an error; ``number``, ``data``
        ├── AuthRequired          -32000: authenticate first
        ├── NotFound              -32002: unknown session or resource
        ├── MethodUnknown         -32601: the agent does not support the method
        ├── CallCancelled         -32800: the agent ended the call on request
        └── HttpRefused           the agent's server refused the message; ``status``
    ArcpError
    └── Refusal                   raised by a service or handler; the agent gets it as an error
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from arcp_client.errors import ArcpError, RequestError

__all__ = [
    "AgentRefused",
    "AuthRequired",
    "CallCancelled",
    "HttpRefused",
    "MethodUnknown",
    "NotFound",
    "Refusal",
    "refused",
]

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_UNKNOWN = -32601
INVALID_PARAMS = -32602
INTERNAL = -32603
CANCELLED = -32800
AUTH_REQUIRED = -32000
NOT_FOUND = -32002
UNSUPPORTED_VERSION = -32022


class AgentRefused(RequestError):
    """The agent answered a call with an error. The connection stays open.

    Attributes:
        message: the agent's message.
        number: the JSON-RPC error code; 0 if the agent sent no valid one.
        data: further data of the agent; the whole error if it was malformed.
    """

    remedy: ClassVar[str] = "Look at `number`, the message and `data`: they come from the agent."

    default_code: ClassVar[str] = "AGENT_REFUSED"

    def __init__(self, message: str = "", *, number: int = 0, data: Any = None) -> None:
        super().__init__(message, details=data)
        self.number = number
        self.data = data

    @property
    def reason(self) -> str:
        """The message, extended by the text of ``data``.

        Many agents send only "Internal error" as the message.
        """
        said = _words(self.data)
        return self.message if said in self.message else f"{self.message}: {said}"


def _words(data: Any) -> str:
    """Return the readable part of an error's data, at most 500 characters."""
    if isinstance(data, dict):
        told = [data[name] for name in ("details", "message", "reason", "error") if data.get(name)]
        data = told[0] if told else data or None
    if data is None or data is True or data is False:
        return ""
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    text = text.strip()
    return text if len(text) <= 500 else f"{text[:499]}…"


class AuthRequired(AgentRefused):
    """The agent requires a call of `AcpClient.authenticate` first."""

    remedy: ClassVar[str] = (
        "Call `AcpClient.authenticate` with one of the methods that the agent offers, or log "
        "in with the agent's own program."
    )

    default_code = "AUTH_REQUIRED"


class NotFound(AgentRefused):
    """The agent does not know the session or resource."""

    remedy: ClassVar[str] = (
        "Use an id from this agent; it does not know sessions of another agent or another machine."
    )

    default_code = "NOT_FOUND"


class MethodUnknown(AgentRefused):
    """The agent does not support the method."""

    remedy: ClassVar[str] = "Do not use the method: the agent's capabilities list what it supports."

    default_code = "METHOD_UNKNOWN"


class CallCancelled(AgentRefused):
    """The agent cancelled the call on request."""

    remedy: ClassVar[str] = "Nothing: the cancellation was requested."

    default_code = "CALL_CANCELLED"


class HttpRefused(AgentRefused):
    """The HTTP server of the agent refused one message. The connection stays open.

    The agent has not got the message, unless a proxy gave the answer after it had passed it on
    (``status`` 502 or 504).

    Attributes:
        status: the status of the answer, such as 429.
        retry_after: seconds after which the server takes it, if it says so; otherwise None.
    """

    remedy: ClassVar[str] = (
        "The message says what the server objects to. After 429 or 503, call again, not before "
        "`retry_after` seconds; after 409, load or resume the session first."
    )

    default_code = "HTTP_REFUSED"

    def __init__(
        self, message: str = "", *, status: int = 0, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Refusal(ArcpError):
    """Raised in a service or a request handler to answer the agent with an error.

    Attributes:
        number: a JSON-RPC error code.
        message: one sentence for the agent.
        data: additional JSON data.
    """

    remedy: ClassVar[str] = "Nothing: the agent got the error as its answer and decides what to do."

    def __init__(self, message: str, *, number: int = INTERNAL, data: Any = None) -> None:
        super().__init__(message)
        self.number = number
        self.message = message
        self.data = data


_BY_NUMBER: dict[int, type[AgentRefused]] = {
    AUTH_REQUIRED: AuthRequired,
    NOT_FOUND: NotFound,
    METHOD_UNKNOWN: MethodUnknown,
    CANCELLED: CallCancelled,
}


def refused(error: Any) -> AgentRefused:
    """Convert the ``error`` of a response, in any form, to an exception."""
    if not isinstance(error, dict):
        return AgentRefused(f"the agent sent a malformed error: {error!r:.200}", data=error)
    number, message = error.get("code"), error.get("message")
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if type(number) is not int:
        return AgentRefused(str(message or "an error without a code"), data=error)
    cls = _BY_NUMBER.get(number, AgentRefused)
    return cls(str(message or f"error {number}"), number=number, data=error.get("data"))
