"""Runs the code of one client on the loop thread of its portal, or in the caller's thread.

Before the first blocking call, and after the portal has ended, there is no loop thread. The calling
thread then runs the code itself: it registers handlers, reads the client's state, or fails.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator
from functools import partial
from typing import Any, ParamSpec, TypeVar

from arcp_client._dispatch.deadlock import own_turn, present_lane
from arcp_client.errors import ClientClosed
from arcp_client.sync.portal import GRACE, PATIENCE, Portal

__all__ = ["LoopAccess"]

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("arcp_client.sync")

_END: Any = object()
_SLACK = 2.0
"""Seconds that a close may take longer than its deadline, before the loop counts as blocked."""


class LoopAccess:
    """Calls the code of one client, its jobs and its iterators in their event loop.

    Args:
        portal: the portal to use, which other clients may use as well; ``None`` to make one.
    """

    def __init__(self, portal: Portal | None) -> None:
        self._own = portal is None
        self.portal = Portal() if portal is None else portal
        self._lock = threading.RLock()

    def start(self, client: object, leave: Callable[[], Awaitable[None]]) -> None:
        """Start the loop thread, if it does not run yet.

        Args:
            client: the client.
            leave: ends the client at once; called if it is still open at the end of the program.
        """
        with self._lock:
            self.portal.start()
        self.portal.users[client] = leave

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call an async function and wait for its result."""
        if self.portal.closed:
            self.portal.check_caller()
            return _run_here(function(*args, **kwargs))
        if not self.portal.running:
            with self._lock:
                self.portal.start()
        if present_lane() is not None:
            return self.portal.run(_in_turn, partial(function, *args, **kwargs))
        return self.portal.run(function, *args, **kwargs)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function that does not wait."""
        if not self.portal.running:
            if not self.portal.inside:  # in the last steps of a loop that ends
                self.portal.check_caller()
            with self._lock:
                if not self.portal.running:
                    return function(*args, **kwargs)
        return self.portal.call(function, *args, **kwargs)

    def iterate(self, source: AsyncIterator[T]) -> Generator[T, None, None]:
        """Iterate over an async generator."""
        try:
            while (item := self.run(_next, source)) is not _END:
                yield item
        finally:
            # A finalizer may run in any thread, so it does not wait.
            self.portal.start_soon(lambda: _close(source))

    def leave(
        self, client: object, seconds: float, function: Callable[[], Awaitable[None]]
    ) -> None:
        """Close the client, and then its portal, if the portal was made for this client.

        Args:
            client: the client.
            seconds: the limit of the client for its own close.
            function: closes the client.
        """
        if not self.portal.running:
            self.portal.check_caller()
            self.stop()
            _run_here(function())
            return
        try:
            self.portal.run_within(seconds + _SLACK, _in_turn, function)
        except TimeoutError:
            _log.warning("the client was not closed: a handler blocks the loop thread")
            self.end(client, timeout=0)
        except ClientClosed:  # another thread has ended the portal meanwhile
            return
        else:
            self.end(client)

    def end(self, client: object, *, timeout: float = PATIENCE) -> None:
        """End the portal of a client that has ended, if the portal was made for this client."""
        self.portal.users.pop(client, None)
        if self._own:
            self.portal.close(timeout=timeout)

    def stop(self) -> None:
        """Begin to end the portal, if it was made for this client. This method never blocks."""
        if self._own:
            self.portal.stop()


async def _in_turn(function: Callable[[], Awaitable[T]]) -> T:
    """Call a function when the calling handler is the running one of its lane (rule D10)."""
    await own_turn()
    return await function()


async def _next(source: AsyncIterator[Any]) -> Any:
    return await anext(source, _END)


async def _close(source: AsyncIterator[Any]) -> None:
    if isinstance(source, AsyncGenerator):
        await source.aclose()


def _run_here(awaitable: Awaitable[T]) -> T:
    """Run an awaitable to its end in a loop that exists for this call only.

    Unlike ``asyncio.run``, this function leaves async generators open, so the next call can
    continue them.
    """

    async def run() -> T:
        return await awaitable

    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(run())
    finally:
        tasks = asyncio.all_tasks(loop)
        for task in tasks:
            task.cancel()
        if tasks:
            loop.run_until_complete(asyncio.wait(tasks, timeout=GRACE))
        loop.close()
