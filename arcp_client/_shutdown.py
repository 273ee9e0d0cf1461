"""Calls functions when a signal tells the process to end, before the server has acted on it.

At such a signal, a web server waits for its open responses, and only then informs the application.
A stream that lasts as long as a job must learn of the shutdown earlier. This module therefore puts
its own signal handlers before those of the server, and then calls the server's handlers.
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
    """Calls a function in the event loop at each SIGINT and SIGTERM between `enter` and `leave`.

    The watch works in the main thread only, where Python allows signal handlers, and only if
    the signal has a handler of a server, of an event loop or of Python; without a handler, the
    signal ends the process at once.

    Args:
        call: the function; without arguments.
    """

    def __init__(self, call: Callable[[], None]) -> None:
        self._call = call
        self._entered = 0

    def enter(self) -> None:
        """Begin to watch. The watch ends when `leave` has been called as often as `enter`."""
        self._entered += 1
        _watches[self] = asyncio.get_running_loop()
        _install()

    def leave(self) -> None:
        """End the watch. The end of the last watch restores the earlier signal handlers."""
        self._entered -= 1
        if not self._entered:
            _watches.pop(self, None)
            if not _watches:
                _restore()

    def notify(self) -> None:
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
            loop.call_soon_threadsafe(watch.notify)
    handler = _previous.get(number)
    if handler is not None:
        handler(number, frame)
