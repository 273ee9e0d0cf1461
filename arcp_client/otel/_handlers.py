"""Measures the calls of handlers."""

from __future__ import annotations

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from opentelemetry.metrics import Histogram
from opentelemetry.util.types import AttributeValue

from arcp_client.otel import _names as names

__all__ = ["timed"]

_INTERVAL = 0.01
"""Seconds between two measurements of a handler."""


def timed(
    handler: Callable[[Any], Any], histogram: Histogram, attributes: dict[str, AttributeValue]
) -> Callable[[], Callable[[Any], Any]]:
    """Measure the first call of a handler after its task has yielded to the event loop.

    A measurement costs more than most events, and even a wrapper that measures nothing costs 10 %
    of an event. So at most one call in `_INTERVAL` is measured, and the wrapper is in place only
    until the handler's task yields again, which it does after 1 ms.

    Returns:
        A function that returns what to call until the task yields again.
    """
    clock = time.perf_counter
    due = 0.0

    def pick() -> Callable[[Any], Any]:
        nonlocal due
        now = clock()
        if now < due:
            return handler
        due = now + _INTERVAL
        return measuring()

    def measuring() -> Callable[[Any], Any]:
        measured = False

        def call(item: Any) -> Any:
            nonlocal measured
            if measured:
                return handler(item)
            measured = True
            started = clock()
            try:
                result = handler(item)
            except BaseException as error:
                record(started, error)
                raise
            if inspect.isawaitable(result):
                return finished(result, started)
            record(started, None)
            return result

        return call

    async def finished(result: Awaitable[Any], started: float) -> Any:
        try:
            value = await result
        except BaseException as error:
            record(started, error)
            raise
        record(started, None)
        return value

    def record(started: float, error: BaseException | None) -> None:
        seconds = clock() - started
        if error is None:
            histogram.record(seconds, attributes)
        else:
            histogram.record(seconds, {**attributes, names.ERROR_TYPE: type(error).__name__})

    return pick
