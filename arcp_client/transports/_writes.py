"""Half-done writes in, finished ones out: a sender may be cancelled, its write may not.

aiohttp lets everyone who waits for room in the socket wait on one shared future. Cancelling one of
them would cancel the others, and each one after it, with a CancelledError that nobody asked for.
So a write that has to wait is finished by a task of its own that is never cancelled.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Callable, Coroutine, Generator
from typing import Any

from arcp_client._tasks import TaskOwner

__all__ = ["Writes"]


class Writes:
    """The writes of one link that wait for room.

    Args:
        name: prefix of the tasks' names.
        on_room: called when the last of them has ended.
    """

    def __init__(self, name: str, *, on_room: Callable[[], None]) -> None:
        self._tasks = TaskOwner(name, on_failure=self._failed)
        self._waiting = 0
        self._on_room = on_room
        self.failure: BaseException | None = None

    def __len__(self) -> int:
        return self._waiting

    def start(self, write: Coroutine[Any, Any, None]) -> asyncio.Task[None] | None:
        """Write as far as it goes without waiting, which nearly always is all of it.

        Returns:
            A task that does the rest, or None if there is none.

        Raises:
            Whatever the write raised at once.
        """
        try:
            obstacle = write.send(None)
        except StopIteration:
            return None
        self._waiting += 1
        return self._tasks.spawn(self._rest(write, obstacle), name="write")

    async def _rest(self, write: Coroutine[Any, Any, None], obstacle: Any) -> None:
        try:
            await _resume(write, obstacle)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._on_room()

    def _failed(self, error: BaseException) -> None:
        # Not logged: the sender gets it, and the reader learns of the broken link by itself.
        self.failure = error


@types.coroutine
def _resume(write: Coroutine[Any, Any, None], obstacle: Any) -> Generator[Any, Any, None]:
    """Go on with a coroutine that has already been started, from what it waits for."""
    try:
        yield obstacle
    except BaseException as error:  # noqa: BLE001 - the write decides, whatever it is
        write.throw(error)
    yield from write
