"""The attempts of a job that its client submits again, with one iterator over all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Generic, Protocol, TypeVar

from arcp_client._dispatch.event_filter import EventFilter
from arcp_client._dispatch.streams import EventIterator, Iteration
from arcp_client.errors import ArcpError
from arcp_client.events import Event

__all__ = ["Attempt", "Attempts", "AttemptsIterator"]

Wait = Callable[[asyncio.Future[None]], Awaitable[None]]


class Attempt(Protocol):
    """One job of the runtime, which is one attempt."""

    @property
    def job_id(self) -> str:
        """The job's id."""

    def iterate(self, event_filter: EventFilter) -> Iteration[Event]:
        """Make an iterator over its events, up to the terminal event."""


A = TypeVar("A", bound=Attempt)


class Attempts(Generic[A]):
    """The attempts of one job, each of which is a job of the runtime.

    Args:
        first: the first attempt.

    Attributes:
        refusal: why a further attempt could not be begun, if it was refused.
        stop: called once when there will be no further attempt.
    """

    def __init__(self, first: A) -> None:
        self._made = [first]
        self._over = False
        self._error: Callable[[], ArcpError] | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self.refusal: str | None = None
        self.stop: Callable[[], object] = lambda: None

    @property
    def latest(self) -> A:
        """The present attempt."""
        return self._made[-1]

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of the attempts, in their order."""
        return tuple(attempt.job_id for attempt in self._made)

    def add(self, attempt: A) -> None:
        """Begin the next attempt."""
        self._made.append(attempt)
        self._release()

    def close(self, error: Callable[[], ArcpError] | None = None) -> None:
        """End: the present attempt is the last one, or the client has ended. Idempotent."""
        if not self._over:
            self._over = True
            self._error = error
            self._release()
            self.stop()

    def _release(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def after(self, job_id: str, wait: Wait) -> A | None:
        """Wait for the attempt after another one; ``None`` if that one was the last.

        Args:
            job_id: the id of an attempt.
            wait: waits for a future.

        Raises:
            ArcpError: the client has ended.
        """
        index = self.ids.index(job_id) + 1
        while index >= len(self._made):
            if self._over:
                if self._error is not None:
                    raise self._error()
                return None
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            await wait(waiter)
            if waiter in self._waiters:  # the caller no longer wants it
                self._waiters.remove(waiter)
                return None
        return self._made[index]


class AttemptsIterator(EventIterator[Event]):
    """An iterator over the events of one attempt, and of those after it.

    Args:
        attempts: the attempts.
        first: the attempt to begin with.
        event_filter: selects the events.
        wait: waits for a future.
    """

    def __init__(
        self, attempts: Attempts[Any], first: Attempt, event_filter: EventFilter, wait: Wait
    ) -> None:
        self._attempts = attempts
        self._event_filter = event_filter
        self._wait = wait
        self._job_id = first.job_id
        self._events = first.iterate(event_filter)
        self._closed = False
        self._waiter: asyncio.Future[None] | None = None
        self._before = 0  # items of earlier attempts

    async def __anext__(self) -> Event:
        while True:
            try:
                return await self._events.__anext__()
            except StopAsyncIteration:
                if not await self._next():
                    raise

    async def _next(self) -> bool:
        """Continue with the next attempt; False if there is none."""
        if self._closed:
            return False
        following: Attempt | None = await self._attempts.after(self._job_id, self._either)
        if following is None or self._closed:
            return False
        self._job_id = following.job_id
        self._events = following.iterate(self._event_filter)
        return True

    async def _either(self, waiter: asyncio.Future[None]) -> None:
        """Wait for a future, or for the end of this iterator."""
        self._waiter = waiter
        try:
            await self._wait(waiter)
        finally:
            self._waiter = None

    async def batch(self, processed: int, most: int) -> list[Event]:
        """Wait for items, and return the next ones; see `Iteration.batch`."""
        while True:
            try:
                return await self._events.batch(processed - self._before, most)
            except StopAsyncIteration:
                if not await self._next():
                    raise
                self._before = processed

    def settle(self, processed: int) -> bool:
        """Count items of `batch` as processed; see `Iteration.settle`."""
        return self._events.settle(processed - self._before)

    async def aclose(self) -> None:
        self.close()

    def close(self) -> None:
        """End the iterator, as `aclose` does."""
        self._closed = True
        self._events.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
