"""The WebSocket of an ASGI server, as a transport of a runtime."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from arcp_client._asgi import Message, Receive, Send
from arcp_client._tasks import TaskOwner
from arcp_client.errors import LinkLost, LocalProtocolError
from arcp_client.transports._ending import Ending, again, closed_here
from arcp_client.transports._writes import settle
from arcp_client.transports.base import MAX_FRAME

__all__ = ["AsgiTransport"]

_NORMAL, _NO_STATUS, _TOO_BIG, _TRY_AGAIN = 1000, 1005, 1009, 1013


class AsgiTransport:
    """One WebSocket that an ASGI application has accepted.

    The server reads and writes the socket, answers pings, and holds what this side has not received
    yet, within its own limits.

    Args:
        receive: returns the next message of the server.
        send: passes a message to the server.
        peer: the name of the other side, for error messages.
        max_frame: bytes; larger frames are refused in both directions.
        room: bytes that the peer may send before `settle`; no limit by default.
    """

    def __init__(
        self,
        receive: Receive,
        send: Send,
        *,
        peer: str,
        max_frame: int = MAX_FRAME,
        room: int | None = None,
    ) -> None:
        self._receive = receive
        self._send = send
        self._peer = peer
        self._max_frame = max_frame
        self._room = room
        self._tasks = TaskOwner(f"websocket {peer}", on_failure=_ignore)
        self._next: asyncio.Task[Message] | None = None
        self._queue: deque[tuple[bytes, asyncio.Future[None]]] = deque()
        self._writer: asyncio.Task[None] | None = None
        self._lost: LinkLost | None = None  # the error that later calls raise
        self._over = False  # the server has reported the end
        self._ending = Ending(self._tasks, teardown=self._close, abort=self._abort)

    def __repr__(self) -> str:
        return f"<AsgiTransport {self._peer}>"

    def settle(self) -> None:
        """Lift the limit on the bytes that the peer may send, because it is known."""
        self._room = None

    def drop(self) -> None:
        """Close the link at once, because its place is needed; code 1013 asks to try again."""
        self._fail(LinkLost(f"the link to {self._peer} was dropped", close_code=_TRY_AGAIN))
        self._tasks.spawn(self._goodbye(_TRY_AGAIN), name="drop")
        if self._next is not None:
            self._next.cancel()

    async def send(self, frame: bytes) -> None:
        """Pass one frame to the link, in call order, as a text message.

        The call waits while the server waits for the peer; a call that is cancelled while it waits
        still sends the frame.

        Raises:
            LinkLost: the link has ended.
            LocalProtocolError: the frame is larger than ``max_frame``; nothing was sent.
        """
        if self._lost is not None:
            raise again(self._lost)
        if len(frame) > self._max_frame:
            raise LocalProtocolError(
                f"a frame of {len(frame)} bytes is over this side's limit of"
                f" {self._max_frame} bytes"
            )
        sent: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((frame, sent))
        if self._writer is None:
            # One task writes: a server may not expect that a call of `send` is cancelled.
            self._writer = self._tasks.spawn(self._write(), name="write")
        await sent

    async def receive(self) -> bytes:
        """Return the next frame. A cancelled call loses no frame.

        Raises:
            LinkLost: the link has ended; ``close_code`` is that of the server. Raised again by
                every later call.
        """
        while self._lost is None:
            if self._next is None:
                self._next = self._tasks.spawn(_awaited(self._receive), name="receive")
            pending = self._next
            await asyncio.wait({pending})
            if pending.cancelled():  # this side has closed the link
                self._fail(closed_here(self._peer))
                break
            error = pending.exception()
            if error is not None:  # servers have their own errors for a lost link
                self._fail(LinkLost(f"the link to {self._peer} is broken: {error}"))
                break
            message, self._next = pending.result(), None
            if message["type"] == "websocket.receive":
                frame = message.get("bytes")
                if frame is None:
                    frame = str(message.get("text") or "").encode("utf-8", "surrogatepass")
                if self._admits(len(frame)):
                    return bytes(frame)
            elif message["type"] == "websocket.disconnect":
                self._over = True
                code = message.get("code", _NO_STATUS)
                self._fail(
                    LinkLost(
                        f"{self._peer} closed the link with code {code}",
                        close_code=code,
                    )
                )
        assert self._lost is not None
        raise again(self._lost)

    async def close(self, *, timeout: float = 5.0) -> None:
        """Write the frames that were sent before, then close the link.

        Idempotent, from any task; a cancelled call closes at once.
        """
        if self._lost is None:
            self._lost = closed_here(self._peer)
        await self._ending.reach(timeout=timeout)

    def _admits(self, size: int) -> bool:
        if self._room is not None:
            self._room -= size
        if size <= self._max_frame and (self._room is None or self._room >= 0):
            return True
        self._fail(LinkLost(f"{self._peer} sent too much", close_code=_TOO_BIG))
        self._tasks.spawn(self._goodbye(_TOO_BIG), name="refuse")
        return False

    def _fail(self, error: LinkLost) -> None:
        if self._lost is None:
            self._lost = error

    async def _write(self) -> None:
        try:
            while self._queue:
                frame, sent = self._queue.popleft()
                try:
                    await self._send({"type": "websocket.send", "text": frame.decode()})
                except Exception as error:  # noqa: BLE001  servers have their own errors
                    # Only this call fails: the reader gets the frames that arrived, then LinkLost.
                    lost = LinkLost(f"the link to {self._peer} is broken: a frame was not written")
                    lost.__cause__ = error
                    settle(sent, lost)
                else:
                    settle(sent, None)
        finally:
            self._writer = None
            while self._queue:
                settle(self._queue.popleft()[1], closed_here(self._peer))

    async def _close(self, _timeout: float) -> None:
        if self._writer is not None:
            await asyncio.wait({self._writer})
        await self._goodbye(_NORMAL)
        if self._next is not None:
            self._next.cancel()

    async def _goodbye(self, code: int) -> None:
        if not self._over:
            self._over = True
            try:
                await self._send({"type": "websocket.close", "code": code})
            except Exception:  # noqa: BLE001  the link has ended already
                return

    def _abort(self) -> None:
        for task in (self._writer, self._next):
            if task is not None:
                task.cancel()


async def _awaited(call: Callable[[], Awaitable[Message]]) -> Message:
    return await call()


def _ignore(_: BaseException) -> None:
    """Errors of the server's calls are those of the link, which `receive` raises."""
