"""Decides which session, and so which stream, a message belongs to.

A server sends the messages of a session over the stream of that session, and all others over the
stream of the connection. Requests that concern a session, and answers to requests that came over
its stream, carry the session's id in a header.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import msgspec

from arcp_client.acp._connection.messages import Key, decode_update, take_apart
from arcp_client.acp._decode import REFUSED, as_json

__all__ = ["HAND_ON", "Incoming", "MessageRoutes", "Outgoing"]

_KEYS = "arcp-order-"
_OPENING = ("session/new", "session/fork")
_ENDING = ("session/close", "session/delete")
_MOST = 4096  # requests without an answer that are remembered, in each direction


class Outgoing(NamedTuple):
    """What the transport must know of a message that it sends.

    Attributes:
        method: its method; empty for an answer.
        key: the id of a request; None for other messages.
        session: the session that it belongs to, if any.
    """

    method: str
    key: Key
    session: str | None


class Incoming(NamedTuple):
    """What the transport does with a message that it receives, beside handing it on.

    Attributes:
        opened: the id of a session that it creates.
        ended: the id of a session that it ends.
        ordered: the key of the own request that it answers; the message is not handed on.
        behind: the session whose stream may hold earlier messages; the message waits for them.
    """

    opened: str | None = None
    ended: str | None = None
    ordered: str | None = None
    behind: str | None = None


class _SessionParams(msgspec.Struct):
    session_id: Any = msgspec.field(default=None, name="sessionId")


class _OpenedSession(msgspec.Struct):
    session_id: str | None = msgspec.field(default=None, name="sessionId")


_params = msgspec.json.Decoder(_SessionParams).decode
_result = msgspec.json.Decoder(_OpenedSession).decode

_Asked: TypeAlias = "dict[Key, tuple[str, str | None]]"

HAND_ON = Incoming()
"""Nothing: it is only handed on."""


class MessageRoutes:
    """The open requests of both sides of one connection, with their sessions."""

    def __init__(self) -> None:
        self._asked: _Asked = {}  # by this side
        self._served: dict[Key, str | None] = {}  # asked by the agent
        self._orders = 0
        self._one_stream = False  # the server sends updates over the stream of the connection

    def outgoing(self, frame: bytes) -> Outgoing:
        """Return what is to be known of a message, and remember it if it is a request."""
        message, id_, method = take_apart(frame)
        if method is None:
            return Outgoing("", None, self._served.pop(id_.key, None) if id_ else None)
        session = _session(message.params)
        if id_ is None:
            return Outgoing(method, None, session)
        _remember(self._asked, id_.key, (method, session))
        return Outgoing(method, id_.key, session)

    def waits(self, key: Key) -> bool:
        """Whether a request has no answer yet."""
        return key in self._asked

    def forget(self, key: Key) -> None:
        """Forget a request that the server has refused."""
        self._asked.pop(key, None)

    def order(self, session: str) -> tuple[str, bytes]:
        """Make a request whose answer comes over a session's stream after all earlier messages.

        The method is an extension that no agent has: its answer is an error, which is ordered like
        any other message of the session.
        """
        self._orders += 1
        key = f"{_KEYS}{self._orders}"
        params = {"sessionId": session}
        message = {"jsonrpc": "2.0", "id": key, "method": "_arcp/order", "params": params}
        return key, as_json(message)

    def incoming(self, line: bytes, stream: str | None) -> Incoming:
        """Decide what to do with a message from the stream of a session or of the connection."""
        try:
            if not decode_update(line).id:
                self._one_stream = self._one_stream or stream is None
                return HAND_ON
        except REFUSED:
            pass
        try:
            message, id_, method = take_apart(line)
        except (*REFUSED, ValueError):
            return HAND_ON  # the reader reports it
        if id_ is None:
            return HAND_ON
        if method is not None:
            _remember(self._served, id_.key, stream or _session(message.params))
            return HAND_ON
        return self._answered(id_.key, message.result, stream)

    def _answered(self, key: Key, result: msgspec.Raw, stream: str | None) -> Incoming:
        method, session = self._asked.pop(key, ("", None))
        if isinstance(key, str) and key.startswith(_KEYS):
            return Incoming(ordered=key)
        if not result:
            return HAND_ON
        if method in _OPENING:
            return Incoming(opened=_opened(result))
        if method in _ENDING:
            return Incoming(ended=session)
        if session is not None and stream is None and not self._one_stream:
            return Incoming(behind=session)
        return HAND_ON


def _remember(known: dict[Key, Any], key: Key, value: Any) -> None:
    while len(known) >= _MOST:
        del known[next(iter(known))]  # the oldest: an answer would have come by now
    known[key] = value


def _session(params: msgspec.Raw) -> str | None:
    try:
        found = _params(params).session_id if params else None
    except REFUSED:
        return None
    return found if isinstance(found, str) else None


def _opened(result: msgspec.Raw) -> str | None:
    try:
        return _result(result).session_id
    except REFUSED:
        return None
