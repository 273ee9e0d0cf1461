"""Coroutines in, owned tasks out: every task of this package has an owner that reports its failure.

A bare ``asyncio.create_task`` may be garbage-collected half way and may fail unseen. `TaskOwner`
keeps what it starts, reports every exception that nobody awaits, and ends all of it at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

from arcp_client._deadline import Deadline

__all__ = ["TaskOwner", "cancel_and_wait", "is_elsewhere"]

T = TypeVar("T")

_log = logging.getLogger("arcp_client.tasks")


class TaskOwner:
    """Keeps the tasks it spawned until they end.

    Args:
        name: prefix of every task's name.
        on_failure: told of an exception that ended a task; by default it is logged as an ERROR.
    """

    def __init__(
        self, name: str, *, on_failure: Callable[[BaseException], None] | None = None
    ) -> None:
        self._name = name
        self._on_failure = on_failure
        self._tasks: set[asyncio.Task[Any]] = set()

    def __len__(self) -> int:
        return len(self._tasks)

    def owns(self, task: asyncio.Task[Any]) -> bool:
        """Whether it is one of these tasks, and has not ended."""
        return task in self._tasks

    def spawn(self, coro: Coroutine[Any, Any, T], *, name: str = "") -> asyncio.Task[T]:
        """Start a coroutine as a task of this owner."""
        task = asyncio.get_running_loop().create_task(coro, name=f"{self._name}:{name}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
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
        """Cancel all that runs, but for the caller's own task, and wait until it ended.

        Args:
            deadline: when to wait no longer; what still runs then stays with this owner.

        Returns:
            Whether all of it has ended.
        """
        current = asyncio.current_task()
        ours = (task for task in tuple(self._tasks) if task is not current)
        return await cancel_and_wait(ours, deadline=deadline)


def is_elsewhere(home: asyncio.AbstractEventLoop) -> bool:
    """Whether the caller runs beside this loop: nobody would wake it, and it would come in between.

    Between two runs of a loop there is nothing to come in between of.
    """
    try:
        return asyncio.get_running_loop() is not home
    except RuntimeError:
        return home.is_running()


async def cancel_and_wait(
    tasks: Iterable[asyncio.Task[Any]], *, deadline: Deadline | None = None
) -> bool:
    """Cancel tasks until they have ended, however often a task swallows a cancellation.

    Their exceptions stay with them. A cancellation of the caller is passed on after they ended.

    Args:
        tasks: which.
        deadline: when to wait no longer for those that do not end; by default never.

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
