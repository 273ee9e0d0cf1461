"""Orders the updates, answers and requests of one session in a single queue.

An item of the queue is a line with an update, or an action: complete a call, start a request, open
or end a turn. `concat_map_async` keeps the order. When memory is full, lines go to a `SpillFile`,
and one item of the queue stands for several lines in the file. `_session.inbox` handles the items.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Protocol, TypeAlias

from arcp_client._spill import SpillFile
from arcp_client._wait_graph import waits_for
from arcp_client.acp._connection.backlog import Backlog
from arcp_client.rx import EventChannel, concat_map_async

__all__ = ["HERE", "AttachedSession", "Inside", "Position", "UpdateLane"]

_log = logging.getLogger("arcp_client.acp")

_NO_BOUND = 1 << 62  # the backlog counts the bytes
_HELD = 1024
_SLICE = 0.005  # seconds of work before yielding to the event loop


class _SpilledRun:
    """Several consecutive lines in the spill file."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


Position: TypeAlias = "bytes | _SpilledRun | Callable[[], None]"


class Inside:
    """The handler that the current task runs in, or was started from.

    Attributes:
        lane: the lane that waits for this handler; None for a handler of a request, for which no
            lane waits.
        active: whether the handler is still running.
    """

    __slots__ = ("active", "lane")

    def __init__(self, lane: UpdateLane | None) -> None:
        self.lane = lane
        self.active = True


HERE: ContextVar[Inside | None] = ContextVar("arcp_client.acp.handler", default=None)


class UpdateLane:
    """The ordered queue of one session.

    Args:
        backlog: counts the updates in the lanes of all sessions.
        deliver: passes one line to the session's handlers, and returns when they have ended.
    """

    def __init__(self, backlog: Backlog, deliver: Callable[[bytes], Awaitable[None]]) -> None:
        self._backlog = backlog
        self._deliver = deliver
        self._file = SpillFile(backlog.files)
        self._tail: _SpilledRun | None = None
        self._held: list[Position] | None = None
        self._channel: EventChannel[Position] = EventChannel(_NO_BOUND)
        self._actions: dict[Callable[[], None], None] = {}
        self._waiting: dict[Callable[[], None], None] = {}
        self._spilled = 0
        self._lines = self._bytes = 0  # this lane's share of the backlog
        self._closed = False
        self._ended = asyncio.Event()
        self.awaiting: list[UpdateLane] = []
        self.nested = 0
        operator = concat_map_async(self._advance)
        self._subscription = (
            self._channel.observable()
            .pipe(operator)
            .subscribe(on_error=self._broken, on_completed=self._ended.set)
        )

    # ------------------------------------------------------------------ arrival

    def line(self, line: bytes) -> bool:
        """Queue an update; return False if there is no room. Ignored after the end."""
        if self._closed:
            return True
        if self._held is not None and len(self._held) >= _HELD:
            self.release()
        backlog, size = self._backlog, len(line)
        if self._tail is not None or not backlog.fits(size):
            return self._spill(line)
        backlog.held_lines += 1
        backlog.held_bytes += size
        self._lines += 1
        self._bytes += size
        if self._held is None:
            self._channel.push_nowait(line)
        else:
            self._held.append(line)
        return True

    def do(self, action: Callable[[], None]) -> None:
        """Queue an action, which runs once all earlier items have been handled."""
        self._tail = None
        self._actions[action] = None
        self._push(action)

    def start(self, action: Callable[[], None]) -> None:
        """Start a request: in order, or at once if the lane may be waiting for the request itself.

        While a handler of this lane waits for a call, the agent may need the answer to this request
        first. It also starts at once while the updates of a new session are held, because no
        handler runs then.
        """
        if self.nested or self._held is not None:
            action()
            return
        self._waiting[action] = None
        self.do(lambda: self._start(action))

    def _start(self, action: Callable[[], None]) -> None:
        if self._waiting.pop(action, self) is not self:
            action()  # only once: it may have been started early

    def _spill(self, line: bytes) -> bool:
        if not self._file.append(line):
            return False
        if self._tail is None:
            self._tail = _SpilledRun()
            self._push(self._tail)
        self._tail.count += 1
        self._spilled += 1
        return True

    def _push(self, position: Position) -> None:
        if self._held is not None:
            self._held.append(position)
        elif not self._channel.push_nowait(position) and callable(position):
            self._act(position)  # after the end no items precede it

    def _act(self, action: Callable[[], None]) -> None:
        if self._actions.pop(action, self) is not self:
            action()

    # ------------------------------------------------------------------ holding

    def hold(self) -> None:
        """Handle nothing until `release`."""
        self._held = []

    @property
    def holding(self) -> bool:
        """Whether items are held."""
        return self._held is not None

    def release(self) -> None:
        """Handle the held items. Idempotent."""
        held, self._held = self._held, None
        for position in held or ():
            self._push(position)

    # ------------------------------------------------------------------ calls of handlers

    def enter(self, target: UpdateLane | None) -> bool:
        """Register a call of a running handler; return whether its answer must bypass ``target``.

        The answer must bypass the lane if ``target`` waits for this handler, directly or through
        handlers of other lanes.
        """
        self.nested += 1
        for action in list(self._waiting):
            self._start(action)
        if target is None or waits_for(target, self, lambda lane: lane.awaiting):
            return True
        self.awaiting.append(target)
        return False

    def leave(self, target: UpdateLane | None, *, bypassed: bool) -> None:
        """Unregister a call of `enter`."""
        self.nested -= 1
        if not bypassed and target is not None:
            self.awaiting.remove(target)

    # ------------------------------------------------------------------ in turn

    def _advance(self, position: Position) -> Awaitable[None] | None:
        if type(position) is bytes:
            self._forget(1, len(position))
            return self._deliver(position)
        if isinstance(position, _SpilledRun):
            return self._unspill(position)
        if callable(position):
            self._act(position)
        return None

    def _forget(self, lines: int, size: int) -> None:
        self._lines -= lines
        self._bytes -= size
        backlog = self._backlog
        backlog.held_lines -= lines
        backlog.held_bytes -= size
        if backlog.full:
            backlog.freed()

    async def _unspill(self, run: _SpilledRun) -> None:
        until = time.monotonic() + _SLICE
        while run.count:
            run.count -= 1
            self._spilled -= 1
            line = self._file.pop()
            self._backlog.freed()
            await self._deliver(line)
            if time.monotonic() >= until:
                await asyncio.sleep(0)
                until = time.monotonic() + _SLICE
        if self._tail is run:
            self._tail = None

    # ------------------------------------------------------------------ the end

    def complete(self) -> None:
        """Accept no more updates. Queued updates are still handled. Idempotent."""
        self.release()
        self._closed = True
        self._channel.complete()

    async def drained(self) -> None:
        """Wait until a completed lane has handled everything."""
        await self._ended.wait()

    def dispose(self) -> int:
        """Stop now; return the number of updates that were not handled."""
        self.release()
        self._closed = True
        left = self._lines + self._spilled
        self._subscription.dispose()
        self._forget(self._lines, self._bytes)
        self._file.close()
        self._tail, self._spilled = None, 0
        self._waiting.clear()
        for action in list(self._actions):
            self._act(action)
        self._ended.set()
        return left

    def _broken(self, error: Exception) -> None:
        _log.error("the inbox of a session has stopped", exc_info=error)
        self._ended.set()


class AttachedSession(Protocol):
    """The interface of an attached session for its connection."""

    @property
    def id(self) -> str:
        """The agent's id for the session."""

    @property
    def lane(self) -> UpdateLane:
        """The session's lane."""

    @property
    def receive(self) -> Callable[[bytes], bool]:
        """Queues the line of an update; returns False if there is no room."""

    @property
    def cancelling(self) -> bool:
        """Whether a turn is being cancelled."""

    def lost(self, error: Exception) -> None:
        """Fail what waits for updates, because the agent has exited. Called by the reader."""

    def end(self, error: Exception | None) -> None:
        """End the iterators, because no more updates follow. Called in order."""

    def leave(self) -> int:
        """Stop now; return the number of updates that were not handled."""
