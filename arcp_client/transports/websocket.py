"""Transports over WebSockets (aiohttp), for either end of a connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Coroutine, Mapping, Sequence
from functools import cached_property
from ssl import SSLContext
from typing import Any, Final, Protocol

import aiohttp

from arcp_client import _arguments as check
from arcp_client._tasks import TaskOwner
from arcp_client._wire.unreadable import identify, unreadable
from arcp_client.errors import ConnectFailed, LinkLost, LocalProtocolError
from arcp_client.transports._connect import Address, explain
from arcp_client.transports._ending import Ending, again, closed_here
from arcp_client.transports._keep_alive import keep_alive
from arcp_client.transports._messages import messages
from arcp_client.transports._parsed import ParsedMessages
from arcp_client.transports._reason import reason
from arcp_client.transports._shared_session import SharedSession
from arcp_client.transports._writes import Writes
from arcp_client.transports.base import LARGE, MAX_FRAME

__all__ = ["WebSocketConnector", "WebSocketTransport"]

_TEXT = aiohttp.WSMsgType.TEXT
_BINARY = aiohttp.WSMsgType.BINARY
_PING = aiohttp.WSMsgType.PING
_PONG = aiohttp.WSMsgType.PONG
_CLOSE = aiohttp.WSMsgType.CLOSE

_GOODBYE = struct.pack("!H", 1000)


class _WebSocket(Protocol):
    """The common interface of the two WebSocket classes of aiohttp."""

    async def receive(self) -> Any: ...

    def send_frame(
        self, message: bytes, opcode: aiohttp.WSMsgType
    ) -> Coroutine[Any, Any, None]: ...

    def pong(self, message: bytes = b"") -> Coroutine[Any, Any, None]: ...

    async def close(self) -> bool: ...

    def get_extra_info(self, name: str, default: Any = None) -> Any: ...


class WebSocketTransport:
    """One open WebSocket, of either side.

    Args:
        ws: a connected ``ClientWebSocketResponse`` or a prepared `server_websocket`, made with
            ``autoping=False``, ``heartbeat=None``, ``compress=0`` and ``decode_text=False``, as
            `WebSocketConnector` and `server_websocket` do.
        peer: the name of the other side, for messages.
        max_frame: bytes; larger frames are refused in both directions.
        session: the session of the link, if it shares one, to leave at the end.
        stream: the writer of a server, through which `send_many` writes several frames at once.
    """

    def __init__(
        self,
        ws: _WebSocket,
        *,
        peer: str,
        max_frame: int = MAX_FRAME,
        session: SharedSession | None = None,
        stream: asyncio.WriteTransport | None = None,
    ) -> None:
        self._stream = stream
        self._ws = ws
        self._next = ws.receive  # looked up once: receiving is the hot path
        self._parsed = ParsedMessages.of(ws)
        self._peer = peer
        self._max_frame = max_frame
        self._session = session
        self._socket = ws.get_extra_info("socket")
        keep_alive(self._socket)
        self._lost: LinkLost | None = None  # the error that later calls raise
        self._over = False  # the connection has ended, by either side
        self._receiving = False
        self._vacated: asyncio.Future[None] | None = None
        self._largest = 0
        self._writes = Writes(peer, on_room=self._late_pong)
        self._pong: bytes | None = None

    def __repr__(self) -> str:
        return f"<WebSocketTransport {self._peer}>"

    close_is_bounded: Final = True

    @cached_property
    def _ending(self) -> Ending:  # most links of a process may be idle
        owner = TaskOwner(f"websocket {self._peer}")
        return Ending(owner, teardown=self._close, abort=self._abort)

    async def send(self, frame: bytes) -> None:
        """Pass one frame to the link, as a text message.

        Frames are sent in call order. The call waits while the other side does not read. A call
        that is cancelled while it waits still sends the frame.

        Raises:
            LinkLost: the link has ended.
            LocalProtocolError: the frame is larger than ``max_frame``; nothing was sent.
        """
        if self._lost is not None:
            raise again(self._lost)
        size = len(frame)
        if size > self._largest:
            if size > self._max_frame:
                raise LocalProtocolError(
                    f"a frame of {size} bytes is over this side's limit of {self._max_frame} bytes"
                )
            self._largest = size
        try:
            rest = self._writes.start(self._ws.send_frame(frame, _TEXT))
            if rest is not None:
                await rest
        except (aiohttp.ClientError, OSError) as error:
            # Only this call fails: the reader gets the frames that arrived, then LinkLost.
            raise self._broken() from error

    def send_now(self, frame: bytes) -> bool:
        """Send a frame if the socket takes it at once; see `ImmediateSender`."""
        size = len(frame)
        if self._lost is not None or self._writes.congested or size > self._max_frame:
            return False
        if size > self._largest:
            self._largest = size
        try:
            self._writes.start(self._ws.send_frame(frame, _TEXT))
        except Exception:  # noqa: BLE001  `send` raises it, whatever it is
            return False
        return True

    async def send_many(self, frames: Sequence[bytes]) -> None:
        """Pass frames to the link in order, in one write while the other side keeps up.

        Raises:
            LinkLost: the link has ended.
            LocalProtocolError: a frame is larger than ``max_frame``; those before it were sent.
        """
        stream = self._stream
        if (
            stream is None
            or self._lost is not None
            or self._writes.congested
            or stream.get_write_buffer_size()  # only aiohttp's own writes wait for the socket
            or stream.is_closing()
            or max(map(len, frames)) > self._max_frame
        ):
            for frame in frames:
                await self.send(frame)
            return
        stream.write(messages(frames))

    async def receive(self) -> bytes:
        """Return the next frame. A cancelled call loses no frame.

        Text messages are not checked here for valid UTF-8: the decoder of frames does that.

        Raises:
            LinkLost: the link has ended; ``close_code`` is the other side's, 1005 if it sent none,
                1006 if the connection ended without a close frame. Every later call raises it
                again.
            RemoteProtocolError: a binary message was not UTF-8 and was dropped. Call again.
        """
        if self._lost is not None:
            raise again(self._lost)
        if self._receiving:
            raise RuntimeError("another task is already inside receive()")
        self._receiving = True
        try:
            while True:
                message = await self._next()
                if message.type is _TEXT:
                    frame: bytes = message.data
                    return frame
                if message.type is _BINARY:
                    return _checked(message.data)
                self._control(message)
        finally:
            self._receiving = False
            if self._vacated is not None and not self._vacated.done():
                self._vacated.set_result(None)

    async def receive_many(self, limit: int) -> list[bytes]:
        """Wait for a frame; return it and those after it that were read, up to ``limit``.

        A frame larger than `LARGE` is the last one.

        Raises:
            LinkLost, RemoteProtocolError: as `receive`, instead of any frame.
        """
        frames = [await self.receive()]
        parsed = self._parsed
        if parsed is not None and parsed.buffer and len(frames[0]) <= LARGE:
            await parsed.take(frames, limit)
        return frames

    async def close(self, *, timeout: float = 5.0) -> None:
        """Perform the closing handshake and free the socket, within about ``timeout`` seconds.

        Frames that were sent before are written first. If the other side does not answer, the
        connection is aborted at the end of the timeout. Idempotent, from any task. A cancelled call
        aborts at once. A task inside `receive` gets the frames that arrive before the other side's
        close frame, then LinkLost.
        """
        if self._lost is None:
            self._lost = closed_here(self._peer)
        await self._ending.reach(timeout=timeout)

    def _broken(self) -> LinkLost:
        if self._lost is not None:
            return again(self._lost)
        return LinkLost(f"the link to {self._peer} is broken: a frame could not be written")

    def _control(self, message: Any) -> None:
        """Answer a ping; raise LinkLost for a message that ends the link."""
        if message.type is _PING:
            self._answer(message.data)
            return
        if message.type is _PONG:
            return
        self._over = True
        if self._lost is None:
            self._lost = reason(
                message, peer=self._peer, max_frame=self._max_frame, largest=self._largest
            )
        raise again(self._lost)

    def _answer(self, payload: bytes) -> None:
        if self._writes.congested:
            # The peer is not reading. One answer to its latest ping is enough (RFC 6455 §5.5.3);
            # more answers would grow without bound.
            self._pong = payload
        elif self._lost is None:
            with contextlib.suppress(aiohttp.ClientError, OSError):
                self._writes.start(self._ws.pong(payload))

    def _late_pong(self) -> None:
        if self._pong is not None:
            payload, self._pong = self._pong, None
            self._answer(payload)

    async def _close(self, _timeout: float) -> None:
        try:
            if not self._over:
                await self._say_goodbye()
        finally:
            self._over = True
            try:
                await self._ws.close()
            finally:
                if self._session is not None:
                    await self._session.leave()
                # A callback in the next iteration of the loop closes the socket itself.
                await asyncio.sleep(0)

    async def _say_goodbye(self) -> None:
        # Not ws.close(): after a cancelled receive() aiohttp does not wait for the peer's close
        # frame, and closing a socket with unread data resets the connection before the last frames
        # arrive.
        with contextlib.suppress(aiohttp.ClientError, OSError):
            rest = self._writes.start(self._ws.send_frame(_GOODBYE, _CLOSE))
            if rest is not None:
                await rest
            while not self._over:
                if self._receiving:
                    self._vacated = asyncio.get_running_loop().create_future()
                    await self._vacated
                    continue
                message = await self._ws.receive()
                self._over = message.type not in (_TEXT, _BINARY, _PING, _PONG)

    def _abort(self) -> None:
        if self._socket is not None:
            # Both directions end now: pending reads return, pending writes fail.
            with contextlib.suppress(OSError), self._socket.dup() as same:
                same.shutdown(socket.SHUT_RDWR)


class WebSocketConnector:
    """Opens WebSocket links to one URL.

    The connections of an event loop share one aiohttp session, which is closed with the last of
    them. If ``session`` is given, that session is used unchanged and never closed.

    Args:
        url: ``ws://`` or ``wss://``. A user name and password become HTTP basic authentication;
            messages never contain them, the query or the fragment.
        ssl: an ``SSLContext``, an aiohttp ``Fingerprint``, or ``False`` to skip verification; None
            verifies against the system's certificates.
        headers: HTTP headers for the handshake.
        proxy: URL of an HTTP proxy. Environment variables are ignored.
        session: the user's own aiohttp session, whose redirect policy then applies. Without it,
            redirects are refused, because they would send the token to another host.
        max_frame: bytes; larger frames are refused in both directions.
        connect_timeout: seconds for name lookup, TCP, TLS and the HTTP upgrade together.
    """

    def __init__(
        self,
        url: str,
        *,
        ssl: SSLContext | aiohttp.Fingerprint | bool | None = None,
        headers: Mapping[str, str] | None = None,
        proxy: str | None = None,
        session: aiohttp.ClientSession | None = None,
        max_frame: int = MAX_FRAME,
        connect_timeout: float = 10.0,
    ) -> None:
        self._address = Address(url, ssl=ssl, headers=headers, proxy=proxy)
        check.an_instance(
            "session", session, aiohttp.ClientSession, "an aiohttp.ClientSession", none=True
        )
        check.a_number("max_frame", max_frame, least=1)
        check.seconds("connect_timeout", connect_timeout, above=True)
        self._user_session = session
        self._max_frame = max_frame
        self._connect_timeout = connect_timeout

    def __repr__(self) -> str:
        return f"<WebSocketConnector {self.target}>"

    @property
    def target(self) -> str:
        """``scheme://host:port/path``, without user, query and fragment."""
        return self._address.target

    async def connect(self) -> WebSocketTransport:
        """Open a new connection.

        Raises:
            ConnectFailed: with ``permanent=True`` for an invalid URL, a wrong path (HTTP 400, 403,
                404 …), refused credentials (401, 407), a certificate that does not verify and a
                closed user's session. Refused connections, failed name lookups, timeouts, HTTP 408,
                425, 429 and 5xx can be retried.
        """
        self._check()
        session, shared = self._user_session, None
        if session is None:
            shared = SharedSession.enter()
            session = shared.session
        try:
            async with asyncio.timeout(self._connect_timeout):
                ws = await self._upgrade(session)
            return WebSocketTransport(
                ws, peer=self.target, max_frame=self._max_frame, session=shared
            )
        except (aiohttp.ClientError, OSError, RuntimeError, ValueError) as error:
            failure = explain(error, self.target, timeout=self._connect_timeout)
        except BaseException:
            if shared is not None:
                await shared.leave()
            raise
        if shared is not None:
            await shared.leave()
        # Raised outside of the handler: aiohttp's error as context would print the whole URL.
        raise failure

    def _check(self) -> None:
        if self._user_session is not None and self._user_session.closed:
            raise ConnectFailed(
                f"the aiohttp session given for {self.target} is closed; give an open one, or none",
                permanent=True,
            )
        self._address.check_scheme("ws", "a WebSocket URL")

    async def _upgrade(
        self, session: aiohttp.ClientSession
    ) -> aiohttp.ClientWebSocketResponse[Any]:
        return await session.ws_connect(
            self._address.url,
            ssl=self._address.ssl,
            headers=self._address.headers,
            proxy=self._address.proxy,
            heartbeat=None,  # it would close a healthy link while the reader is paused
            autoping=False,  # a pong must not block the reader, see Writes
            compress=0,
            decode_text=False,
            max_msg_size=self._max_frame + 1,  # aiohttp's limit is exclusive
        )


def _checked(data: bytes) -> bytes:
    try:
        data.decode()
    except UnicodeDecodeError as error:
        failure = unreadable(
            f"a binary message is not UTF-8: {error.reason} at byte {error.start}", data
        )
        identify(failure, data)
        raise failure from None
    return data
