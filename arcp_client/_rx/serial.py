"""Handles items in arrival order, one handler at a time.

The drain task (`HandlerSink.drain`) exists only while there is work. It takes items from the sink's
`Inbox`. If the operator subscribes to an `EventChannel` directly, that inbox is the channel's
buffer.
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
    """The sink of one subscription to ``concat_map_async``."""

    def __init__(self, options: Options[T, R], down: Downstream[R]) -> None:
        super().__init__(options, down)
        self._task: asyncio.Task[None] | None = None
        self._watchdog = self.watchdog()

    def wake(self) -> None:
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
        self._task = None
        return False


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
