"""Calls functions when a signal tells the process to end, before the server has acted on it.

A web server that is told to end waits for open responses, and tells the application only
afterwards. A stream that lasts as long as a job has to learn of it earlier. The handlers of the
server stay in place: this module calls them.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any

__all__ = ["ShutdownWatch"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

_previous: dict[int, Callable[[int, FrameType | None], Any]] = {}
_watches: dict[ShutdownWatch, asyncio.AbstractEventLoop] = {}


class ShutdownWatch:
    """Calls a function in the event loop at each SIGINT and SIGTERM, while it is entered.

    It works in the main thread, where Python allows signal handlers, and beside a handler that a
    server or an event loop has installed; without such a handler the signal ends the process at
    once. Elsewhere it does nothing.

    Args:
        call: the function; without arguments.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._entered = 0

    def enter(self) -> None:
        """Begin to watch. Counted: `leave` ends the watch when it was called as often."""
        self._entered += 1
        _watches[self] = asyncio.get_running_loop()
        _install()

    def leave(self) -> None:
        """End the watch; the signal handlers of before are restored after the last one."""
        self._entered -= 1
        if not self._entered:
            _watches.pop(self, None)
            if not _watches:
                _restore()

    def told(self) -> None:
        """Call the function. The signal handler calls this, in the event loop."""
        if self._entered:
            self._call()


def _install() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and handler is not _received:
            _previous[number] = handler
            signal.signal(number, _received)


def _restore() -> None:
    if threading.current_thread() is not threading.main_thread():
        return
    for number, handler in tuple(_previous.items()):
        if signal.getsignal(number) is _received:  # otherwise another one was installed since
            signal.signal(number, handler)
    _previous.clear()


def _received(number: int, frame: FrameType | None) -> None:
    for watch, loop in tuple(_watches.items()):
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(watch.told)
    handler = _previous.get(number)
    if handler is not None:
        handler(number, frame)
