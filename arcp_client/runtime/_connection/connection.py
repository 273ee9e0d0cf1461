"""Serves one link: reads requests, sends answers and the events of its session.

A writer task exists only while frames wait to be sent; an event that comes after a pause is sent
without it. Events are taken from the session's buffer in the order of their numbers, so no event
overtakes another. Frames without a number wait in a queue of their own and are sent before events.
Pongs are an exception: they are sent after the events that were emitted before them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from arcp_client._budget import ByteBudget
from arcp_client._log_fields import log_fields
from arcp_client._tasks import TaskOwner
from arcp_client._wire import names
from arcp_client._wire.codec import BadFrame, ControlFrame, decode_control
from arcp_client.errors import (
    InvalidRequest,
    LinkLost,
    LocalProtocolError,
    RemoteProtocolError,
    RequestError,
    request_error,
)
from arcp_client.runtime._connection import frames
from arcp_client.runtime._connection.heartbeat import TimedHeartbeat
from arcp_client.runtime._sessions.session import Backlog, ServerSession
from arcp_client.transports.base import Transport
from arcp_client.transports.batch import send_many

__all__ = ["Arrival", "Connection", "SessionHandler"]

_log = logging.getLogger("arcp_client.runtime")

_CONTROL_HIGH = 256
_TOGETHER = 64
_TOGETHER_BYTES = 64 * 1024
_FAREWELL = 1.0
_PAUSE = 0.001
"""Seconds without a batch after which an event is sent at once, without the writer."""
_TURN = 0.005
"""Seconds of handling one client's requests before the other clients get their turn."""
_STORED = 1.0
"""Seconds that a pong waits for the storage of earlier events."""


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class Arrival:
    """The way a link reached the runtime.

    Attributes:
        secure: whether others cannot read the link: it uses TLS, or stays within this machine.
        address: the client's address, for counting wrong tokens; ``None`` within this machine.
        welcomed: called when the link has a session.
    """

    secure: bool
    address: str | None = None
    welcomed: Callable[[], None] = _nothing


class SessionHandler(Protocol):
    """Handles the frames that a connection reads. `Links` implements it."""

    @property
    def handshake_timeout(self) -> float:
        """Seconds until a connection without authentication is closed."""

    @property
    def outbox_bytes(self) -> int:
        """Maximum bytes of unnumbered frames that wait for a client to read."""

    @property
    def heartbeat_interval(self) -> float | None:
        """Seconds; ``None`` if this runtime does not use heartbeats."""

    async def greet(self, connection: Connection, frame: ControlFrame) -> bool:
        """Open or resume a session for a first frame. False if refused and the client may retry."""

    async def handle(
        self, connection: Connection, session: ServerSession, frame: ControlFrame
    ) -> None:
        """Handle a frame of an open session. Raises RequestError to refuse it."""

    async def answered(self) -> None:
        """Wait until every request that was read has its answer queued."""

    def left(self, connection: Connection, session: ServerSession) -> None:
        """Handle the end of a session's connection."""


class Connection:
    """One link to one client.

    Args:
        transport: the link; closed at the end.
        handler: handles the frames that are read.
        tasks: owns the writer's task.
        on_end: called when the connection has ended completely.

    Attributes:
        arrival: the way the link reached the runtime.
        session: its session, once there is one.
        cursor: the highest number passed to the link.
        unanswered: requests that were handled and whose answer waits for the event log.
        token: the hash of the resume token in the welcome that it has sent.
    """

    def __init__(
        self,
        transport: Transport,
        handler: SessionHandler,
        tasks: TaskOwner,
        *,
        arrival: Arrival,
        on_end: Callable[[Connection], None],
    ) -> None:
        self._transport = transport
        self._handler = handler
        self._tasks = tasks
        self._on_end = on_end
        self.arrival = arrival
        self._over = asyncio.Event()
        self.session: ServerSession | None = None
        self.cursor = 0
        self.unanswered = 0
        self.token = b""
        self._control: deque[bytes] = deque()
        self._in_turn: deque[tuple[int, bytes]] = deque()
        self._after_histories: deque[tuple[Backlog, bytes]] = deque()
        self._unsent = ByteBudget(handler.outbox_bytes)  # all queues, and the batch being sent
        self._sending = 0
        self._send_now: Callable[[bytes], bool] | None = getattr(transport, "send_now", None)
        self._sent_at = 0.0
        self._overdue: asyncio.TimerHandle | None = None
        self._writer: asyncio.Task[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._heartbeat: TimedHeartbeat | None = None
        self._deadline: asyncio.TimerHandle | None = None
        self._finishing = False
        self._dead = False

    # ----------------------------------------------------------------------- reading

    async def run(self) -> None:
        """Serve the link; returns when the connection has ended completely."""
        try:
            if await self._handshake():
                await self._serve()
        except LinkLost:
            await self._last_answers()
        finally:
            self._leave()
            self._stop_timers()
            self._dead = self._dead or not self._finishing
            await self._transport.close(timeout=_FAREWELL)
            self._dead = True
            if self._writer is not None:
                self._writer.cancel()
            self._over.set()
            self._on_end(self)

    async def _last_answers(self) -> None:
        """Send the remaining answers to a client that has closed only its sending half."""
        if self._dead or self._finishing:
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FAREWELL):
                await self._handler.answered()
        await self.drain(_FAREWELL)

    async def ended(self) -> None:
        """Wait until the connection has ended completely."""
        await self._over.wait()

    async def _handshake(self) -> bool:
        greeting = False
        try:
            async with asyncio.timeout(self._handler.handshake_timeout):
                while not self._finishing:
                    greeting = False
                    frame = await self._next()
                    if frame is None:
                        return False
                    greeting = True
                    if await self._handler.greet(self, frame):
                        break
        except TimeoutError:
            if greeting:
                text = "the runtime could not open the session in time"
                late = request_error(names.INTERNAL_ERROR, text, retryable=True)
            else:
                text = "session.hello was not received in time"
                late = request_error(names.UNAUTHENTICATED, text)
            self.finish(frames.refusal(late, session_id=None))
        if self.session is None:
            await self._flushed()
            return False
        return True

    async def _serve(self) -> None:
        clock = asyncio.get_running_loop().time
        turn = clock()
        while True:
            if clock() - turn > _TURN:
                await asyncio.sleep(0)  # frames that have arrived are received without suspending
                turn = clock()
            try:
                data = await self._transport.receive()
            except RemoteProtocolError as error:
                self._heard()
                self._refuse(InvalidRequest(str(error)), request_id=None)
                continue
            self._heard()
            session = self.session
            if session is None:  # taken over, or closed
                continue
            frame = decode_control(data)
            if isinstance(frame, ControlFrame):
                try:
                    await self._handler.handle(self, session, frame)
                except Exception as error:  # noqa: BLE001 - answered and logged; others continue
                    self.refuse(frame, error)
            elif isinstance(frame, BadFrame):
                self._refuse(InvalidRequest(str(frame.error)), frame.id, frame.job_id)
            else:
                self._refuse(InvalidRequest("events come from the runtime"), frame.id)
            queued = len(self._control) + len(self._in_turn) + len(self._after_histories)
            if self._unsent.over or queued > _CONTROL_HIGH:
                await self._roomy()

    async def _next(self) -> ControlFrame | None:
        """Return the first frame; ``None`` if it is invalid, after which nothing is read."""
        try:
            frame = decode_control(await self._transport.receive())
        except RemoteProtocolError as error:
            self._refuse(InvalidRequest(str(error)), request_id=None)
        else:
            if isinstance(frame, ControlFrame):
                return frame
            text = (
                str(frame.error)
                if isinstance(frame, BadFrame)
                else "the first message must be session.hello"
            )
            self._refuse(InvalidRequest(text), frame.id)
        self.finish()
        await self._flushed()
        return None

    def _heard(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.heard_at = asyncio.get_running_loop().time()

    # ----------------------------------------------------------------------- refusing

    def refuse(self, frame: ControlFrame, error: BaseException) -> None:
        """Answer a request with an error (§12)."""
        if not isinstance(error, RequestError):
            _log.error(
                "a %s could not be handled",
                frame.type[:80],
                exc_info=error,
                extra=log_fields(session=self._session_id),
            )
            error = request_error(
                names.INTERNAL_ERROR, "the runtime failed to handle this", retryable=True
            )
        job_id = frame.payload.get("job_id", frame.job_id)
        self._refuse(error, frame.id, job_id if isinstance(job_id, str) else None)

    @property
    def _session_id(self) -> str | None:
        return None if self.session is None else self.session.id

    def _refuse(
        self, error: RequestError, request_id: str | None, job_id: str | None = None
    ) -> None:
        self.control(
            frames.refusal(error, session_id=self._session_id, request_id=request_id, job_id=job_id)
        )

    # ----------------------------------------------------------------------- the session

    def enter(self, session: ServerSession, cursor: int, welcome: bytes) -> bool:
        """Serve a session: send its welcome, then every event above the cursor.

        A connection that has ended meanwhile leaves the session at once, and returns False.
        """
        if self._dead or self._finishing:
            self._handler.left(self, session)
            return False
        previous = self.session
        if previous is not None and previous is not session:
            self._leave()
        self.session = session
        self.cursor = cursor
        for _, frame in (*self._in_turn, *self._after_histories):
            self._unsent.release(len(frame))
        self._in_turn.clear()
        self._after_histories.clear()
        self._queue(welcome)
        self.arrival.welcomed()
        session.attach(self)
        self._start()
        interval = self._handler.heartbeat_interval
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        if interval is not None and names.HEARTBEAT in session.features:
            self._heartbeat = TimedHeartbeat(interval, ping=self._ping, lost=self._lost)
        return True

    def _leave(self) -> None:
        session, self.session = self.session, None
        if session is not None and session.detach(self):
            self._handler.left(self, session)

    def displace(self) -> None:
        """End this connection, because another one serves the session now."""
        self.finish()

    def dismiss(self, text: str) -> None:
        """End the link with a retryable error, so that the client connects elsewhere."""
        session_id = None if self.session is None else self.session.id
        error = request_error(names.INTERNAL_ERROR, text, retryable=True)
        self.finish(frames.refusal(error, session_id=session_id))

    def overrun(self) -> None:
        """End the link, because the log has evicted unsent events, which would leave a hole."""
        self._fell_behind("the connection fell behind: unsent events are no longer held")

    def _fell_behind(self, text: str) -> None:
        session = self.session
        if session is None:
            return
        _log.warning(
            "session %s of %s: %s",
            session.id,
            session.principal,
            text,
            extra=log_fields(session=session.id),
        )
        error = request_error(names.INTERNAL_ERROR, text, retryable=True)
        self.finish(frames.refusal(error, session_id=session.id))

    def _ping(self) -> None:
        if self.session is not None:
            self.control(frames.ping(self.session.id))

    def _lost(self) -> None:
        session = self.session
        if session is None:
            return
        _log.info(
            "session %s of %s: heartbeat lost",
            session.id,
            session.principal,
            extra=log_fields(session=session.id),
        )
        error = request_error(
            names.HEARTBEAT_LOST, "the client was silent for two intervals", retryable=True
        )
        self.finish(frames.refusal(error, session_id=session.id))

    # ----------------------------------------------------------------------- writing

    def control(self, frame: bytes) -> None:
        """Queue a frame without a number."""
        if self._dead or self._finishing:
            return
        self._queue(frame)
        self._start()
        if self._unsent.used > 2 * self._unsent.limit:
            # Not answers to its requests, since reading has stopped, but unsolicited frames.
            self._fell_behind("the connection fell behind: the client does not read")

    def _queue(self, frame: bytes) -> None:
        self._control.append(frame)
        self._unsent.add(len(frame))

    def in_turn(self, frame: bytes) -> None:
        """Queue a frame without a number after the events emitted so far."""
        session = self.session
        if session is None:
            self.control(frame)
            return
        backlog = session.backlog()
        if not backlog and not self._after_histories and session.log.last <= self.cursor:
            self.control(frame)
        elif not self._dead and not self._finishing:
            self._unsent.add(len(frame))
            self._after_histories.append((backlog, frame))
            self._place(session)

    def _place(self, session: ServerSession) -> None:
        """Give queued frames their place among the events, once earlier histories are numbered."""
        waiting = self._after_histories
        while waiting and all(feed.ended or feed.next >= end for feed, end in waiting[0][0]):
            self._in_turn.append((session.log.last, waiting.popleft()[1]))
        if self._overdue is None and session.log.settled < session.log.last:
            self._overdue = asyncio.get_running_loop().call_later(_STORED, self._let_by)
        self.wake()

    def _let_by(self) -> None:
        """Send overdue pongs at once, because a slow disk must not look like a dead runtime."""
        self._overdue = None
        settled = last = 0
        if self.session is not None:
            settled, last = self.session.log.settled, self.session.log.last
        overdue: list[bytes] = []
        while self._in_turn and self._in_turn[-1][0] > settled:
            overdue.append(self._in_turn.pop()[1])
        self._control.extend(reversed(overdue))
        if settled < last:
            self._control.extend(frame for _, frame in self._after_histories)
            self._after_histories.clear()
        self._start()

    def wake(self) -> None:
        """Send the session's events, if there are any: a lone one at once, others by the writer."""
        if self._writer is None and self._pending() and not self._send_at_once():
            self._start()

    def _send_at_once(self) -> bool:
        """Send a lone event in the step that emits or stores it; False if the writer must send it.

        An event is lone if it comes after a pause. The writer would take two iterations more.
        """
        session, send_now = self.session, self._send_now
        if send_now is None or session is None or session.log.settled - self.cursor != 1:
            return False
        if self._control or self._in_turn or self._dead:
            return False
        if asyncio.get_running_loop().time() - self._sent_at <= _PAUSE:
            return False
        for frame in self._batch():  # one, or none after an overrun
            if not send_now(frame):
                self._queue(frame)  # the writer sends it, or finds why it cannot be sent
                return False
            self._handed_over()
        return True

    def finish(self, frame: bytes | None = None) -> None:
        """Send the queued frames and this last one, but no more events; then end the link.

        If the client does not read, the link is aborted after a short time.
        """
        if self._dead or self._finishing:
            return
        if frame is not None:
            self._queue(frame)
        self._finishing = True
        self._leave()
        self._deadline = asyncio.get_running_loop().call_later(_FAREWELL, self._cut)
        self._start()

    async def drain(self, timeout: float) -> None:
        """Wait until all frames are sent, at most ``timeout`` seconds."""
        if self._writer is not None:
            await asyncio.wait({self._writer}, timeout=timeout)

    def _cut(self) -> None:
        if self._writer is not None:
            self._writer.cancel()
        self._dead = True
        self._tasks.spawn(self._transport.close(timeout=0), name="cut")

    def _start(self) -> None:
        if self._writer is None and not self._dead:
            self._writer = self._tasks.spawn(self._write(), name="write")

    async def _write(self) -> None:
        try:
            while (batch := self._batch()) or self._control:  # an overrun has queued its refusal
                if batch:
                    await send_many(self._transport, batch)
                    self._handed_over()
                    await asyncio.sleep(0)  # yield to others; then there may be more
            if self._finishing:
                await self._transport.close(timeout=_FAREWELL)
            elif self._writer is not None:
                self._tasks.release(self._writer)
        except LinkLost:
            self._dead = True  # the reader detects it too
        except LocalProtocolError as error:
            # The link cannot carry the frame, and without it the sequence would have a hole.
            _log.error(
                "a frame is too large for its link, which is closed: %s",
                error,
                extra=log_fields(session=self._session_id),
            )
            self._dead = True
            await self._transport.close(timeout=_FAREWELL)
        finally:
            self._writer = None
            self._made_room()

    def _handed_over(self) -> None:
        """Account for a batch that the link has accepted."""
        sent, self._sending = self._sending, 0
        self._unsent.release(sent)
        if not self._control and not self._in_turn and not self._after_histories:
            self._made_room()
        self._sent_at = asyncio.get_running_loop().time()
        if self._heartbeat is not None:
            self._heartbeat.sent_at = self._sent_at
        if self.session is not None:
            self.session.progress()
            if self._after_histories:
                self._place(self.session)

    def _batch(self) -> list[bytes]:
        """Return the next frames to send: control frames or events."""
        control = self._control
        batch: list[bytes] = []
        size = 0
        if control:
            while control and len(batch) < _TOGETHER and size < _TOGETHER_BYTES:
                batch.append(control.popleft())
                size += len(batch[-1])
            self._sending += size
            return batch
        session = self.session
        if session is None:
            return batch
        log, in_turn = session.log, self._in_turn
        while len(batch) < _TOGETHER and size < _TOGETHER_BYTES:
            if in_turn and in_turn[0][0] <= self.cursor:
                frame = in_turn.popleft()[1]
                self._sending += len(frame)
            else:
                seq = self.cursor + 1
                if seq > log.settled:
                    break
                if seq <= log.floor:
                    self.overrun()
                    break
                self.cursor = seq
                frame = session.sending(seq, log[seq])
            batch.append(frame)
            size += len(frame)
        return batch

    def _pending(self) -> bool:
        session = self.session
        if session is None:
            return False
        due = bool(self._in_turn) and self._in_turn[0][0] <= self.cursor
        return due or self.cursor < session.log.settled

    # ----------------------------------------------------------------------- waiting

    async def _roomy(self) -> None:
        """Wait until control frames are sent. Meanwhile nothing is read from the client."""
        if self._dead:
            return
        self._room = asyncio.get_running_loop().create_future()
        await self._room

    def _made_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)

    async def _flushed(self) -> None:
        """Wait until the writer has ended."""
        if self._writer is not None:
            await asyncio.wait({self._writer})

    def _stop_timers(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.stop()
            self._heartbeat = None
        for timer in (self._deadline, self._overdue):
            if timer is not None:
                timer.cancel()
        self._deadline = self._overdue = None
