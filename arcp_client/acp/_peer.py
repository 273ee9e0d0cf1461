"""Lines of one agent in, answers to calls and messages out: JSON-RPC 2.0 over a transport.

The reader never awaits user code, and nothing an agent writes ends it: what cannot be understood is
reported and skipped. Only the end of the link ends it, and then every waiter learns why at once.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from arcp_client._tasks import TaskOwner
from arcp_client._wire.unreadable import unreadable
from arcp_client.acp._decode import as_json
from arcp_client.acp.errors import refused
from arcp_client.errors import BufferFull, LinkLost, RemoteProtocolError, RequestTimeout
from arcp_client.transports import Transport

__all__ = ["Arrive", "Outcome", "Peer", "Receiver"]

_log = logging.getLogger("arcp_client.acp")

Outcome: TypeAlias = "bytes | Exception"
Settle: TypeAlias = Callable[[Outcome], None]
Arrive: TypeAlias = Callable[[Outcome, Settle], None]

_SLICE = 64
_POSTS = 1024  # answers that may wait for an agent that reads nothing
_NEWS = 1.0  # seconds from a failed write to the news of the agent's end


class Receiver(Protocol):
    """Where the reader hands on what is no answer. Nothing here may wait or raise."""

    inboxes: dict[str, Callable[[bytes], bool]]
    """By session: takes the line of an update; False if there is no room for it."""

    def stray(self, session_id: str, line: bytes) -> None:
        """An update of a session without an inbox."""

    async def room(self) -> None:
        """Wait until something has been consumed."""

    def request(self, id_: int | str | None, method: str, params: bytes) -> None:
        """A request of the agent."""

    def notification(self, method: str, params: bytes) -> None:
        """Any other notification."""

    def strange(self, error: RemoteProtocolError) -> None:
        """A line that could not be understood and was skipped."""

    def lost(self, error: LinkLost) -> None:
        """The link has ended. The last call."""


class _OfSession(msgspec.Struct, rename="camel", gc=False):
    session_id: str


class _Update(msgspec.Struct, gc=False):
    # What nearly every line is. Anything else takes the long way.
    method: Literal["session/update"]
    params: _OfSession
    id: msgspec.Raw = msgspec.Raw()


class _Message(msgspec.Struct, gc=False):
    method: msgspec.Raw = msgspec.Raw()
    id: msgspec.Raw = msgspec.Raw()
    params: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()


_decode_update = msgspec.json.Decoder(_Update).decode
_decode_message = msgspec.json.Decoder(_Message).decode
_decode_any = msgspec.json.Decoder().decode


class _Pending:
    __slots__ = ("arrive", "future", "method", "nested")

    def __init__(self, method: str, arrive: Arrive | None, nested: bool) -> None:
        self.method = method
        self.arrive = arrive
        self.nested = nested
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Outcome) -> None:
        if self.future.done():
            return
        if isinstance(outcome, bytes):
            self.future.set_result(outcome)
        else:
            self.future.set_exception(outcome)


class Peer:
    """One agent at the other end of a transport.

    Args:
        transport: the link; closed by whoever made it.
        receiver: where what is no answer goes.
        owner: owns the reader and what is sent on the side.
    """

    def __init__(self, transport: Transport, receiver: Receiver, owner: TaskOwner) -> None:
        self._transport = transport
        self._receiver = receiver
        self._owner = owner
        self._ids = itertools.count()
        self._next = 0
        self._pending: dict[int, _Pending] = {}
        self._ended = asyncio.Event()
        self._starving = False  # the reader waits for room
        self._posting = 0
        self._posted = asyncio.Event()
        self.why: LinkLost | None = None

    def start(self) -> None:
        """Begin to read."""
        self._owner.spawn(self._read(), name="reader")

    # ------------------------------------------------------------------ out

    async def call(
        self,
        method: str,
        params: Any,
        *,
        timeout: float | None,
        arrive: Arrive | None = None,
        nested: bool = False,
        abandon: bool = True,
    ) -> bytes:
        """Send a request and wait for its answer; the JSON of the result.

        Args:
            method: the method.
            params: what can be encoded as a JSON object.
            timeout: seconds; None waits as long as the agent lives.
            arrive: called by the reader with the answer and what settles this call with it, which
                it may do later. By default the call is settled at once.
            nested: it is made by a handler of updates, so its answer must be readable.
            abandon: send ``$/cancel_request`` if the wait is cut short, and take no answer then;
                otherwise ``arrive`` is still called with one.

        Raises:
            AgentRefused: the agent answered with an error.
            RequestTimeout: there was no answer in time.
            BufferFull: ``nested``, and no buffer has room for what comes before the answer.
            LinkLost: the agent has ended.
        """
        self.check()
        if nested and self._starving:
            raise _starved(method)
        number = self._next = next(self._ids)
        pending = self._pending[number] = _Pending(method, arrive, nested)
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
                self._pending.pop(number, None)
            if not pending.future.cancel() and not pending.future.cancelled():
                pending.future.exception()  # the write may have failed first

    def _abandon(self, number: int, abandon: bool) -> None:
        if abandon and number in self._pending:
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
            await self._deaf(error)
            raise copy.copy(self.why or error) from error

    async def _deaf(self, error: LinkLost) -> None:
        """Nothing can be sent any more. One that only talks on answers nobody: it is over."""
        # Its input closes before the news of its end is here, which says more.
        news = self._owner.spawn(self._ended.wait(), name="news")
        try:
            await asyncio.wait({news}, timeout=_NEWS)
        finally:
            news.cancel()
        self.fail(error)

    def post(self, message: Mapping[str, Any]) -> None:
        """Send something on the side; that the agent has ended meanwhile is no error."""
        if self.why is None:
            self._posting += 1
            self._owner.spawn(self._post(as_json({"jsonrpc": "2.0", **message})), name="post")

    async def _post(self, line: bytes) -> None:
        try:
            await self._transport.send(line)
        except LinkLost as error:
            _log.debug("not sent: %s", error)
            await self._deaf(error)
        finally:
            self._posting -= 1
            self._posted.set()

    def check(self) -> None:
        """Raise LinkLost if the link has ended."""
        if self.why is not None:
            raise copy.copy(self.why)

    # ------------------------------------------------------------------ in

    async def _read(self) -> None:
        receive, decode_update, receiver = self._transport.receive, _decode_update, self._receiver
        inbox_of = receiver.inboxes.get
        left = _SLICE
        while True:
            try:
                line = await receive()
            except RemoteProtocolError as error:
                receiver.strange(error)
                continue
            except LinkLost as error:
                self.fail(error)
                return
            try:
                update = decode_update(line)
                inbox = inbox_of(update.params.session_id)
                if update.id:
                    self._apart(line)
                elif inbox is None:
                    receiver.stray(update.params.session_id, line)
                elif not inbox(line):
                    await self._make_room(inbox, line)
            except (msgspec.MsgspecError, RecursionError):
                self._apart(line)
                while self._posting >= _POSTS:  # it asks and asks, and reads no answer
                    self._posted.clear()
                    await self._posted.wait()
            left -= 1
            if not left:
                await asyncio.sleep(0)  # receive() does not wait while lines are there
                left = _SLICE

    async def _make_room(self, inbox: Callable[[bytes], bool], line: bytes) -> None:
        self._starving = True
        for number, pending in list(self._pending.items()):
            if pending.nested:
                del self._pending[number]
                pending.settle(_starved(pending.method))
        while not inbox(line):
            await self._receiver.room()
        self._starving = False

    def _apart(self, line: bytes) -> None:
        try:
            self._other(line)
        except Exception as error:  # noqa: BLE001  # whatever it is, the next line is read
            self._strange(f"a message could not be handled ({type(error).__name__})", line)

    def _other(self, line: bytes) -> None:
        try:
            message = _decode_message(line)
            method = _decode_any(message.method) if message.method else None
            id_ = _decode_any(message.id) if message.id else None
        except (msgspec.MsgspecError, RecursionError) as error:
            self._strange(f"a line is no message ({error})", line)
            return
        if method is None:
            self._answer(message, id_, line)
        elif not isinstance(method, str):
            self._strange("a message's method is no string", line)
        elif not message.id:
            self._receiver.notification(method, bytes(message.params))
        elif type(id_) in (int, str, type(None)):
            self._receiver.request(id_, method, bytes(message.params))
        else:
            self._strange("a request's id is neither a number nor a string", line)

    def _answer(self, message: _Message, id_: Any, line: bytes) -> None:
        if isinstance(id_, str) and id_.isdecimal():
            id_ = int(id_)  # some agents keep ids as text
        if type(id_) is not int or not (message.result or message.error):
            self._strange("an answer to nothing", line)
            return
        pending = self._pending.pop(id_, None)
        if pending is None:
            if 0 <= id_ <= self._next:
                _log.debug("late answer to call %d", id_)
            else:
                self._strange("an answer to a call that was never made", line)
            return
        error = _decode_any(message.error) if message.error else None
        outcome: Outcome = bytes(message.result) if error is None else refused(error)
        if pending.arrive is None:
            pending.settle(outcome)
        else:
            pending.arrive(outcome, pending.settle)

    def _strange(self, text: str, line: bytes) -> None:
        self._receiver.strange(unreadable(text, line))

    def fail(self, error: LinkLost) -> None:
        """The link has ended, or is about to: every waiter gets ``error`` now. Idempotent."""
        if self.why is not None:
            return
        self.why = error
        self._ended.set()
        pending, self._pending = self._pending, {}
        for call in pending.values():
            if call.arrive is not None:
                call.arrive(copy.copy(error), _ignored)
            call.settle(copy.copy(error))
        self._receiver.lost(error)


def _starved(method: str) -> BufferFull:
    return BufferFull(f"{method} inside a handler: no buffer has room for what comes before it")


def _ignored(_: Outcome) -> None:
    pass
