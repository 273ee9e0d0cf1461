"""The JSON-RPC 2.0 peer: sends calls and answers to one agent over a transport.

`JsonRpcPeer` also detects the end of the link. `reader` receives; `connection` is the layer above.
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
from arcp_client.acp.errors import AgentRefused
from arcp_client.errors import LinkLost, LocalProtocolError, RequestTimeout
from arcp_client.transports import Transport

__all__ = ["JsonRpcPeer"]

_log = logging.getLogger("arcp_client.acp")

_NEWS = 1.0  # seconds to wait for the agent's exit status after a failed write


class JsonRpcPeer:
    """The agent at the other end of a transport.

    Args:
        transport: the link; its creator closes it.
        receiver: handles the agent's requests and notifications.
        owner: owns the reader and the sender of answers.
        answers: counts the bytes of unsent answers.
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
        """Start reading."""
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
        """Send a request and wait for its answer; return the JSON of the result.

        Args:
            method: the method.
            params: a value that encodes as a JSON object.
            timeout: seconds; None waits until the agent exits.
            arrive: called by the reader with the answer and with a function that completes this
                call, now or later. By default the call completes at once.
            nested: whether a handler of updates makes the call; the reader must not wait for that
                handler.
            serving: whether a service makes the call; the reader must not wait for that service.
            abandon: if the wait is cancelled, send ``$/cancel_request`` and ignore a later answer.
                Otherwise ``arrive`` is still called with it.

        Raises:
            AgentRefused: the agent answered with an error.
            RequestTimeout: the agent did not answer in time.
            BufferFull: ``nested`` or ``serving`` is set, and the buffers have no room for the
                messages before the answer.
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
                pending.future.exception()  # a failed write may have come first

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
        """End the link, because nothing can be sent, even if the agent still writes."""
        # The agent's input closes before its exit status is known, which is the better error.
        news = self._owner.spawn(self._ended.wait(), name="news")
        try:
            await asyncio.wait({news}, timeout=_NEWS)
        finally:
            news.cancel()
        self.fail(error)

    def post(self, message: Mapping[str, Any], *, reserved: int | None = None) -> None:
        """Queue a message that no caller waits for. Without effect once the agent has exited.

        Args:
            message: the members of the message except ``jsonrpc``.
            reserved: bytes that were reserved for it; its actual size replaces them.

        Raises:
            TypeError, ValueError: the message is not JSON. Nothing is sent, and the reservation
                remains.
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
        except (LocalProtocolError, AgentRefused) as error:  # over the limit of a line or a server
            _log.error("a message of %d bytes could not be sent: %s", len(line), error)

    def _refuse(self, id_: Id, number: int, message: str) -> None:
        self.post({"id": id_.raw, "error": {"code": number, "message": message}})

    def check(self) -> None:
        """Raise LinkLost if the link has ended."""
        if self.why is not None:
            raise copy.copy(self.why)

    def fail(self, error: LinkLost) -> None:
        """End the link: every waiter gets ``error`` now. Idempotent."""
        if self.why is not None:
            return
        self.why = error
        self._ended.set()
        self._queue.clear()
        self._calls.fail(error)
        self._receiver.lost(error)
