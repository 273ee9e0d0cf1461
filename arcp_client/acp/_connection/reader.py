"""Reads the agent's messages and passes each to its session, its call or its service.

The reader never awaits user code, and only the end of the link ends it. It reports a message that
cannot be parsed. If the id of such a message can be read, something waits for it: the reader
answers a request with an error, and lets the call fail that an answer belongs to.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from arcp_client._wire.unreadable import unreadable
from arcp_client.acp._connection.calls import Outcome, PendingCalls
from arcp_client.acp._connection.messages import Id, RpcMessage, decode_update, key_of, take_apart
from arcp_client.acp._connection.send_queue import SendQueue
from arcp_client.acp._decode import REFUSED, Misshapen, as_json, as_value
from arcp_client.acp._repair import Head, head, mend
from arcp_client.acp.errors import INVALID_REQUEST, PARSE_ERROR, refused
from arcp_client.errors import LinkLost, RemoteProtocolError
from arcp_client.transports import Transport
from arcp_client.transports._lines import DroppedLine

__all__ = ["AnswerError", "MessageReader", "MessageReceiver"]

_log = logging.getLogger("arcp_client.acp")

_SLICE = 64  # lines to read before yielding to the event loop
_NULL = msgspec.Raw(b"null")


class MessageReceiver(Protocol):
    """Handles the agent's requests and notifications. Only its coroutines may wait."""

    inboxes: dict[str, Callable[[bytes], bool]]
    """Session id to a function that queues the line of an update; it returns False if there is no
    room.
    """

    def early_update(self, session_id: str, line: bytes) -> None:
        """Buffer an update of a session that is not attached."""

    async def room(self) -> None:
        """Wait until an update has been consumed."""

    def request(self, id_: Id, method: str, params: bytes) -> None:
        """Handle a request of the agent."""

    @property
    def crowded(self) -> bool:
        """Whether the open requests exceed their limit in bytes."""

    async def served(self) -> None:
        """Wait until the open requests are within their limit."""

    def notification(self, method: str, params: bytes) -> None:
        """Handle any other notification."""

    def strange(self, error: RemoteProtocolError) -> None:
        """Report a line that could not be parsed and was skipped."""

    def lost(self, error: LinkLost) -> None:
        """Handle the end of the link. The last call."""


class AnswerError(Protocol):
    """Answers a request with an error."""

    def __call__(self, id_: Id, number: int, message: str) -> None:
        """Send the error."""


class MessageReader:
    """Reads the messages of one link.

    Args:
        transport: the link.
        receiver: handles requests and notifications.
        calls: the pending calls; answers complete them.
        queue: the unsent answers; while it is full, no request is read.
        refuse: answers a request with an error.
    """

    def __init__(
        self,
        transport: Transport,
        receiver: MessageReceiver,
        calls: PendingCalls,
        queue: SendQueue,
        refuse: AnswerError,
    ) -> None:
        self._transport = transport
        self._receiver = receiver
        self._calls = calls
        self._queue = queue
        self._refuse = refuse

    async def run(self) -> LinkLost:
        """Read until the link ends; return the reason."""
        receive, receiver = self._transport.receive, self._receiver
        inbox_of = receiver.inboxes.get
        left = _SLICE
        while True:
            try:
                line = await receive()
            except RemoteProtocolError as error:
                await self._dropped(error)
                continue
            except LinkLost as error:
                return error
            try:
                update = decode_update(line)
                inbox = inbox_of(update.params.session_id)
                if update.id:
                    await self._after(self._parse(line))
                elif inbox is None:
                    receiver.early_update(update.params.session_id, line)
                elif not inbox(line):
                    await self._make_room(inbox, line)
            except REFUSED:
                await self._after(self._parse(line))
            left -= 1
            if not left:
                await asyncio.sleep(0)  # receive() does not suspend while lines are available
                left = _SLICE

    # ------------------------------------------------------------------ where the reader waits

    async def _after(self, found: tuple[str, bytes] | None) -> None:
        """Queue an update of a rare form, and wait if a message has filled a buffer."""
        if found is not None:
            await self._update(*found)
        if self._queue.full:  # the agent keeps sending requests without reading answers
            await self._queue.room()
        if self._receiver.crowded:
            with self._calls.reader_waits(for_services=True):
                await self._receiver.served()

    async def _update(self, session_id: str, line: bytes) -> None:
        inbox = self._receiver.inboxes.get(session_id)
        if inbox is None:
            self._receiver.early_update(session_id, line)
        elif not inbox(line):
            await self._make_room(inbox, line)

    async def _make_room(self, inbox: Callable[[bytes], bool], line: bytes) -> None:
        with self._calls.reader_waits(for_services=False):
            while not inbox(line):
                await self._receiver.room()

    # ------------------------------------------------------------------ one line

    async def _dropped(self, error: RemoteProtocolError) -> None:
        """Fail the call or request whose line the transport dropped."""
        if not isinstance(error, DroppedLine):
            self._receiver.strange(error)
        elif error.complete:
            await self._after(self._parse_repaired(error.start, error))
        else:
            await self._after(self._parse_head(head(error.start), error))

    def _parse(self, line: bytes) -> tuple[str, bytes] | None:
        """Handle a message; for an update, return its session id and line instead."""
        try:
            message, id_, method = take_apart(line)
        except (*REFUSED, ValueError) as error:
            return self._parse_repaired(line, unreadable(f"not a message ({_why(error)})", line))
        self._message(message, id_, method, line)
        return None

    def _parse_repaired(
        self, line: bytes, problem: RemoteProtocolError
    ) -> tuple[str, bytes] | None:
        """Handle a line that is not strict JSON, after repairing it if possible."""
        mended = mend(line)
        if mended is None or mended == line:
            return self._parse_head(head(line), problem)
        try:
            update = decode_update(mended)
        except REFUSED:
            pass
        else:
            if not update.id:
                return update.params.session_id, mended
        try:
            message, id_, method = take_apart(mended)
        except (*REFUSED, ValueError):
            return self._parse_head(head(mended), problem)
        _log.warning("read a message that is not strict JSON with replacements: %s", problem)
        self._message(message, id_, method, mended)
        return None

    def _parse_head(self, found: Head, error: RemoteProtocolError) -> tuple[str, bytes] | None:
        """Handle a message of which only the head can be read, by failing its call or request."""
        self._receiver.strange(error)
        if found.method == b"session/update" and found.session and found.id is None:
            session_id = as_value(found.session)
            params = {"sessionId": session_id, "update": None}
            return session_id, as_json({"method": "session/update", "params": params})
        try:
            id_ = None if found.id is None else Id(key_of(found.id), msgspec.Raw(found.id))
        except (*REFUSED, ValueError):
            return None
        if id_ is None:
            return None
        if found.method is not None or found.has_params:
            self._refuse(id_, PARSE_ERROR, str(error))
        else:
            self._calls.settle(id_.key, error)
        return None

    def _message(self, message: RpcMessage, id_: Id | None, method: Any, line: bytes) -> None:
        try:
            if method is None:
                self._answer(message, id_, line)
            elif id_ is None:
                self._receiver.notification(method, bytes(message.params))
            else:
                self._receiver.request(id_, method, bytes(message.params))
        except Exception as error:  # noqa: BLE001  # whatever it is, the next line is read
            self._strange(f"a message could not be handled ({type(error).__name__})", line)

    def _answer(self, message: RpcMessage, id_: Id | None, line: bytes) -> None:
        if id_ is None or id_.key is None:
            self._strange("an answer without an id", line)
            return
        outcome: Outcome
        if message.error and message.error != _NULL:
            try:
                outcome = refused(as_value(bytes(message.error)))
            except Misshapen as error:
                outcome = unreadable(f"the error of an answer: {error}", line)
        elif message.result or message.error:
            outcome = bytes(message.result)
        elif message.params:
            self._strange("a request without a method", line)
            self._refuse(id_, INVALID_REQUEST, "a request without a method")
            return
        else:
            outcome = unreadable("an answer has neither a result nor an error", line)
            self._receiver.strange(outcome)
        if not self._calls.settle(id_.key, outcome):
            self._strange("an answer to an unknown call", line)

    def _strange(self, text: str, line: bytes) -> None:
        self._receiver.strange(unreadable(text, line))


def _why(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)
