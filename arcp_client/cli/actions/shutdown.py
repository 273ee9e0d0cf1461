"""Ends ``serve`` after a signal: gracefully if the agents end in time, else by force."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from arcp_client.cli.exit_codes import Exit

__all__ = ["Shutdown"]

_SLACK = 4.0
_AT_ONCE = 1.0
_LAST_WORDS = b"error: stopped by force: an agent did not end when it was interrupted\n"


class Shutdown:
    """Ends ``serve``: the first signal ends the block of `until_asked`, the next that of `bounded`.

    An agent may suppress its cancellation or block the event loop. So a thread ends the process if
    the shutdown takes too long.

    Args:
        grace: seconds for running jobs.
    """

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._loop = asyncio.get_running_loop()
        self._scope: asyncio.Timeout | None = None
        self._watchdog: threading.Timer | None = None
        self._asked = 0

    @contextmanager
    def listen(self) -> Iterator[None]:
        """Handle SIGINT and SIGTERM for the rest of the process."""
        # Not by the loop: its handlers do not run while an agent blocks it.
        for each in (signal.SIGINT, signal.SIGTERM):
            signal.signal(each, self._came)
        yield

    def _came(self, _signal: int, _frame: FrameType | None) -> None:
        self._asked += 1
        self.watch(self._grace + 2 * _SLACK if self._asked == 1 else _AT_ONCE)
        self._loop.call_soon_threadsafe(self._end_scope)

    def _end_scope(self) -> None:
        if self._scope is not None and not self._scope.expired():
            self._scope.reschedule(self._loop.time())

    def until_asked(self) -> asyncio.Timeout:
        """Return a block that a signal ends with TimeoutError."""
        self._scope = asyncio.timeout(0 if self._asked else None)
        return self._scope

    def bounded(self) -> asyncio.Timeout:
        """Return a block that a signal, or the end of the grace period, ends with TimeoutError."""
        if self._asked < 2:
            self.watch(self._grace + 2 * _SLACK)
        self._scope = asyncio.timeout(self._grace + _SLACK if self._asked < 2 else 0)
        return self._scope

    def watch(self, seconds: float) -> None:
        """End the process after ``seconds``, if it has not ended by then."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        self._watchdog = threading.Timer(seconds, _end_by_force)
        self._watchdog.daemon = True
        self._watchdog.start()


def _end_by_force() -> None:
    os.write(2, _LAST_WORDS)
    os._exit(Exit.FAILED)
