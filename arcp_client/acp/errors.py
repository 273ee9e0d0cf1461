"""Errors of the Agent Client Protocol: those that an agent answers, and those that it is sent.

::

    RequestError
    └── AgentRefused              the agent answered a call with an error; ``number``, ``data``
        ├── AuthRequired          -32000: authenticate first
        ├── NotFound              -32002: no such session or resource
        ├── MethodUnknown         -32601: the agent does not have the method
        └── CallCancelled         -32800: the agent ended the call on request
    ArcpError
    └── Refusal                   raised by a service or handler here: the agent gets it as an error
"""

from __future__ import annotations

from typing import Any, ClassVar

import msgspec

from arcp_client.errors import ArcpError, RequestError

__all__ = [
    "AgentRefused",
    "AuthRequired",
    "CallCancelled",
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


class AgentRefused(RequestError):
    """The agent answered a call with an error. The connection goes on.

    Attributes:
        message: the agent's own.
        number: the JSON-RPC error code; 0 if the agent sent none that is one.
        data: whatever the agent added; the whole error if it was misshapen.
    """

    remedy: ClassVar[str] = (
        "Look at ``number``, the message and ``data``: they are the agent's own."
    )

    default_code: ClassVar[str] = "AGENT_REFUSED"

    def __init__(self, message: str = "", *, number: int = 0, data: Any = None) -> None:
        super().__init__(message, details=data)
        self.number = number
        self.data = data

    @property
    def reason(self) -> str:
        """The message with what ``data`` adds to it.

        Many agents say no more than "Internal error" in the message.
        """
        said = _words(self.data)
        return self.message if said in self.message else f"{self.message}: {said}"


def _words(data: Any) -> str:
    """The readable part of an error's data, 500 characters at most."""
    if isinstance(data, dict):
        told = [data[name] for name in ("details", "message", "reason", "error") if data.get(name)]
        data = told[0] if told else data or None
    if data is None or data is True or data is False:
        return ""
    text = data if isinstance(data, str) else msgspec.json.encode(data).decode()
    text = text.strip()
    return text if len(text) <= 500 else f"{text[:499]}…"


class AuthRequired(AgentRefused):
    """The agent wants `AcpClient.authenticate` to be called first."""

    remedy: ClassVar[str] = (
        "Call ``AcpClient.authenticate`` with one of the methods that the agent offers, or log "
        "in with the agent's own program."
    )

    default_code = "AUTH_REQUIRED"


class NotFound(AgentRefused):
    """The agent does not have that session or resource."""

    remedy: ClassVar[str] = (
        "Use an id that the agent gave; sessions of another agent or another machine are not "
        "known to it."
    )

    default_code = "NOT_FOUND"


class MethodUnknown(AgentRefused):
    """The agent does not have that method."""

    remedy: ClassVar[str] = "Do without it: the agent's capabilities say what it has."

    default_code = "METHOD_UNKNOWN"


class CallCancelled(AgentRefused):
    """The agent ended the call because it was asked to."""

    remedy: ClassVar[str] = "Nothing; somebody asked for it."

    default_code = "CALL_CANCELLED"


class Refusal(ArcpError):
    """Raise it in a service or a handler of requests: the agent gets it as its answer.

    Attributes:
        number: a JSON-RPC error code.
        message: one sentence for the agent.
        data: JSON to go with it.
    """

    remedy: ClassVar[str] = "Nothing: the agent got it as its answer, and decides what to do."

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
    """The exception for the ``error`` of a response, whatever it is."""
    if not isinstance(error, dict):
        return AgentRefused(
            f"the agent sent an error of no known shape: {error!r:.200}", data=error
        )
    number, message = error.get("code"), error.get("message")
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if type(number) is not int:
        return AgentRefused(str(message or "an error without a code"), data=error)
    cls = _BY_NUMBER.get(number, AgentRefused)
    return cls(str(message or f"error {number}"), number=number, data=error.get("data"))
