"""Runs the reader and the writer of one connection until it ends, and returns the reason.

The reader awaits neither user code nor the writer. If the peer stops reading, frames wait to be
sent; when they exceed the limit of the outbox, the reader stops until the peer reads again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from pydantic import SecretStr

from arcp_client._budget import ByteBudget
from arcp_client._deadline import Deadline
from arcp_client._dispatch.back_pressure import LONE
from arcp_client._link.driver import Driver
from arcp_client._link.ingress import Ingress
from arcp_client._link.sleep_detector import SleepDetector, probe
from arcp_client._protocol import actions
from arcp_client._tasks import TaskOwner, cancel_and_wait, pass_on
from arcp_client.errors import (
    ArcpError,
    HandshakeTimeout,
    HeartbeatLost,
    LinkLost,
    LocalProtocolError,
    RemoteProtocolError,
)
from arcp_client.transports.base import (
    FrameRefused,
    Transport,
    stderr_of,
)

__all__ = ["Link"]

_log = logging.getLogger("arcp_client.link")

_PATIENCE = 1.0
"""Seconds that a transport may exceed its close timeout."""

_LOST = (LinkLost, HeartbeatLost, HandshakeTimeout)

_REFUSALS = frozenset({1002, 1003, 1007, 1009})
"""Close codes for a refused frame: malformed, unsupported, not UTF-8, too large."""


class Link:
    """One connection of a session.

    Args:
        transport: an open transport, which the link owns and closes.
        driver: runs the session.
        ingress: gets the received frames.
        outbox: limit in bytes of frames that wait to be sent, requests excluded; above the limit
            the reader stops.
        ended: called with the reason of the link's end, before the transport is closed.
    """

    def __init__(
        self,
        transport: Transport,
        driver: Driver,
        *,
        ingress: Ingress,
        outbox: int,
        ended: Callable[[ArcpError], None],
    ) -> None:
        self._unsent = ByteBudget(outbox)
        self._ended = ended
        self._transport = transport
        # Not isinstance(…, ManyReceiver), which takes far longer.
        self._receive_many: Callable[[int], Awaitable[list[bytes]]] = getattr(
            transport, "receive_many", self._receive_one
        )
        self._send_now: Callable[[bytes], bool] = getattr(transport, "send_now", _never_now)
        self._driver = driver
        self._ingress = ingress
        self._owner = TaskOwner("arcp_client.link", on_failure=self._failed)
        self._outbox: deque[actions.Send] | None = None  # while frames wait
        self._writer: asyncio.Task[None] | None = None
        self._flush = False
        self._reading = True
        self._close_by: Deadline | None = None
        self._refusal: LinkLost | None = None
        self._handshake: asyncio.TimerHandle | None = None
        self._over: asyncio.Future[ArcpError] = asyncio.get_running_loop().create_future()

    async def run(
        self, token: SecretStr, *, handshake_timeout: float, close_timeout: float
    ) -> ArcpError:
        """Send the hello, then read and write until the link ends; return the reason.

        Cancelling ends the link.
        """
        loop = asyncio.get_running_loop()
        self._handshake = loop.call_later(handshake_timeout, self._no_welcome, handshake_timeout)
        sleep_detector = SleepDetector.of(loop)
        self._driver.attach(self)
        try:
            lines = getattr(self._transport, "lines", False)
            self._driver.session.greet(token, self._driver.now, lines=lines)
            self._driver.carry_out()
            self._owner.spawn(self._read(), name="reader")
            sleep_detector.add(self)
            cause = await self._over
            blamed = isinstance(cause, FrameRefused) and self._refuse_largest()
            if isinstance(cause, LinkLost) and cause.close_code in _REFUSALS and not blamed:
                self._refusal = cause
            self._ended(cause)
            if isinstance(cause, _LOST) and not self._flush:
                close_timeout = 0.0  # the peer is gone, so no goodbye is sent
            self._close_by = self._close_by or Deadline(close_timeout)
            if self._flush:
                await self.flushed(self._close_by.left)
            return cause
        finally:
            self._handshake.cancel()
            sleep_detector.discard(self)
            self._over.cancel()
            try:
                if not await self._owner.close(deadline=Deadline(_PATIENCE)):
                    _log.error("a transport suppresses cancellations; its tasks are abandoned")
            finally:
                await self._close_transport(self._close_by or Deadline(close_timeout))

    async def _close_transport(self, deadline: Deadline) -> None:
        try:
            if getattr(self._transport, "close_is_bounded", False):
                await self._transport.close(timeout=deadline.left)
            else:
                await self._watch_close(deadline.left)
        finally:
            # A refusal counts only if the session has received all frames before that one.
            whole = self._ingress.link_lost()
            self._driver.detach(self._refusal if whole else None)

    async def _watch_close(self, seconds: float) -> None:
        """Close a transport of a user, and abandon it if it does not end."""
        owner = TaskOwner("arcp_client.link", on_failure=_failed_to_close)
        closing = owner.spawn(self._transport.close(timeout=seconds), name="close")
        try:
            await asyncio.wait({closing}, timeout=seconds + _PATIENCE)
        finally:
            if not await cancel_and_wait([closing], deadline=Deadline(_PATIENCE)):
                _log.error("a transport does not close; it is abandoned")

    def opened(self) -> None:
        """Record the welcome."""
        if self._handshake is not None:
            self._handshake.cancel()

    def close_by(self, deadline: Deadline) -> None:
        """Set the deadline of the client's close, which then limits the time for the link's end."""
        self._close_by = deadline

    # -- for the driver

    def send(self, action: actions.Send) -> None:
        if self._outbox is None:
            if self._send_now(action.data):
                return
            self._outbox = deque()
            self._writer = self._owner.spawn(self._write(self._outbox), name="writer")
        self._outbox.append(action)
        if action.request is None:  # requests do not count, as their callers wait for them
            self._unsent.add(len(action.data))

    def drop(self, cause: ArcpError, *, flush: bool = False) -> None:
        if not self._over.done():
            self._flush = flush
            self._over.set_result(cause)

    async def flushed(self, timeout: float | None = None) -> None:
        """Wait until the transport has sent all frames, the link has ended, or the time is over."""
        if self._writer is not None:
            await asyncio.wait({self._writer}, timeout=timeout)

    # -- for the sleep detector

    def slept(self) -> None:
        """Check whether the peer still answers, because the machine has slept."""
        if self._reading:
            probing = probe(self._driver, reading=lambda: self._reading, dead=self.drop)
            self._owner.spawn(probing, name="probe")

    # -- tasks

    async def _read(self) -> None:
        ingress = self._ingress
        limit = 1  # the welcome; the frames after it may exceed the limits of consumers
        task = asyncio.current_task()
        while True:
            frame = frames = None
            lone = False
            try:
                if ingress.aside:
                    frame = await self._transport.receive()
                else:
                    frames = await self._receive_many(limit)
            except RemoteProtocolError as error:
                if ingress.aside:  # the number is missed, and requested, behind the waiting frames
                    error.event_seq = None
                self._driver.unreadable(error)
                continue
            except BaseException as error:  # noqa: BLE001  a user's transport may raise anything
                pass_on(error, task)
                self.drop(_of_transport(error))
                return
            if frames is not None:
                lone = len(frames) == 1 and len(frames[0]) <= LONE
                self._driver.received(frames)
                del frames  # they may hold a token, and tracebacks are shown with locals
            elif frame is not None:
                self._reading = False
                try:
                    await ingress.set_aside(frame)
                finally:
                    self._reading = True
                    del frame  # see above
            if self._unsent.over:
                # The peer does not read. Stop reading; its heartbeat timeout continues.
                await self._unsent.room()
            waiting = ingress.next_wait(lone)
            if waiting is not None:
                self._reading = False
                await waiting
                self._reading = True
            limit = ingress.turn

    async def _receive_one(self, _limit: int) -> list[bytes]:
        """Receive one frame from a transport that is not a `ManyReceiver`."""
        return [await self._transport.receive()]

    async def _write(self, outbox: deque[actions.Send]) -> None:
        """Send the waiting frames; ends when there are none."""
        task = asyncio.current_task()
        while outbox:
            action = outbox.popleft()
            try:
                await self._transport.send(action.data)
            except LocalProtocolError as error:
                self._too_large(action, error)
            except BaseException as error:  # noqa: BLE001  as in _read
                pass_on(error, task)
                self.drop(_of_transport(error))
                return  # later frames stay in the outbox
            finally:
                if action.request is None:
                    self._unsent.release(len(action.data))
                del action  # it may hold the bearer token
        self._outbox = self._writer = None

    def _too_large(self, action: actions.Send, error: LocalProtocolError) -> None:
        """Fail the request of a frame that is too large for this link, and so for the next one."""
        if action.request is not None:
            self._driver.session.refuse(action.request, error, self._driver.now)
            self._driver.carry_out()
        else:
            self._driver.unreadable(RemoteProtocolError(str(error)))

    def _refuse_largest(self) -> bool:
        """Fail the largest pending request, because the other end refused a frame for its size.

        False without a pending request: then a proxy refused a frame of the runtime.
        """
        session = self._driver.session
        request = session.requests.largest()
        if request is not None:
            text = f"{request.name} has {request.size} bytes, more than this runtime accepts"
            session.refuse(request, LocalProtocolError(text), self._driver.now)
        return request is not None

    def _no_welcome(self, seconds: float) -> None:
        text = f"no answer to session.hello within {seconds:g} s"
        self.drop(HandshakeTimeout(text, stderr=stderr_of(self._transport)))

    def _failed(self, error: BaseException) -> None:
        self._driver.failed(error)  # errors of transports are handled in _read and _write


def _never_now(frame: bytes) -> bool:
    return False


def _of_transport(error: BaseException) -> ArcpError:
    if isinstance(error, ArcpError):
        return error
    cause = LinkLost(f"the transport failed unexpectedly: {type(error).__name__}: {error}")
    cause.__cause__ = error
    return cause


def _failed_to_close(error: BaseException) -> None:
    # A user's transport may raise anything.
    _log.error("a transport failed to close", exc_info=error)
