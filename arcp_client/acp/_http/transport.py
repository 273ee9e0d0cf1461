"""One link to an agent over HTTP: POST for each sent message, event streams for received ones.

`MessageRoutes` decides about single messages, `AgentStream` reads one stream, and `HttpRequests`
does the HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

import msgspec

from arcp_client._deadline import Deadline
from arcp_client._tasks import TaskOwner
from arcp_client.acp._connection.messages import take_apart
from arcp_client.acp._decode import REFUSED
from arcp_client.acp._http.exchange import FAILURES, HttpResponse
from arcp_client.acp._http.order import HeldAnswers
from arcp_client.acp._http.requests import (
    HttpRequests,
    StatusError,
    TooLarge,
    failure_of,
    reason_of,
)
from arcp_client.acp._http.routes import MessageRoutes, Outgoing
from arcp_client.acp._http.statuses import ENDED, NEW_CLIENT, not_connected, refusal
from arcp_client.acp._http.stream import AgentStream
from arcp_client.acp.errors import HttpRefused
from arcp_client.errors import ConnectFailed, LinkLost, LocalProtocolError, RemoteProtocolError
from arcp_client.transports._connect import may_pass
from arcp_client.transports._ending import Ending, again, closed_here
from arcp_client.transports._pipe_inbox import FrameInbox

__all__ = ["HttpTransport"]

_log = logging.getLogger("arcp_client.acp")

_CONNECTION = "Acp-Connection-Id"
_SESSION = "Acp-Session-Id"
_VERSION = "Acp-Protocol-Version"
_AFTER = "Last-Event-ID"

_FAREWELL = 1.0  # seconds at least for the request that ends the connection


class _AgreedVersion(msgspec.Struct):
    number: int = msgspec.field(name="protocolVersion")


_version = msgspec.json.Decoder(_AgreedVersion).decode


class HttpTransport:
    """A link that begins when ``initialize`` is sent, and anew with each further one.

    Args:
        requests: sends the requests; closed with the link.
        peer: the name of the server, for messages.
        max_frame: bytes; larger messages are refused when sent, and dropped when received.
        connect_timeout: seconds to open an event stream.
        post_timeout: seconds for the answer to a sent message, except to ``initialize``.
    """

    def __init__(
        self,
        requests: HttpRequests,
        *,
        peer: str,
        max_frame: int,
        connect_timeout: float,
        post_timeout: float,
    ) -> None:
        self._requests = requests
        self._peer = peer
        self._max_frame = max_frame
        self._connect_timeout = connect_timeout
        self._post_timeout = post_timeout
        self._routes = MessageRoutes()
        self._headers: dict[str, str] = {}  # of the connection; empty while there is none
        self._streams: dict[str | None, tuple[AgentStream, asyncio.Task[None]]] = {}
        self._broken = False  # the server takes no more messages
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._inbox = FrameInbox(pause=self._flowing.clear, resume=self._flowing.set)
        # Answers have an order of their own: a server may take a request only when its own request
        # has been answered.
        self._order, self._order_of_answers = asyncio.Lock(), asyncio.Lock()
        self._owner = TaskOwner(f"http {peer}")
        self._held = HeldAnswers(
            self._owner, send=self.send, progress=self._progress, put=self._inbox.put
        )
        self._posts: set[asyncio.Task[None]] = set()
        self._sender = TaskOwner(f"http {peer} post", on_failure=self._unsent)
        self._ending = Ending(
            TaskOwner(f"http {peer} close"), teardown=self._close, abort=self._abort
        )

    def __repr__(self) -> str:
        return f"<HttpTransport {self._peer}>"

    close_is_bounded: Final = True

    async def send(self, frame: bytes) -> None:
        """Send one message, and wait until the server has taken it.

        Messages are sent in call order, answers in an order of their own. A call that is cancelled
        while it waits still sends the message.

        Raises:
            ConnectFailed: the message is ``initialize``, and the server did not take it.
            HttpRefused: the server refused this message; the link stays open.
            LinkLost: the link has ended, or the message's fate is unknown, which ends the link.
            LocalProtocolError: the message is larger than ``max_frame``, no JSON-RPC, or of a
                session whose id fits no header; nothing was sent.
        """
        if self._inbox.lost is not None:
            raise again(self._inbox.lost)
        if len(frame) > self._max_frame:
            raise LocalProtocolError(
                f"a message of {len(frame)} bytes is over this side's limit of {self._max_frame}"
                " bytes"
            )
        try:
            message = self._routes.outgoing(frame)
        except (*REFUSED, ValueError) as error:
            raise LocalProtocolError(f"not a message of JSON-RPC: {error}") from error
        if message.session is not None and not _fits_header(message.session):
            self._routes.forget(message.key)
            raise LocalProtocolError(
                f"the session id {message.session!r:.80} fits no header of HTTP, where it is sent"
            )
        task = self._sender.spawn(self._deliver(frame, message), name=message.method)
        self._posts.add(task)
        task.add_done_callback(self._posts.discard)
        # Not `await task`: the message is sent even if this call is cancelled.
        await asyncio.wait({task})
        if task.cancelled():
            raise closed_here(self._peer)
        task.result()

    async def receive(self) -> bytes:
        """Return the next message of all streams. A cancelled call loses none.

        The messages of one stream come in their order.

        Raises:
            LinkLost: the link has ended; messages that arrived before come first. Every later call
                raises it again.
            RemoteProtocolError: a message was too large or not UTF-8 and was dropped. Call again.
        """
        return await self._inbox.get()

    async def receive_many(self, limit: int) -> list[bytes]:
        """Wait for a message; return it and those after it that were read, up to ``limit``.

        Raises:
            LinkLost, RemoteProtocolError: as `receive`, instead of any message.
        """
        return await self._inbox.get_many(limit)

    async def close(self, *, timeout: float = 5.0) -> None:
        """End the connection at the server, and all streams, within about ``timeout`` seconds.

        Messages that were sent before are delivered first, for at most half of the time.
        Idempotent, from any task.
        """
        self._inbox.end(closed_here(self._peer), forget=True)
        self._flowing.set()
        await self._ending.reach(timeout=timeout)

    # ------------------------------------------------------------------ sending

    async def _deliver(self, frame: bytes, message: Outgoing) -> None:
        async with self._order if message.method else self._order_of_answers:
            if self._broken and self._inbox.lost is not None:
                raise again(self._inbox.lost)
            if message.method == "initialize":
                await self._initialize(frame)
            elif not self._headers:
                raise LocalProtocolError("the first message over HTTP must be initialize")
            else:
                await self._post(frame, message)

    async def _post(self, frame: bytes, message: Outgoing) -> None:
        headers = dict(self._headers)
        if message.session is not None:
            headers[_SESSION] = message.session
        try:
            async with asyncio.timeout(self._post_timeout):
                if message.session is not None:
                    await asyncio.shield(self._stream(message.session).ready)
                await self._requests.post(frame, headers, limit=self._max_frame)
        except StatusError as error:
            self._refused(error, message)
        except TooLarge:
            pass  # the server has taken the message, and says nothing of use
        except FAILURES as error:
            reason = reason_of(error, timeout=self._post_timeout)
            raise self._lost(
                f"a message to {self._peer} got no answer ({reason}), so it is unknown whether the"
                " agent has it"
            ) from None

    def _refused(self, error: StatusError, message: Outgoing) -> None:
        text = refusal(error, self._peer)
        if error.status in ENDED or not message.method:
            raise self._lost(text) from None
        if message.key is not None and not self._routes.waits(message.key):
            return  # the agent's answer was faster than a proxy's complaint
        self._routes.forget(message.key)
        raise HttpRefused(text, status=error.status, retry_after=error.retry_after) from None

    async def _initialize(self, frame: bytes) -> None:
        await self._leave(self._connect_timeout)
        try:
            body, headers = await self._requests.post(frame, {}, limit=self._max_frame)
            if self._begin(body, headers):
                await asyncio.shield(self._stream(None).ready)
        except StatusError as error:
            raise ConnectFailed(
                not_connected(error, self._peer), permanent=not may_pass(error.status)
            ) from None
        except TooLarge:
            text = f"its answer is over this side's limit of {self._max_frame} bytes (max_frame)"
            raise ConnectFailed(f"cannot connect to {self._peer}: {text}", permanent=True) from None
        except FAILURES as error:
            failure = failure_of(error, self._peer, timeout=self._connect_timeout)
        else:
            self._inbox.put([body])
            return
        raise failure  # outside of the handler: aiohttp's error would print the whole URL

    def _begin(self, body: bytes, headers: Mapping[str, str]) -> bool:
        """Take the answer to ``initialize``; return whether it begins a connection."""
        try:
            answer, id_, method = take_apart(body)
        except (*REFUSED, ValueError):
            answer, id_, method = None, None, None
        if answer is None or id_ is None or method is not None:
            raise ConnectFailed(
                f"{self._peer} did not answer initialize with a message of JSON-RPC: that is no ACP"
                " agent; check the URL",
                permanent=True,
            )
        connection = headers.get(_CONNECTION.lower())
        if connection is None and answer.result:
            raise ConnectFailed(
                f"the answer of {self._peer} lacks the header {_CONNECTION}: that is no ACP agent"
                " over HTTP, or a proxy removes the header",
                permanent=True,
            )
        if connection is not None:
            self._headers = {_CONNECTION: connection}
        if not answer.result:
            return False  # an error: another version may be asked for
        with suppress(*REFUSED):
            self._headers[_VERSION] = str(_version(answer.result).number)
        return True

    def _lost(self, text: str) -> LinkLost:
        """End the link; return the error to raise."""
        self._end(LinkLost(f"{text}; {NEW_CLIENT}"))
        assert self._inbox.lost is not None
        return again(self._inbox.lost)

    def _end(self, error: LinkLost) -> None:
        self._broken = True
        self._inbox.end(error)
        self._flowing.set()

    def _unsent(self, error: BaseException) -> None:
        _log.debug("not sent: %s", error)  # `send` raises it, unless its caller was cancelled

    # ------------------------------------------------------------------ receiving

    def _stream(self, session: str | None) -> AgentStream:
        """Return the stream of a session; open it if it is not."""
        if session in self._streams:
            return self._streams[session][0]
        stream = AgentStream(
            session,
            peer=self._peer,
            open_=self._open,
            open_timeout=self._connect_timeout,
            take=self._take,
            flowing=self._flowing,
            max_event=self._max_frame,
        )
        task = self._owner.spawn(self._follow(stream), name="stream")
        self._streams[session] = (stream, task)
        return stream

    async def _open(self, session: str | None, after: str, timeout: float) -> HttpResponse:
        headers = dict(self._headers)
        if session is not None:
            headers[_SESSION] = session
        if after:
            headers[_AFTER] = after
        return await self._requests.stream(headers, timeout=timeout)

    async def _follow(self, stream: AgentStream) -> None:
        try:
            lost = await stream.run()
        finally:
            stream.abandon()
            if self._streams.get(stream.session, (None,))[0] is stream:
                del self._streams[stream.session]
        if lost is not None:
            self._end(lost)

    def _take(self, items: Iterable[bytes | RemoteProtocolError], stream: str | None) -> None:
        kept: list[bytes | RemoteProtocolError] = []
        for item in items:
            if isinstance(item, RemoteProtocolError):
                kept.append(item)
                continue
            found = self._routes.incoming(item, stream)
            if found.behind is not None:
                self._held.hold(item, found.behind, self._routes)
                continue
            if found.ordered is not None:
                kept += self._held.release(found.ordered)
                continue
            if found.opened is not None and _fits_header(found.opened):
                self._stream(found.opened)
            if found.ended is not None:
                self._drop(found.ended)
            kept.append(item)
        self._inbox.put(kept)

    def _drop(self, session: str) -> None:
        found = self._streams.pop(session, None)
        if found is not None:
            found[1].cancel()

    def _progress(self, session: str) -> object:
        found = self._streams.get(session)
        # While nothing may be read, silence does not count: each look differs from the last one.
        return (found and found[0].progress) if self._flowing.is_set() else object()

    # ------------------------------------------------------------------ the end

    async def _leave(self, timeout: float) -> None:
        """End the connection at the server, and the streams."""
        for _, task in list(self._streams.values()):
            task.cancel()
        self._streams.clear()
        self._held.clear()
        headers, self._headers = self._headers, {}
        self._routes = MessageRoutes()
        if not headers:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._requests.delete(headers)
        except FAILURES as error:
            _log.debug("the end was not told: %s", reason_of(error, timeout=timeout))

    async def _close(self, timeout: float) -> None:
        deadline = Deadline(timeout)
        try:
            if self._posts and self._headers and not self._broken:
                await asyncio.wait(self._posts, timeout=timeout / 2)
            await self._leave(max(deadline.left, _FAREWELL))
        finally:
            await self._sender.close()
            await self._owner.close()
            await self._requests.close()

    def _abort(self) -> None:
        for task in self._posts:
            task.cancel()


def _fits_header(text: str) -> bool:
    return bool(text) and text.isprintable() and len(text) <= 4096
