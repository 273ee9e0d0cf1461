"""Tells a source when its item is processed.

An operator with async handlers queues an item, and ``on_next`` returns before the handler has run.
So a source does not learn from the return of ``on_next`` when the item is processed. It therefore
publishes the item (`publish`) with a token, a `Delivery`. An operator that queues the item holds
the token, and releases it when the item is processed. Synchronous operators in between (map,
filter) need no change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

import msgspec

__all__ = ["Current", "Delivery", "Held", "HolderCount", "current_here", "emit", "publish"]

T = TypeVar("T")


class Delivery(Protocol):
    """The token of one item in transit: counts the operators that hold the item."""

    def hold(self) -> Delivery:
        """Add a holder, which must release the returned delivery on the event loop's thread."""

    def release(self, processed: bool = True) -> None:
        """Remove a holder; ``processed=False`` means that it dropped the item."""


class HolderCount:
    """A delivery that calls a function when its last holder has released it.

    Args:
        done: called once: with True if every holder processed the item, with False if one dropped
            it because its subscription was disposed.
    """

    __slots__ = ("_done", "_holders", "_processed")

    def __init__(self, done: Callable[[bool], None]) -> None:
        self._done = done
        self._holders = 0
        self._processed = True

    def hold(self) -> Delivery:
        self._holders += 1
        return self

    def release(self, processed: bool = True) -> None:
        if not processed:
            self._processed = False
        self._holders -= 1
        if not self._holders:
            self._done(self._processed)


class Held(msgspec.Struct, eq=False):
    """An item in a queue, together with the delivery that it holds."""

    item: Any
    token: Delivery


class Current:
    """The delivery that is being published on one thread, if any."""

    __slots__ = ("token",)

    def __init__(self) -> None:
        self.token: Delivery | None = None


class _PerThread(threading.local):
    # Not a ContextVar: a task started inside on_next would inherit the token and outlive it.
    def __init__(self) -> None:
        self.current = Current()


_per_thread = _PerThread()


def current_here() -> Current:
    """The `Current` of this thread. Keep a reference: the lookup costs more than its use."""
    return _per_thread.current


def emit(here: Current, token: Delivery | None, on_next: Callable[[T], None], item: T) -> None:
    """Call ``on_next(item)`` while ``token`` is the current delivery of this thread."""
    outer, here.token = here.token, token
    try:
        on_next(item)
    finally:
        here.token = outer


def publish(token: Delivery, on_next: Callable[[T], None], item: T) -> None:
    """Deliver one item with a token of its own.

    If no operator holds the token, it calls ``done`` before this function returns, else when the
    last holder releases it. An exception of ``on_next`` is raised after that release.
    """
    token.hold()
    try:
        emit(current_here(), token, on_next, item)
    finally:
        token.release()
