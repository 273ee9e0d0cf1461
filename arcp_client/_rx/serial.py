"""Handles items in arrival order, one handler at a time.

The drain task (`HandlerSink.drain`) takes items from the sink's `Inbox`. If the operator subscribes
to an `EventChannel` directly, that inbox is the channel's buffer. The task starts with the first
item, and ends when there is none, unless the sink lingers.
"""

from __future__ import annotations

import asyncio
from typing import Any, TypeVar

from arcp_client._rx.handling import HandlerSink, Options
from arcp_client._rx.sink import Downstream
from arcp_client.errors import HandlerError

__all__ = ["Batches", "Serial"]

T = TypeVar("T")
R = TypeVar("R")


class Serial(HandlerSink[T, R]):
    """The sink of one subscription to ``concat_map_async``.

    Attributes:
        lingers: the task waits for further items until the sink stops. Otherwise it ends when no
            items are left, so that a forgotten subscription leaves no task behind.
    """

    lingers = False

    def __init__(self, options: Options[T, R], down: Downstream[R]) -> None:
        super().__init__(options, down)
        self._task: asyncio.Task[None] | None = None
        self._watchdog = self.watchdog()
        self._items: asyncio.Future[None] | None = None  # while a task waits for items

    def wake(self) -> None:
        items, self._items = self._items, None
        if items is not None and not items.done():
            items.set_result(None)
            return
        inbox = self.inbox
        self._task = self.spawn(
            self.drain(inbox.take, self._dry, slot=inbox.new_slot(), watchdog=self._watchdog)
        )

    def halt(self) -> None:
        if self._task is not None and self.cancel(self._task):
            self._task = None
        self._sleep()

    def _sleep(self) -> None:
        if self._watchdog is not None:
            self._watchdog.close()

    async def _dry(self) -> bool:
        if self.ended:
            self.finish(self.error)
        else:
            self.inbox.idle = True
            self._sleep()
            if self.lingers:
                return await self._linger()
        self._task = None
        return False

    async def _linger(self) -> bool:
        """Wait for items, which takes less time than to start a task for each of them."""
        self._items = items = self._loop.create_future()
        try:
            await items
        except asyncio.CancelledError:
            if not items.cancelled():
                raise
            # Not an interruption, because no item waits. The next item starts another task.
            if self._items is items:
                self._items = self._task = None
            return False
        return True

    def stop_lingering(self) -> None:
        """From now on, end the task when no items are left."""
        self.lingers = False
        if self._items is not None:
            self._items.cancel()


class Batches(Serial[Any, R]):
    """Handles lists of items. Its inbox joins the items into lists, and says when one is due."""

    inbox: Any

    async def _dry(self) -> bool:
        if self.ended or not self.pending():
            return await super()._dry()
        await self.pause(self.inbox.filled())
        return True

    def _wrapped(self, how: str, item: Any, cause: BaseException) -> HandlerError:
        failure = super()._wrapped(how, item, cause)
        failure.event = next(iter(self.inbox.current()), None)  # one item, as documented
        return failure
