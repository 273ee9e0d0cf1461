"""Writes frames in call order, so that a cancelled sender does not stop other senders.

In aiohttp, all senders that wait for room in the socket wait on one shared future. Cancelling one
of them would cancel the others, and later ones, with an unexpected CancelledError. So only one task
waits there, and it is never cancelled.
"""

from __future__ import annotations

import asyncio
import types
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from arcp_client._tasks import TaskOwner

__all__ = ["Writes"]


class Writes:
    """The writes of one link.

    While there is room, a write is done within `start`. The first one that has to wait is handed
    to a task; what is started meanwhile queues behind it, until the queue is empty again.

    Args:
        name: prefix of the task's name.
        on_room: called when nothing waits any more.
    """

    def __init__(self, name: str, *, on_room: Callable[[], None]) -> None:
        self._owner = TaskOwner(name)
        self._on_room = on_room
        self._queue: deque[tuple[Coroutine[Any, Any, None], asyncio.Future[None]]] = deque()
        self._congested = False

    @property
    def congested(self) -> bool:
        """Whether the peer takes no more at present."""
        return self._congested

    def start(self, write: Coroutine[Any, Any, None]) -> asyncio.Future[None] | None:
        """Write now, or as soon as there is room.

        Returns:
            None if it is done, else a future of its end. Cancelling that stops nothing.

        Raises:
            Exception: whatever the write raised at once.
        """
        if not self._congested:
            try:
                obstacle = write.send(None)
            except StopIteration:
                return None
            # The next step must be that of the task, or aiohttp's future counts as awaited.
            self._congested = True
            write = _resumed(write, obstacle)
            self._owner.spawn(self._work_off(), name="write")
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append((write, done))
        return done

    async def _work_off(self) -> None:
        try:
            while self._queue:
                write, done = self._queue.popleft()
                try:
                    await write
                except Exception as error:  # noqa: BLE001 - it is the sender's
                    _settle(done, error)
                else:
                    _settle(done, None)
        finally:
            self._congested = False
            while self._queue:  # only if the loop itself is going down
                write, done = self._queue.popleft()
                write.close()
                done.cancel()
        self._on_room()


def _settle(done: asyncio.Future[None], error: Exception | None) -> None:
    if done.done():  # its sender was cancelled
        return
    if error is None:
        done.set_result(None)
    else:
        done.set_exception(error)
        done.exception()  # counts as seen: a sender that is cancelled now will not look


async def _resumed(write: Coroutine[Any, Any, None], obstacle: object) -> None:
    await _go_on(write, obstacle)


@types.coroutine
def _go_on(write: Coroutine[Any, Any, None], obstacle: object) -> Generator[Any, Any, None]:
    """Go on with a coroutine that has already been started, from what it waits for."""
    try:
        yield obstacle
    except BaseException as error:  # noqa: BLE001 - the write decides, whatever it is
        write.throw(error)
    yield from write
