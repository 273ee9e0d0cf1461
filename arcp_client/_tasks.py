"""Starts tasks, keeps references to them until they end, and reports their failures.

A task of a bare ``asyncio.create_task`` may be garbage-collected while it runs, and its exception
may go unnoticed. `TaskOwner` keeps a reference to each task, reports exceptions that are not
awaited, and cancels all tasks together. With `start`, tasks begin in the same way under every task
factory. `pass_on` distinguishes a failure of user code from the end of the task or of the program.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable
from functools import partial
from typing import Any, Generic, TypeVar, cast

from arcp_client._deadline import Deadline

__all__ = [
    "TaskOwner",
    "as_exception",
    "cancel_and_wait",
    "continue_in",
    "in_context",
    "is_elsewhere",
    "pass_on",
    "start",
]

T = TypeVar("T")

_log = logging.getLogger("arcp_client.tasks")


def start(
    coro: Coroutine[Any, Any, T],
    *,
    name: str | None = None,
    context: contextvars.Context | None = None,
) -> asyncio.Task[T]:
    """Create a task that begins in a later iteration of the loop, under every task factory.

    A factory such as `asyncio.eager_task_factory` runs the first step while it creates the task.
    With this function, a caller may set values that the task reads after the call.

    Args:
        coro: the coroutine to run.
        name: the task's name.
        context: the task's context; by default a copy of the caller's.
    """
    loop = asyncio.get_running_loop()
    if loop.get_task_factory() is None:
        return loop.create_task(coro, name=name, context=context)
    beginning = _Beginning(coro)
    task = loop.create_task(beginning.run(), name=name, context=context)
    beginning.created = True
    task.add_done_callback(beginning.closed)
    return task


class _Beginning(Generic[T]):
    """Delays a coroutine by one iteration of the loop if its task already runs during creation."""

    def __init__(self, coro: Coroutine[Any, Any, T]) -> None:
        self._coro = coro
        self.created = False

    async def run(self) -> T:
        if not self.created:
            await asyncio.sleep(0)
        return await self._coro

    def closed(self, _task: asyncio.Task[T]) -> None:
        """Close the coroutine, because a task that is cancelled before its first step does not."""
        self._coro.close()


def in_context(context: contextvars.Context, awaitable: Awaitable[T]) -> Awaitable[T]:
    """Await in the caller's task, but in another context: every step runs in that context."""
    if isinstance(awaitable, types.CoroutineType):
        return _steps_in(context, awaitable)
    return _steps_in(context, _awaited(awaitable))


async def _awaited(awaitable: Awaitable[T]) -> T:
    return await awaitable


@types.coroutine
def _steps_in(context: contextvars.Context, coro: Coroutine[Any, Any, T]) -> Generator[Any, Any, T]:
    try:
        awaited = context.run(coro.send, None)
    except StopIteration as end:
        return cast(T, end.value)
    return (yield from continue_in(context, coro, awaited))


@types.coroutine
def continue_in(
    context: contextvars.Context, coro: Coroutine[Any, Any, T], awaited: Any
) -> Generator[Any, Any, T]:
    """Like `in_context`, for a coroutine that has made its first step and waits for ``awaited``."""
    step: Callable[[Any], Any]
    while True:
        try:
            step, value = coro.send, (yield awaited)
        except GeneratorExit:
            context.run(coro.close)
            raise
        except BaseException as error:  # noqa: BLE001  # it goes to where the coroutine waits
            step, value = coro.throw, error
        try:
            awaited = context.run(step, value)
        except StopIteration as end:
            return cast(T, end.value)


def pass_on(error: BaseException, task: asyncio.Task[Any] | None = None) -> None:
    """Re-raise an exception from user code if it is not a failure of that code.

    Call it first in an ``except BaseException`` around a call of user code. It re-raises
    KeyboardInterrupt, which ends the program, and a cancellation of the running task. All other
    exceptions are failures of the call: SystemExit, GeneratorExit, groups, exceptions of foreign
    runtimes that derive from BaseException, and a CancelledError without a cancellation of this
    task.

    Args:
        error: the exception.
        task: the running task, taken before the call, if the user code is awaited. It is needed to
            distinguish a GeneratorExit that closes the caller from one that user code raised.
    """
    if isinstance(error, Exception):
        return
    if _interrupts(error):
        raise error
    current = _current_task()
    if isinstance(error, asyncio.CancelledError):
        if current is not None and current.cancelling():
            raise error
    elif isinstance(error, GeneratorExit) and task is not None and current is not task:
        raise error


def as_exception(error: BaseException, what: str) -> Exception:
    """The exception itself, or a RuntimeError with it as cause if it is not an Exception."""
    if isinstance(error, Exception):
        return error
    wrapped = RuntimeError(f"{what} raised {type(error).__name__}")
    wrapped.__cause__ = error
    return wrapped


def _interrupts(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(KeyboardInterrupt) is not None
    return isinstance(error, KeyboardInterrupt)


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


class TaskOwner:
    """Keeps the tasks it spawned until they end.

    Args:
        name: prefix of every task's name.
        on_failure: called with an exception that ended a task; by default it is logged as ERROR.
    """

    __slots__ = ("_name", "_on_failure", "_tasks")

    def __init__(
        self, name: str, *, on_failure: Callable[[BaseException], None] | None = None
    ) -> None:
        self._name = name
        self._on_failure = on_failure
        self._tasks: dict[asyncio.Task[Any], None] = {}  # less memory than a set

    def __len__(self) -> int:
        return len(self._tasks)

    def owns(self, task: asyncio.Task[Any]) -> bool:
        """Whether this owner started the task and it has not ended."""
        return task in self._tasks

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str = "") -> asyncio.Task[T]:
        """Start a coroutine as a task of this owner, in a later iteration of the loop."""
        task = start(coro, name=f"{self._name}:{name}")
        self._tasks[task] = None
        task.add_done_callback(self._ended)
        return task

    def release(self, task: asyncio.Task[Any]) -> None:
        """Forget a task that ends in its present step, without a failure.

        Its end then needs no callback, for which the loop would make another iteration.
        """
        self._tasks.pop(task, None)
        task.remove_done_callback(self._ended)

    async def complete(
        self,
        coro: Coroutine[Any, Any, T],
        *,
        name: str = "",
        late: Callable[[T], None] | None = None,
    ) -> T:
        """Await a coroutine that runs to its end even if the caller is cancelled meanwhile.

        For steps of which the first cannot be taken back, and the others must follow it.

        Args:
            coro: the coroutine; it runs as a task of this owner.
            name: the task's name.
            late: called with the result if the caller was cancelled before.
        """
        task = self.spawn(_outcome(coro), name=name)
        try:
            result, error = await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(partial(self._completed, late))
            raise
        if error is not None:
            raise error
        return cast(T, result)

    def _completed(
        self,
        late: Callable[[T], None] | None,
        task: asyncio.Task[tuple[T | None, Exception | None]],
    ) -> None:
        if task.cancelled() or task.exception() is not None:
            return
        result, error = task.result()
        if error is None and late is not None:
            late(cast(T, result))
        elif error is not None:
            _log.info("task %s failed, and its caller is gone", task.get_name(), exc_info=error)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()  # also marks it as retrieved
        if error is None:
            return
        if self._on_failure is not None:
            self._on_failure(error)
        else:
            _log.error("task %s failed", task.get_name(), exc_info=error)

    async def close(self, *, deadline: Deadline | None = None) -> bool:
        """Cancel all tasks except the caller's own, and wait until they have ended.

        Args:
            deadline: until when to wait; tasks that then still run stay with this owner. Returns:
            Whether all of them have ended.
        """
        current = asyncio.current_task()
        # A cancelled task may start others.
        while ours := [t for t in self._tasks if t is not current and not t.done()]:
            if not await cancel_and_wait(ours, deadline=deadline):
                return False
        return True


async def _outcome(coro: Coroutine[Any, Any, T]) -> tuple[T | None, Exception | None]:
    try:
        return await coro, None
    except Exception as error:  # noqa: BLE001 - the caller raises it
        return None, error


def is_elsewhere(home: asyncio.AbstractEventLoop) -> bool:
    """Whether the caller runs in another loop, or without a loop while this one runs.

    Such a caller would not be woken, and its code could interleave with that of the loop. For a
    caller without a loop, while this loop does not run, neither can happen.
    """
    try:
        return asyncio.get_running_loop() is not home
    except RuntimeError:
        return home.is_running()


async def cancel_and_wait(
    tasks: Iterable[asyncio.Task[Any]], *, deadline: Deadline | None = None
) -> bool:
    """Cancel tasks, repeatedly if they suppress cancellations, until they have ended.

    Exceptions of the tasks are not retrieved. A cancellation of the caller is re-raised after the
    tasks have ended.

    Args:
        tasks: the tasks.
        deadline: the end of the wait; by default there is none.

    Returns:
        Whether all of them have ended.
    """
    pending = {task for task in tasks if not task.done()}
    interrupted: asyncio.CancelledError | None = None
    while pending:
        for task in pending:
            task.cancel()
        patience = 1.0 if deadline is None else deadline.share(1.0)
        try:
            _, pending = await asyncio.wait(pending, timeout=patience)
        except asyncio.CancelledError as cancelled:
            interrupted = cancelled
        if deadline is not None and not deadline.left:
            break
    if interrupted is not None:
        raise interrupted
    return not pending
