"""Writes frames in call order, so that a cancelled sender does not stop other senders.

In aiohttp, all senders that wait for the socket to drain await one shared future. Cancelling one of
them would cancel the others, and later ones, with an unexpected CancelledError. So a single task
waits there, and it is never cancelled.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from arcp_client._tasks import TaskOwner

__all__ = ["Writes", "settle"]

_Queue = deque[tuple[Coroutine[Any, Any, None], asyncio.Future[None]]]


class Writes:
    """Orders the writes of one link.

    While the socket accepts data, `start` completes each write itself. A task takes over the first
    write that has to wait; later writes queue behind it until the queue is empty.

    Args:
        peer: the name of the other side, for the name of the task.
        on_room: called when the queue is empty again.
    """

    def __init__(self, peer: str, *, on_room: Callable[[], None]) -> None:
        self._peer = peer
        self._owner: TaskOwner | None = None  # made when a write first has to wait
        self._on_room = on_room
        self._queue: _Queue | None = None  # while writes wait

    @property
    def congested(self) -> bool:
        """Whether writes are queued because the peer does not read."""
        return self._queue is not None

    def start(self, write: Coroutine[Any, Any, None]) -> asyncio.Future[None] | None:
        """Write now, or as soon as the socket accepts data.

        Returns:
            None if the write is done, else a future of its completion. Cancelling the future does
            not stop the write.

        Raises:
            Exception: the write failed immediately.
        """
        queue = self._queue
        if queue is None:
            try:
                obstacle = write.send(None)
            except StopIteration:
                return None
            # The task must take the next step, else asyncio considers aiohttp's future as awaited
            # already.
            queue = self._queue = deque()
            write = _resumed(write, obstacle)
            if self._owner is None:
                self._owner = TaskOwner(f"websocket {self._peer}")
            self._owner.spawn(self._work_off(queue), name="write")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append((write, done))
        return done

    async def _work_off(self, queue: _Queue) -> None:
        try:
            while queue:
                write, done = queue.popleft()
                try:
                    await write
                except Exception as error:  # noqa: BLE001 - it is the sender's
                    settle(done, error)
                else:
                    settle(done, None)
        finally:
            self._queue = None
            while queue:  # only while the loop shuts down
                write, done = queue.popleft()
                write.close()
                done.cancel()
        self._on_room()


def settle(done: asyncio.Future[None], error: Exception | None) -> None:
    """Complete the future of a write, with the error if it failed."""
    if done.done():  # the sender was cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
        done.exception()  # mark as retrieved: a sender that is cancelled now will not retrieve it


async def _resumed(write: Coroutine[Any, Any, None], obstacle: object) -> None:
    await _go_on(write, obstacle)


@types.coroutine
def _go_on(write: Coroutine[Any, Any, None], obstacle: object) -> Generator[Any, Any, None]:
    """Continue a coroutine that has been started, from the future that it awaits."""
    try:
        yield obstacle
    except BaseException as error:  # noqa: BLE001 - the write decides, whatever it is
        write.throw(error)
    yield from write
