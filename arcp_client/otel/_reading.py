"""Reads the counts of clients and runtimes when metrics are exported.

Exporters call from their own threads, but the counts belong to an event loop, so they are read in
the loop's thread. While a loop is blocked, the last counts are exported again.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from opentelemetry.metrics import CallbackOptions, Meter, Observation
from opentelemetry.util.types import AttributeValue

from arcp_client.otel._names import METRICS, MetricName

__all__ = ["Attributes", "FigureSource", "Figures"]

F = TypeVar("F")
Attributes = Mapping[str, AttributeValue]

_PATIENCE = 0.5
"""Seconds that an export waits for a blocked event loop."""


class FigureSource(Generic[F]):
    """The counts of one client or runtime, readable in every thread.

    Args:
        read: reads the counts, in the event loop's thread.
        attributes: the attributes of its metrics.
    """

    def __init__(self, read: Callable[[], F], attributes: Attributes) -> None:
        self.attributes = attributes
        self._read = read
        self._last = read()
        self._loop = asyncio.get_running_loop()
        self._blocked_until = 0.0

    def read(self) -> F:
        """Return the present counts, or the last ones if the event loop is blocked."""
        loop = self._loop
        if loop.is_closed():
            return self._last
        if _is_here(loop) or not loop.is_running():
            self._last = self._read()
        elif time.monotonic() >= self._blocked_until:
            self._ask(loop)
        return self._last

    def _ask(self, loop: asyncio.AbstractEventLoop) -> None:
        answer: concurrent.futures.Future[F] = concurrent.futures.Future()

        def fill() -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_result(self._read())

        try:
            loop.call_soon_threadsafe(fill)
            self._last = answer.result(_PATIENCE)
        except RuntimeError:  # the loop was closed meanwhile
            pass
        except TimeoutError:
            answer.cancel()
            self._blocked_until = time.monotonic() + _PATIENCE


def _is_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


class Figures(Generic[F]):
    """The counts of all clients, or of all runtimes, as instruments that are read at export.

    Counts of sources with the same attributes are added; of ages, the largest counts. Counters
    include the sources that have ended.

    Args:
        meter: makes the instruments.
        fields: the field of the counts, or fields by the value of an attribute, of each metric.
    """

    def __init__(self, meter: Meter, fields: Mapping[str, str | tuple[str, Mapping[str, str]]]):
        self._sources: WeakSet[FigureSource[F]] = WeakSet()
        self._ended: dict[tuple[tuple[str, Any], ...], dict[str, float]] = {}
        self._lock = threading.Lock()
        for metric in METRICS:
            if metric.name in fields:
                self._make(meter, metric, fields[metric.name])

    def add(self, source: FigureSource[F]) -> None:
        """Include the counts of a source, while it exists."""
        with self._lock:
            self._sources.add(source)

    def end(self, source: FigureSource[F]) -> None:
        """Keep the final counters of a source, and forget the source."""
        final = source.read()
        with self._lock:
            self._sources.discard(source)
            kept = self._ended.setdefault(_key(source.attributes), {})
            for field in final.__struct_fields__:  # type: ignore[attr-defined]
                kept[field] = kept.get(field, 0) + getattr(final, field)

    def _make(
        self, meter: Meter, metric: MetricName, fields: str | tuple[str, Mapping[str, str]]
    ) -> None:
        attribute, values = ("", {"": fields}) if isinstance(fields, str) else fields

        def observe(_: CallbackOptions) -> Iterable[Observation]:
            for value, field in values.items():
                for attributes, number in self._totals(metric, field):
                    yield Observation(
                        number, {**attributes, attribute: value} if value else attributes
                    )

        create: Callable[..., Any] = (
            meter.create_observable_counter
            if metric.kind == "counter"
            else meter.create_observable_gauge
        )
        create(metric.name, [observe], metric.unit, metric.description)

    def _totals(self, metric: MetricName, field: str) -> Iterator[tuple[dict[str, Any], float]]:
        with self._lock:
            sources = list(self._sources)
            ended = {key: kept.get(field, 0) for key, kept in self._ended.items()}
        totals: dict[tuple[tuple[str, Any], ...], float] = (
            ended if metric.kind == "counter" else dict.fromkeys(ended, 0)
        )
        for source in sources:
            key, number = _key(source.attributes), getattr(source.read(), field)
            before = totals.get(key, 0)
            totals[key] = max(before, number) if metric.unit == "s" else before + number
        for key, total in totals.items():
            yield dict(key), total


def _key(attributes: Attributes) -> tuple[tuple[str, Any], ...]:
    return tuple(attributes.items())
