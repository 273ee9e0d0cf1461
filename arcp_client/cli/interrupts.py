"""Runs a command's coroutine, and lets SIGINT and SIGTERM end a block in which it waits."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any

from arcp_client import ArcpError
from arcp_client._tasks import start
from arcp_client.cli.errors import command_error
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.view import terminal

__all__ = ["Interrupts", "Stop", "beside", "execute"]


class Interrupts:
    """Lets SIGINT and SIGTERM end the `stop` block that the command is in.

    ::

        async with interrupts.stop():   # left at the first signal
            ...
        if interrupts.count: ...

    Attributes:
        count: number of signals so far.
    """

    def __init__(self) -> None:
        self.count = 0
        self._early = False
        self._scope: asyncio.Timeout | None = None

    @contextlib.contextmanager
    def listen(self) -> Iterator[None]:
        """Handle the signals during the block."""
        loop = asyncio.get_running_loop()
        taken = (signal.SIGINT, signal.SIGTERM)
        for each in taken:
            loop.add_signal_handler(each, self._came)
        try:
            yield
        finally:
            for each in taken:
                loop.remove_signal_handler(each)

    def _came(self) -> None:
        self.count += 1
        if self._scope is None:
            self._early = True
        elif not self._scope.expired():
            self._scope.reschedule(asyncio.get_running_loop().time())

    def stop(self, timeout: float | None = None) -> Stop:
        """Return a block that the next signal or the timeout ends without an error."""
        return Stop(self, timeout)

    def swap(self, scope: asyncio.Timeout | None) -> asyncio.Timeout | None:
        """Let signals end this block; return the block that they ended before."""
        before, self._scope = self._scope, scope
        if scope is not None and self._early:  # the signal came while no block was active
            self._early = False
            scope.reschedule(asyncio.get_running_loop().time())
        return before


class Stop:
    """See `Interrupts.stop`."""

    def __init__(self, interrupts: Interrupts, timeout: float | None) -> None:
        self._interrupts = interrupts
        self._timeout = timeout
        self._scope = asyncio.timeout(None)
        self._outer: asyncio.Timeout | None = None

    async def __aenter__(self) -> None:
        self._scope = asyncio.timeout(self._timeout)
        await self._scope.__aenter__()
        self._outer = self._interrupts.swap(self._scope)

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        self._interrupts.swap(self._outer)
        try:
            await self._scope.__aexit__(kind, error, trace)
        except TimeoutError:
            return True
        return False


def execute(body: Callable[[Interrupts], Any], *, at_once: bool = False) -> Exit:
    """Run a command's coroutine, with handlers for SIGINT and SIGTERM.

    Args:
        body: the coroutine.
        at_once: whether a signal cancels the coroutine. If False, the coroutine handles signals
            itself.
    """

    async def main() -> Exit:
        interrupts = Interrupts()
        with interrupts.listen():
            if not at_once:
                code: Exit = await body(interrupts)
                return code
            async with interrupts.stop():
                code = await body(interrupts)
                return code
            raise CommandError(Exit.INTERRUPTED, "interrupted")

    terminal.log_to_stderr()
    try:
        return asyncio.run(main())
    except ArcpError as error:
        raise command_error(error) from error


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a coroutine during the block; then cancel it, and re-raise its error."""
    task = start(work)  # the block owns the task
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait({task})
        failure = None if task.cancelled() else task.exception()
    if failure is not None:
        raise failure
