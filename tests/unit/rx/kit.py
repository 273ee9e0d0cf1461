"""What the tests of the operators share: a downstream that writes down what it gets."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from reactivex import Observable, abc


class Tape:
    """The events of one subscription, in the order they came."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.ends: list[Any] = []
        self.late: list[Any] = []
        self.ended = asyncio.get_running_loop().create_future()

    def record(self, observable: Observable[Any]) -> abc.DisposableBase:
        return observable.subscribe(self.on_next, self.on_error, self.on_completed)

    def on_next(self, item: Any) -> None:
        (self.late if self.ends else self.items).append(item)

    def on_error(self, error: Exception) -> None:
        self._end(error)

    def on_completed(self) -> None:
        self._end("completed")

    def _end(self, how: Any) -> None:
        self.ends.append(how)
        if not self.ended.done():
            self.ended.set_result(how)


class Probe:
    """A handler that can be held: it suspends until it is let go, and writes down its calls."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.finished: list[Any] = []
        self.cancelled: list[Any] = []
        self.running = 0
        self.peak = 0
        self._gates: dict[Any, asyncio.Event] = {}
        self._open = False

    async def __call__(self, item: Any) -> Any:
        self.started.append(item)
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            if not self._open:
                await self._gates.setdefault(item, asyncio.Event()).wait()
        except asyncio.CancelledError:
            self.cancelled.append(item)
            raise
        finally:
            self.running -= 1
        self.finished.append(item)
        return item

    def let_go(self, item: Any) -> None:
        self._gates.setdefault(item, asyncio.Event()).set()

    def let_all_go(self) -> None:
        self._open = True
        for gate in self._gates.values():
            gate.set()


def drain_tasks() -> list[asyncio.Task[Any]]:
    """The tasks of the operators that are alive."""
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("arcp_client.rx")]


def functions(task: asyncio.Task[Any]) -> Iterator[str]:
    """The names of the coroutine functions that a task is in, the outermost first."""
    coro: Any = task.get_coro()
    while hasattr(coro, "cr_await"):
        yield coro.__qualname__
        coro = coro.cr_await
