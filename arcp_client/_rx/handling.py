"""Calls handlers, with their time limit, error policy and cancellation.

A *drain task* takes items from a queue, calls the handler for each item, and awaits the result;
`_rx.serial` and `_rx.lanes` start these tasks. The same task calls and awaits the handler. So a
time limit or cancel scope that the handler opens acts on the drain task, and never on the producer
of the items. With `Options.isolate`, an async handler has a task of its own, which the drain task
awaits.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
import math
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

import msgspec

from arcp_client import _arguments as check
from arcp_client._rx.delivery import Delivery, Held
from arcp_client._rx.sink import Downstream, Emitter, log
from arcp_client._tasks import TaskOwner, pass_on, start
from arcp_client.errors import HandlerError

__all__ = ["HandlerSink", "OnError", "Options", "Watchdog", "name_of"]

T = TypeVar("T")
R = TypeVar("R")
OnError: TypeAlias = Literal["skip", "raise"] | Callable[[T, Exception], object]


def name_of(handler: object) -> str:
    """The name of a handler for messages; for a partial, the name of its function."""
    while isinstance(handler, functools.partial):
        handler = handler.func
    return getattr(handler, "__qualname__", None) or type(handler).__qualname__


class Options(msgspec.Struct, Generic[T, R], frozen=True):
    """How handlers run. Validated when the operator is made, not at subscription.

    ``pick`` is for telemetry. It returns the function that the drain task calls: the handler, or a
    wrapper that measures the calls and is async if the handler is. The drain task calls ``pick``
    when it starts, and after each pause between items.
    """

    handler: Callable[[T], Awaitable[R] | R]
    on_error: OnError[T] = "skip"
    slice_items: int = 64
    slice_seconds: float = 0.005
    item_timeout: float | None = None
    isolate: bool = False
    pick: Callable[[], Callable[[T], Awaitable[R] | R]] | None = None
    is_async: bool = False  # computed from the handler, like the name
    name: str = ""

    def __post_init__(self) -> None:
        check.a_function("handler", self.handler)
        if callable(self.on_error):
            check.a_function("on_error", self.on_error)
        elif self.on_error not in ("skip", "raise"):
            raise ValueError(
                f'on_error must be "skip", "raise" or a function, not {self.on_error!r}'
            )
        check.a_number("slice_items", self.slice_items, least=1)
        check.seconds("slice_seconds", self.slice_seconds, above=True)
        check.seconds("item_timeout", self.item_timeout, above=True, none=True)
        check.a_flag("isolate_context", self.isolate)
        msgspec.structs.force_setattr(self, "is_async", check.is_coroutine_function(self.handler))
        msgspec.structs.force_setattr(self, "name", name_of(self.handler))


class Watchdog:
    """Limits the time of each handler call of a drain task.

    It uses one timer for all calls, because a timer for each item would cost more than most
    handlers.
    """

    __slots__ = ("_loop", "_seconds", "_started", "_task", "_timer", "fired")

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._loop = loop
        self._seconds = seconds
        self._started = 0.0
        self._task: asyncio.Task[Any] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.fired = False

    def begin(self, task: asyncio.Task[Any]) -> None:
        """Start to measure a handler call in this task."""
        self._task = task
        self._started = self._loop.time()
        if self._timer is None:
            self._timer = self._loop.call_at(self._started + self._seconds, self._check)

    def end(self) -> bool:
        """End the measurement; True if the call exceeded its time and was cancelled."""
        task, self._task = self._task, None
        fired, self.fired = self.fired, False
        if fired and task is not None:
            task.uncancel()
        return fired

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _check(self) -> None:
        self._timer = None
        if self._task is None or self.fired:
            return
        due = self._started + self._seconds
        if self._loop.time() >= due:
            self.fired = True
            self._task.cancel()
        else:
            self._timer = self._loop.call_at(due, self._check)


class HandlerSink(Emitter[T, R]):
    """A sink that calls a handler for each item. Subclasses select the next item.

    Attributes:
        context: the context whose copies drain tasks run in.
        outlives_cancel: if True, a cancellation of the drain task counts as a failure of the
            running handler, and the stream continues; only ``dispose`` ends it.
    """

    outlives_cancel = False

    def __init__(self, options: Options[T, R], down: Downstream[R]) -> None:
        super().__init__(down)
        self.options = options
        self._owner = TaskOwner("arcp_client.rx")
        # Handlers get the context of the subscriber, not that of the code that pushed the item.
        self.context = contextvars.copy_context()
        self._inner: dict[asyncio.Task[Any], asyncio.Task[Any]] = {}

    def spawn(self, drain: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a drain task. It ends, or waits, when no items are left."""
        # A copy: an eager task factory runs the drain inside this call, which may call it again.
        task = self.context.copy().run(self._owner.spawn, drain)
        task.add_done_callback(self.drained)
        return task

    def drained(self, task: asyncio.Task[None]) -> None:
        """Finish the stream if a drain task ended with a cancellation or a failure."""
        if task.cancelled():
            self.interrupted(None, asyncio.CancelledError())
        elif (error := task.exception()) is not None:
            # No task drains the queue any more, so the stream ends rather than stalls.
            self.finish(self._wrapped(f"ended by {type(error).__name__}", None, error))

    def release_task(self, task: asyncio.Task[None]) -> None:
        """Release a drain task that ends in its present step, because there are no items."""
        task.remove_done_callback(self.drained)
        self._owner.release(task)

    def watchdog(self) -> Watchdog | None:
        """Make the watchdog of a new drain task, if items have a time limit."""
        seconds = self.options.item_timeout
        return None if seconds is None else Watchdog(self._loop, seconds)

    def runs_in(self, task: asyncio.Task[Any]) -> bool:
        """Whether this task calls handlers."""
        return self._owner.owns(task) or task in self._inner

    def cancel(self, task: asyncio.Task[Any]) -> bool:
        """Cancel a drain task. False, without effect, for a handler that runs in that task."""
        try:
            current = asyncio.current_task()
        except RuntimeError:
            current = None
        if current is not None and self._inner.get(current, current) is task:
            return False
        task.cancel()
        return True

    async def isolated(self, item: T) -> R:
        """Run the handler in a copy of the context, and in a task of its own if it is async."""
        context = self.context.copy()
        result = context.run(self.options.handler, item)
        if not inspect.isawaitable(result):
            return result
        # No TaskOwner: the task is awaited here, and its error is the handler's.
        inner = start(_awaited(result), context=context)
        drain = asyncio.current_task()
        assert drain is not None
        self._inner[inner] = drain
        try:
            return cast(R, await inner)
        finally:
            del self._inner[inner]

    async def drain(
        self,
        take: Callable[[], Any],
        dry: Callable[[], Awaitable[bool]],
        *,
        slot: Delivery | None,
        watchdog: Watchdog | None,
        after: Callable[[], None] | None = None,
    ) -> None:
        """Handle the items from ``take`` until the sink stops or ``dry`` returns False.

        All lanes share this function. It is long because every event passes through it, and one
        more function call would cost as much as the rest of the loop. After its time slice it
        yields to the event loop, unless ``after`` is given: then ``take`` ends the slice by raising
        IndexError.

        Args:
            take: returns the next item, or raises IndexError if there is none.
            dry: called when there is no item; returns whether to continue.
            slot: the `Delivery` of items that have none of their own.
            watchdog: limits the time of each handler call.
            after: called after each handler call.
        """
        options, here = self.options, self.here
        handler: Any = self.isolated if options.isolate else options.handler
        pick: Any = options.pick
        if pick is not None:
            handler = pick()
        is_async = options.is_async or options.isolate
        on_next = self.down.on_next
        task: Any = asyncio.current_task(self._loop)
        item: Any
        result: Any
        plain: type = type(None)  # the last result type that was not awaitable
        clock = time.monotonic  # not the loop's: some loops cache their time for one iteration
        slice_items = options.slice_items if after is None else math.inf
        slice_seconds = options.slice_seconds if after is None else math.inf
        left, until = slice_items, clock() + slice_seconds
        while not self.stopped:
            try:
                item = take()
            except IndexError:
                item = result = token = None  # the task may wait long
                if await dry():
                    left, until = slice_items, clock() + slice_seconds
                    if pick is not None:
                        handler = pick()
                    continue
                self.release_task(task)
                return
            token = slot
            if type(item) is Held:
                token, item = item.token, item.item
            done = True
            try:
                if watchdog is not None:
                    watchdog.begin(task)
                result = handler(item)
                if is_async:
                    result = await result
                elif type(result) is not plain:
                    if inspect.isawaitable(result):
                        result = await result
                    else:
                        plain = type(result)
                if watchdog is not None and watchdog.end():
                    raise self._overdue()
            except BaseException as error:  # noqa: BLE001  # pass_on re-raises what is not a failure
                if watchdog is not None and watchdog.end() and not task.cancelling():
                    error = self._overdue(error)
                if not isinstance(error, asyncio.CancelledError):  # failed() treats it
                    pass_on(error, task)
                done = await self.failed(item, error)
            else:
                if on_next is not None and not self.stopped:
                    outer, here.token = here.token, token
                    try:
                        on_next(result)
                    except BaseException as error:  # noqa: BLE001  # as above
                        if not isinstance(error, asyncio.CancelledError):
                            pass_on(error)
                        self._observer_failed(error)
                    finally:
                        here.token = outer
            if token is not None:
                token.release(done)
            if after is not None:
                after()
                continue
            left -= 1
            if left <= 0 or clock() >= until:
                await self.pause()
                left, until = slice_items, clock() + slice_seconds
                if pick is not None:
                    handler = pick()

    def _overdue(self, cause: BaseException | None = None) -> TimeoutError:
        limit = self.options.item_timeout
        error = TimeoutError(f"{self.options.name} took longer than {limit} s")
        error.__cause__ = cause
        return error

    async def failed(self, item: T, error: BaseException) -> bool:
        """Apply ``on_error`` to a handler's exception.

        Returns:
            Whether the item counts as processed; not if it ended the stream.
        """
        if isinstance(error, asyncio.CancelledError):
            if await self._survives_cancel():
                failure: Exception = self._wrapped("was cancelled in its own task", item, error)
            elif self._ends_stream(item, error):
                return False
            else:
                failure = self._wrapped("was cancelled by what it awaited", item, error)
        elif isinstance(error, Exception):
            failure = error
        else:
            failure = self._wrapped(f"raised {type(error).__name__}", item, error)
        on_error = self.options.on_error
        if self.stopped or on_error == "skip":
            log.error("handler %s failed; the item is skipped", self.options.name, exc_info=failure)
        elif on_error == "raise":
            self.finish(failure)
            return False
        else:
            return await self._hook(on_error, item, failure)
        return True

    async def _hook(
        self,
        hook: Callable[[T, Exception], object],
        item: T,
        failure: Exception,
    ) -> bool:
        task = asyncio.current_task()
        try:
            result = hook(item, failure)
            if inspect.isawaitable(result):
                await result
        except asyncio.CancelledError as cancelled:
            if self._ends_stream(item, cancelled):
                return False
            log.exception("on_error of handler %s was cancelled", self.options.name)
        except BaseException as error:  # noqa: BLE001  # a failing hook does not end the stream
            pass_on(error, task)
            log.exception("on_error of handler %s failed", self.options.name)
        return True

    async def _survives_cancel(self) -> bool:
        """Whether the stream continues although this task was cancelled."""
        task = asyncio.current_task()
        if not self.outlives_cancel or task is None or not task.cancelling():
            return False
        while task.cancelling():
            task.uncancel()
        # At the end of a program every task is cancelled. The task of the sink's owner runs before
        # these steps end, and disposes of this sink.
        for _ in range(3):
            await asyncio.sleep(0)
        return not self.stopped

    def _ends_stream(self, item: T, cancelled: asyncio.CancelledError) -> bool:
        # The cancellation ends the stream if the sink was disposed or the drain task was cancelled.
        # Any other cancellation came from what the handler awaited, and is a failure of the
        # handler.
        task = asyncio.current_task()
        if not self.stopped and task is not None and task.cancelling():
            self.interrupted(item, cancelled)
        return self.stopped

    def interrupted(self, item: T | None, cancelled: asyncio.CancelledError) -> None:
        """End the stream, because its drain task was cancelled from outside."""
        if self.stopped:
            return
        if self.down.on_error is None:  # usually the end of the program: no traceback
            log.warning("handler %s was cancelled from outside", self.options.name)
            self.stop()
            self.halt()
        else:
            self.finish(self._wrapped("was cancelled from outside", item, cancelled))

    def _wrapped(self, how: str, item: T | None, cause: BaseException) -> HandlerError:
        name = self.options.name
        failure = HandlerError(f"{name} {how}", event=item, handler=name)
        failure.__cause__ = cause
        return failure

    def _observer_failed(self, error: BaseException) -> None:
        # An exception in on_next would otherwise end the drain task and stall the stream.
        if isinstance(error, asyncio.CancelledError):
            error = self._wrapped("has an observer that was cancelled", None, error)
        elif not isinstance(error, Exception):
            kind = type(error).__name__
            error = self._wrapped(f"has an observer that raised {kind}", None, error)
        if self.stopped:
            log.error("an observer failed after it had ended", exc_info=error)
        self.finish(error)

    async def pause(self, wait: Coroutine[Any, Any, None] | None = None) -> None:
        """Yield to the event loop between two items, or wait for what the next one needs."""
        try:
            await (asyncio.sleep(0) if wait is None else wait)
        except asyncio.CancelledError as cancelled:
            if self.pending() and not await self._survives_cancel():
                self.interrupted(None, cancelled)


async def _awaited(result: Awaitable[R]) -> R:
    return await result
