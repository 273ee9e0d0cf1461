"""Speaks JSON-RPC 2.0 with one agent over a transport.

It sends calls and answers, and learns of the end of the link; `reader` is its receiving half.
`connection` is above it.
"""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Mapping
from typing import Any

from arcp_client._budget import ByteBudget
from arcp_client._tasks import TaskOwner
from arcp_client.acp._connection.calls import Arrive, PendingCalls
from arcp_client.acp._connection.messages import Id
from arcp_client.acp._connection.reader import MessageReader, MessageReceiver
from arcp_client.acp._connection.send_queue import SendQueue
from arcp_client.acp._decode import as_json
from arcp_client.errors import LinkLost, LocalProtocolError, RequestTimeout
from arcp_client.transports import Transport

__all__ = ["JsonRpcPeer"]

_log = logging.getLogger("arcp_client.acp")

_NEWS = 1.0  # seconds from a failed write to the news of the agent's end


class JsonRpcPeer:
    """One agent at the other end of a transport.

    Args:
        transport: the link; its creator closes it.
        receiver: is given the agent's requests and notifications.
        owner: owns the reader and the sender of answers.
        answers: counts the bytes of answers that are still to be sent.
    """

    def __init__(
        self,
        transport: Transport,
        receiver: MessageReceiver,
        owner: TaskOwner,
        answers: ByteBudget,
    ) -> None:
        self._transport = transport
        self._receiver = receiver
        self._owner = owner
        self._calls = PendingCalls()
        self._ended = asyncio.Event()
        self._queue = SendQueue(self._send_queued, owner, answers)
        self._reader = MessageReader(transport, receiver, self._calls, self._queue, self._refuse)
        self.why: LinkLost | None = None

    def start(self) -> None:
        """Begin to read."""
        self._owner.spawn(self._read(), name="reader")

    async def _read(self) -> None:
        self.fail(await self._reader.run())

    async def call(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None,
        arrive: Arrive | None = None,
        nested: bool = False,
        serving: bool = False,
        abandon: bool = True,
    ) -> bytes:
        """Send a request and wait for its answer; the JSON of the result.

        Args:
            method: the method.
            params: what can be encoded as a JSON object.
            timeout: seconds; None waits as long as the agent lives.
            arrive: called by the reader with the answer and with what settles this call, which it
                may do later. By default the call is settled at once.
            nested: a handler of updates makes the call, so its answer must be readable.
            serving: what serves a request of the agent makes the call; likewise.
            abandon: send ``$/cancel_request`` if the wait is cut short, and take no answer then;
                otherwise ``arrive`` is still called with one.

        Raises:
            AgentRefused: the agent answered with an error.
            RequestTimeout: there was no answer in time.
            BufferFull: ``nested`` or ``serving``, and no buffer has room for what comes before the
                answer.
            RemoteProtocolError: the answer cannot be read.
            LinkLost: the agent has ended.
        """
        self.check()
        number, pending = self._calls.begin(method, arrive, nested=nested, serving=serving)
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        keep = False
        try:
            async with asyncio.timeout(timeout) as scope:
                await self._send(as_json(message))
                return await pending.future
        except TimeoutError as error:
            if not scope.expired():
                raise
            self._abandon(number, abandon)
            text = f"{method} was not answered within {timeout:g} s"
            raise RequestTimeout(text) from error
        except asyncio.CancelledError:
            self._abandon(number, abandon)
            keep = not abandon
            raise
        finally:
            if not keep:
                self._calls.drop(number)
            if not pending.future.cancel() and not pending.future.cancelled():
                pending.future.exception()  # the write may have failed first

    def _abandon(self, number: int, abandon: bool) -> None:
        if abandon and number in self._calls:
            self.post({"method": "$/cancel_request", "params": {"requestId": number}})

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification.

        Raises:
            LinkLost: the agent has ended.
        """
        self.check()
        await self._send(as_json({"jsonrpc": "2.0", "method": method, "params": params}))

    async def _send(self, line: bytes) -> None:
        try:
            await self._transport.send(line)
        except LinkLost as error:
            await self._unsendable(error)
            raise copy.copy(self.why or error) from error

    async def _unsendable(self, error: LinkLost) -> None:
        """Nothing can be sent any more, so the link is over, even if the agent still writes."""
        # Its input closes before the news of its end is here, which says more.
        news = self._owner.spawn(self._ended.wait(), name="news")
        try:
            await asyncio.wait({news}, timeout=_NEWS)
        finally:
            news.cancel()
        self.fail(error)

    def post(self, message: Mapping[str, Any], *, reserved: int | None = None) -> None:
        """Queue a message that no caller waits for. Ignored once the agent has ended.

        Args:
            message: the members beside ``jsonrpc``.
            reserved: bytes that were reserved for it; its own number takes their place.

        Raises:
            TypeError, ValueError: it is not JSON. Nothing is sent, and what was reserved remains.
        """
        try:
            line = as_json({"jsonrpc": "2.0", **message})
        except RecursionError:
            raise ValueError("nested too deeply") from None
        self._queue.put(line, reserved=reserved)
        if self.why is not None:
            self._queue.clear()

    async def _send_queued(self, line: bytes) -> None:
        try:
            await self._transport.send(line)
        except LinkLost as error:
            _log.debug("not sent: %s", error)
            await self._unsendable(error)
        except LocalProtocolError as error:  # larger than a line may be
            _log.error("a message of %d bytes could not be sent: %s", len(line), error)

    def _refuse(self, id_: Id, number: int, message: str) -> None:
        self.post({"id": id_.raw, "error": {"code": number, "message": message}})

    def check(self) -> None:
        """Raise LinkLost if the link has ended."""
        if self.why is not None:
            raise copy.copy(self.why)

    def fail(self, error: LinkLost) -> None:
        """The link has ended, or is about to: every waiter gets ``error`` now. Idempotent."""
        if self.why is not None:
            return
        self.why = error
        self._ended.set()
        self._queue.clear()
        self._calls.fail(error)
        self._receiver.lost(error)
