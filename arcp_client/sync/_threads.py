"""Calls blocking handlers in threads, and records in the loop thread, in order, which have ended.

A change of threads costs more time than most handlers. So a thread gets several events at once, and
runs ahead of the loop. The thread stops after a failure, after 64 events, or after the first call
that ends 5 ms or more after the start. The loop then records the ended calls in order, in the same
way as calls that it makes itself. For a handler of batches, a thread makes one call at a time.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from contextvars import copy_context
from itertools import islice
from queue import SimpleQueue
from typing import Any, TypeAlias

from arcp_client._dispatch.deadlock import HandlerLane, present_lane, set_call
from arcp_client._rx.handling import name_of
from arcp_client.policy import Order

__all__ = ["HandlerThreads"]

_log = logging.getLogger("arcp_client.sync")

_Work: TypeAlias = "SimpleQueue[Callable[[], None] | None]"
"""The functions that one thread is to call; ``None`` ends the thread."""

_AHEAD = 64
_SLICE = 0.005
_IDLE = 8
"""How many threads of one registration may wait for work."""


class HandlerThreads:
    """The threads of one registration, which calls this object like a handler.

    A registration has one thread, and under `Order.JOB` one for each job whose handler runs. The
    threads are daemons: a handler that still runs at the end of the program ends with it.

    A thread cannot be interrupted. If a call is cancelled, by ``handler_timeout`` or a close, the
    handler continues; the next event of its lane waits for it.

    Args:
        handler: the function to call in a thread.
        order: the order of the registration.
        batch: whether the handler gets lists of events.
    """

    def __init__(
        self, handler: Callable[[Any], object], order: Order, *, batch: bool = False
    ) -> None:
        self._handler = handler
        self._by_job = order is Order.JOB and not batch
        self._batch = batch
        self._threads: list[_Work] = []
        self._idle: list[_Work] = []
        self._runs: dict[str | None, _Run] = {}
        self._closed = False
        self.__qualname__ = name_of(handler)  # messages name the user's handler

    def __call__(self, event: Any) -> Awaitable[None] | None:
        """Call the handler with an event or a batch; ``None`` if its thread has done so already."""
        lane = present_lane()
        assert lane is not None
        if self._batch:
            return self._ended(None, lane, lane.done, self._handler, (event,))
        key = event.job_id if self._by_job else None
        run = self._runs.get(key)
        if run is not None and run.succeeded(lane, lane.done):
            if run.over:
                self._forget(key, run)
            return None
        return self._ended(key, lane, lane.done, self._handler)

    async def run(self, event: Any, function: Callable[..., object], *args: object) -> None:
        """Call another function in the thread of the event's lane, as part of its handler call."""
        lane = present_lane()
        assert lane is not None
        key = event.job_id if self._by_job else None
        await self._ended(key, lane, lane.done, function, args)

    async def _ended(
        self,
        key: str | None,
        lane: HandlerLane,
        number: int,
        function: Callable[..., object],
        args: tuple[object, ...] | None = None,
    ) -> None:
        """Wait for the end of a call; begin the call if no thread has begun it."""
        while True:
            run = self._runs.get(key)
            if run is not None and run.ended and not run.has(lane, number):
                self._drop(key, run)  # its last call was cancelled in the turn in which it ended
                run = None
            if run is None:
                waiting = islice(lane.waiting(), _AHEAD)
                calls = [(event,) for event in waiting] if args is None else [args]
                run = self._begun(key, _Run(lane, number, function, calls))
            await run.wait(number)
            if run.has(lane, number):
                break
        error = run.outcome(number)
        if error is not None:
            await run.wait()  # so that its thread is free
        self._forget(key, run)
        if error is not None:
            try:
                raise error
            finally:
                del error  # no cycle of the exception and this frame

    def _begun(self, key: str | None, run: _Run) -> _Run:
        self._runs[key] = run
        thread = self._idle.pop() if self._idle else self._started()

        def ended() -> None:
            if len(self._idle) < _IDLE:
                self._idle.append(thread)
            else:
                self._threads.remove(thread)
                thread.put(None)
            run.end()
            if run.stopped:
                self._drop(key, run)
            else:
                self._forget(key, run)

        run.begin(thread, ended)
        if self._closed:
            thread.put(None)
        return run

    def _started(self) -> _Work:
        thread: _Work = SimpleQueue()
        name = f"arcp_client:{self.__qualname__}"
        threading.Thread(target=_serve, args=(thread,), name=name, daemon=True).start()
        self._threads.append(thread)
        return thread

    def _forget(self, key: str | None, run: _Run) -> None:
        if run.over and self._runs.get(key) is run:
            del self._runs[key]

    def _drop(self, key: str | None, run: _Run) -> None:
        """Remove a run that has ended, and log the failures that do not count as read."""
        for error in filter(None, run.unread()):
            _log.error("handler %s failed too late", self.__qualname__, exc_info=error)
        self._runs.pop(key, None)

    def close(self) -> None:
        """End the threads, each after its handler."""
        self._closed = True
        for run in self._runs.values():
            run.stopped = True
        self._idle.clear()
        for thread in self._threads:
            thread.put(None)

    def __del__(self) -> None:
        for thread in getattr(self, "_threads", ()):
            thread.put(None)


class _Run:
    """Successive handler calls of one lane, which a thread makes without waiting for the loop.

    Args:
        lane: the lane.
        first: the ordinal of the first call.
        function: the function to call.
        calls: the arguments of each call.

    Attributes:
        ended: the thread makes no further call, and has reported so to the loop.
        stopped: the thread is to make no further call.
    """

    __slots__ = (
        "_calls",
        "_first",
        "_function",
        "_lane",
        "_loop",
        "_outcomes",
        "_read",
        "_waiter",
        "_waits",
        "ended",
        "stopped",
    )

    def __init__(
        self,
        lane: HandlerLane,
        first: int,
        function: Callable[..., object],
        calls: Sequence[tuple[object, ...]],
    ) -> None:
        self.ended = False
        self.stopped = False
        self._lane = lane
        self._first = first
        self._function = function
        self._calls = calls
        self._outcomes: list[BaseException | None] = []
        self._read = 0
        self._loop = asyncio.get_running_loop()
        self._waits = False
        self._waiter: asyncio.Future[None] | None = None

    # -- in the loop

    def begin(self, thread: _Work, ended: Callable[[], None]) -> None:
        """Let a thread make the calls, and call ``ended`` in the loop after the last one."""
        context = copy_context()  # holds the lane, so that calls of the handler belong to it
        thread.put(lambda: context.run(self._work, ended))

    def has(self, lane: HandlerLane, number: int) -> bool:
        """Whether the call with that ordinal belongs to this run and has ended."""
        return lane is self._lane and 0 <= number - self._first < len(self._outcomes)

    def succeeded(self, lane: HandlerLane, number: int) -> bool:
        """Whether `has`, without a failure; if so, the outcome counts as read."""
        at, outcomes = number - self._first, self._outcomes
        if lane is not self._lane or not 0 <= at < len(outcomes) or outcomes[at] is not None:
            return False
        self._read = at + 1
        return True

    def outcome(self, number: int) -> BaseException | None:
        """The failure of a call that has ended, if any; the outcome then counts as read."""
        self._read = number - self._first + 1
        return self._outcomes[number - self._first]

    def unread(self) -> list[BaseException | None]:
        """The outcomes that do not count as read."""
        return self._outcomes[self._read :]

    @property
    def over(self) -> bool:
        """Whether the thread has ended, and all outcomes count as read."""
        return self.ended and self._read == len(self._outcomes)

    async def wait(self, number: int | None = None) -> None:
        """Wait until a call has ended, or the thread will make no further call."""
        while not self.ended:
            self._waits = True  # before the check: the thread looks at it after each call
            if number is not None and self.has(self._lane, number):
                return
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            except asyncio.CancelledError:
                self.stopped = True
                raise

    def wake(self) -> None:
        """Wake the waiting call."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def end(self) -> None:
        """Record that the thread has ended."""
        self.ended = True
        self.wake()

    # -- in the thread

    def _work(self, ended: Callable[[], None]) -> None:
        function, clock = self._function, time.monotonic
        until = clock() + _SLICE
        for number, args in enumerate(self._calls, self._first):
            error: BaseException | None = None
            set_call((self._lane, number))
            try:
                result = function(*args)
                if result is not None:
                    _refuse_awaitable(result)
            except BaseException as failure:  # noqa: BLE001  the registration handles it
                error = failure
            self._outcomes.append(error)
            if error is not None or self.stopped or clock() >= until:
                break
            if self._waits:
                self._waits = False
                self._post(self.wake)
        self._post(ended)

    def _post(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(function)


def _serve(queue: _Work) -> None:
    while (work := queue.get()) is not None:
        work()
        del work  # nothing is kept while the thread waits


def _refuse_awaitable(result: object) -> None:
    if not hasattr(result, "__await__"):
        return
    if isinstance(result, Coroutine):
        result.close()
    raise TypeError("a handler with thread=True returned an awaitable, which no thread awaits")
