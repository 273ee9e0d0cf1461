"""Speaks JSON-RPC 2.0 with one agent over a transport.

The reader never awaits user code, and nothing an agent writes ends it. What cannot be understood is
reported; if its id can be read, a request is answered with an error, and the call that an answer
belongs to fails. Only the end of the link ends the reader, and then every waiter learns why at
once.
"""

from __future__ import annotations

import asyncio
import copy
import itertools
import logging
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Literal, Protocol, TypeAlias

import msgspec

from arcp_client._budget import ByteBudget
from arcp_client._tasks import TaskOwner
from arcp_client._wire.unreadable import unreadable
from arcp_client.acp._connection.send_queue import Outbox
from arcp_client.acp._decode import REFUSED, Misshapen, as_json, as_value
from arcp_client.acp._repair import Head, head, mend
from arcp_client.acp.errors import INVALID_REQUEST, PARSE_ERROR, refused
from arcp_client.errors import (
    BufferFull,
    LinkLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
)
from arcp_client.transports import Transport
from arcp_client.transports._lines import DroppedLine

__all__ = ["Arrive", "Id", "JsonRpcPeer", "Key", "Outcome", "Receiver"]

_log = logging.getLogger("arcp_client.acp")

Outcome: TypeAlias = "bytes | Exception"
Settle: TypeAlias = Callable[[Outcome], None]
Arrive: TypeAlias = Callable[[Outcome, Settle], None]

Key: TypeAlias = "int | Decimal | str | None"

_SLICE = 64
_NEWS = 1.0  # seconds from a failed write to the news of the agent's end


class Id(msgspec.Struct, frozen=True, gc=False):
    """The id of a request.

    Attributes:
        key: compared with other ids: a number as a number, however it is written.
        raw: as the agent wrote it, for the answer.
    """

    key: Key
    raw: msgspec.Raw


class Receiver(Protocol):
    """Where the reader hands on what is no answer. Nothing here may wait or raise."""

    inboxes: dict[str, Callable[[bytes], bool]]
    """By session: takes the line of an update; False if there is no room for it."""

    def stray(self, session_id: str, line: bytes) -> None:
        """An update of a session without an inbox."""

    async def room(self) -> None:
        """Wait until something has been consumed."""

    def request(self, id_: Id, method: str, params: bytes) -> None:
        """A request of the agent."""

    @property
    def crowded(self) -> bool:
        """Whether the open requests hold more bytes than they may."""

    async def served(self) -> None:
        """Wait until that is not so."""

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
_decode_text = msgspec.json.Decoder(str).decode


_NULL = msgspec.Raw(b"null")


def _taken_apart(line: bytes) -> tuple[_Message, Id | None, str | None]:
    """A message, its id and its method.

    Raises:
        MsgspecError, UnicodeDecodeError, RecursionError, ValueError: it is no message.
    """
    message = _decode_message(line)
    raw = bytes(message.id)
    id_ = Id(_key_of(raw), msgspec.Raw(raw)) if raw else None
    return message, id_, _decode_text(message.method) if message.method else None


def _why(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _key_of(raw: bytes) -> Key:
    """An id as it is compared.

    Raises:
        ValueError: it is neither a number nor a string nor null.
    """
    if raw == b"null":
        return None
    if raw[:1] == b'"':
        return _decode_text(raw)
    if raw.isdigit() and len(raw) < 4000:
        return int(raw)
    if raw[:1] not in b"-0123456789":
        raise ValueError("neither a number nor a string")
    try:
        return Decimal(raw.decode())  # equal to the int of the same value, and found as it
    except ArithmeticError:
        raise ValueError("a number beyond all bounds") from None


class _Pending:
    __slots__ = ("arrive", "future", "method", "nested", "serving")

    def __init__(self, method: str, arrive: Arrive | None, nested: bool, serving: bool) -> None:
        self.method = method
        self.arrive = arrive
        self.nested = nested
        self.serving = serving
        self.future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def settle(self, outcome: Outcome) -> None:
        if self.future.done():
            return
        if isinstance(outcome, bytes):
            self.future.set_result(outcome)
        else:
            self.future.set_exception(outcome)


class JsonRpcPeer:
    """One agent at the other end of a transport.

    Args:
        transport: the link; closed by whoever made it.
        receiver: where what is no answer goes.
        owner: owns the reader and what is sent on the side.
        answers: counts the bytes that are sent on the side.
    """

    def __init__(
        self, transport: Transport, receiver: Receiver, owner: TaskOwner, answers: ByteBudget
    ) -> None:
        self._transport = transport
        self._receiver = receiver
        self._owner = owner
        self._ids = itertools.count()
        self._next = 0
        self._pending: dict[int | Decimal, _Pending] = {}
        self._ended = asyncio.Event()
        self._starving = False  # the reader waits for room for an update
        self._crowded = False  # the reader waits for requests to be served
        self._outbox = Outbox(self._post, owner, answers)
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
        serving: bool = False,
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
            serving: it is made by what serves a request of the agent; likewise.
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
        if (nested and self._starving) or ((nested or serving) and self._crowded):
            raise _starved(method)
        number = self._next = next(self._ids)
        pending = self._pending[number] = _Pending(method, arrive, nested, serving)
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

    def post(self, message: Mapping[str, Any], *, reserved: int | None = None) -> None:
        """Send something on the side; that the agent has ended meanwhile is no error.

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
        self._outbox.put(line, reserved=reserved)
        if self.why is not None:
            self._outbox.clear()

    async def _post(self, line: bytes) -> None:
        try:
            await self._transport.send(line)
        except LinkLost as error:
            _log.debug("not sent: %s", error)
            await self._deaf(error)
        except LocalProtocolError as error:  # larger than a line may be
            _log.error("a message of %d bytes could not be sent: %s", len(line), error)

    @property
    def _posting(self) -> int:
        """How many messages without a reservation wait, the one that is being sent included."""
        return self._outbox.waiting

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
                await self._dropped(error)
                continue
            except LinkLost as error:
                self.fail(error)
                return
            try:
                update = decode_update(line)
                inbox = inbox_of(update.params.session_id)
                if update.id:
                    await self._after(self._apart(line))
                elif inbox is None:
                    receiver.stray(update.params.session_id, line)
                elif not inbox(line):
                    await self._make_room(inbox, line)
            except REFUSED:
                await self._after(self._apart(line))
            left -= 1
            if not left:
                await asyncio.sleep(0)  # receive() does not wait while lines are there
                left = _SLICE

    async def _after(self, found: tuple[str, bytes] | None) -> None:
        """Hand on an update that was found late, and wait if a message has filled a buffer."""
        if found is not None:
            await self._update(*found)
        if self._outbox.full:  # it asks and asks, and reads no answer
            await self._outbox.room()
        if self._receiver.crowded:
            self._crowded = True
            self._starve(serving=True)
            await self._receiver.served()
            self._crowded = False

    async def _update(self, session_id: str, line: bytes) -> None:
        inbox = self._receiver.inboxes.get(session_id)
        if inbox is None:
            self._receiver.stray(session_id, line)
        elif not inbox(line):
            await self._make_room(inbox, line)

    async def _make_room(self, inbox: Callable[[bytes], bool], line: bytes) -> None:
        self._starving = True
        self._starve(serving=False)
        while not inbox(line):
            await self._receiver.room()
        self._starving = False

    def _starve(self, *, serving: bool) -> None:
        """The reader is about to wait: calls that it may wait for cannot be answered."""
        for number, pending in list(self._pending.items()):
            if pending.nested or (serving and pending.serving):
                del self._pending[number]
                pending.settle(_starved(pending.method))

    async def _dropped(self, error: RemoteProtocolError) -> None:
        """The transport has dropped a line; what it was part of need not wait for it."""
        if not isinstance(error, DroppedLine):
            self._receiver.strange(error)
        elif error.complete:
            await self._after(self._again(error.start, error))
        else:
            await self._after(self._beheaded(head(error.start), error))

    def _apart(self, line: bytes) -> tuple[str, bytes] | None:
        """Handle a message; the session and the line of an update are returned instead."""
        try:
            message, id_, method = _taken_apart(line)
        except (*REFUSED, ValueError) as error:
            return self._again(line, unreadable(f"no message ({_why(error)})", line))
        self._message(message, id_, method, line)
        return None

    def _again(self, line: bytes, problem: RemoteProtocolError) -> tuple[str, bytes] | None:
        """Read a line that is no strict JSON, as far as it can be read."""
        mended = mend(line)
        if mended is None or mended == line:
            return self._beheaded(head(line), problem)
        try:
            update = _decode_update(mended)
        except REFUSED:
            pass
        else:
            if not update.id:
                return update.params.session_id, mended
        try:
            message, id_, method = _taken_apart(mended)
        except (*REFUSED, ValueError):
            return self._beheaded(head(mended), problem)
        _log.warning("a message that is no strict JSON is read with replacements: %s", problem)
        self._message(message, id_, method, mended)
        return None

    def _beheaded(self, found: Head, error: RemoteProtocolError) -> tuple[str, bytes] | None:
        """A message of which only the head can be read: nobody may wait for it in vain."""
        self._receiver.strange(error)
        if found.method == b"session/update" and found.session and found.id is None:
            session_id = as_value(found.session)
            params = {"sessionId": session_id, "update": None}
            return session_id, as_json({"method": "session/update", "params": params})
        try:
            id_ = None if found.id is None else Id(_key_of(found.id), msgspec.Raw(found.id))
        except (*REFUSED, ValueError):
            return None
        if id_ is None:
            return None
        if found.method is not None or found.has_params:
            self._refuse(id_, PARSE_ERROR, str(error))
        else:
            self._settle(id_.key, error)
        return None

    def _message(self, message: _Message, id_: Id | None, method: Any, line: bytes) -> None:
        try:
            if method is None:
                self._answer(message, id_, line)
            elif id_ is None:
                self._receiver.notification(method, bytes(message.params))
            else:
                self._receiver.request(id_, method, bytes(message.params))
        except Exception as error:  # noqa: BLE001  # whatever it is, the next line is read
            self._strange(f"a message could not be handled ({type(error).__name__})", line)

    def _answer(self, message: _Message, id_: Id | None, line: bytes) -> None:
        if id_ is None or id_.key is None:
            self._strange("an answer to nothing", line)
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
        if not self._settle(id_.key, outcome):
            self._strange("an answer to a call that was never made", line)

    def _settle(self, key: Key, outcome: Outcome) -> bool:
        """End the call of an id; False if there never was one."""
        if isinstance(key, str) and key.isdecimal() and len(key) < 20:
            key = int(key)  # some agents keep ids as text
        if isinstance(key, str) or key is None:
            return False
        pending = self._pending.pop(key, None)
        if pending is None:
            _log.debug("late answer to call %.40s", key)
            return 0 <= key <= self._next and key == int(key)
        if pending.arrive is None:
            pending.settle(outcome)
        else:
            pending.arrive(outcome, pending.settle)
        return True

    def _refuse(self, id_: Id, number: int, message: str) -> None:
        self.post({"id": id_.raw, "error": {"code": number, "message": message}})

    def _strange(self, text: str, line: bytes) -> None:
        self._receiver.strange(unreadable(text, line))

    def fail(self, error: LinkLost) -> None:
        """The link has ended, or is about to: every waiter gets ``error`` now. Idempotent."""
        if self.why is not None:
            return
        self.why = error
        self._ended.set()
        self._outbox.clear()
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
