"""Answers the HTTP probes of an operator: `/healthz`, `/readyz` and `/metrics`.

The probes need no token; they show counts, but no names. `/metrics` is in the OpenMetrics text
format.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

__all__ = ["Counts", "add_probes", "open_metrics"]

_OPEN_METRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """The present state of a runtime, for probes.

    Attributes:
        ready: whether it accepts sessions and jobs.
        connections: connected clients, with and without a session.
        sessions: sessions that this process holds, with and without a connection.
        pending: jobs that wait to be started.
        running: jobs whose agent runs.
        retained: ended jobs that are kept in memory.
        mirrored: jobs of other replicas whose events are delivered here.
        written: entries that were written to a durable event log: events, numbers, states.
        waiting: bytes that wait to be written to the event log.
        failing: whether the event log cannot be written.
        calls_waiting: calls of webhooks that are not made yet.
        calls_made: calls of webhooks that succeeded.
        calls_dropped: calls of webhooks that are not made: refused, given up, or too many.
    """

    ready: bool
    connections: int
    sessions: int
    pending: int
    running: int
    retained: int
    mirrored: int
    written: int
    waiting: int
    failing: bool
    calls_waiting: int = 0
    calls_made: int = 0
    calls_dropped: int = 0


def add_probes(app: web.Application, counts: Callable[[], Counts]) -> None:
    """Add the routes of the probes to an application."""

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(_: web.Request) -> web.Response:
        ready = counts().ready
        return web.Response(status=200 if ready else 503, text="ready\n" if ready else "no\n")

    async def metrics(_: web.Request) -> web.Response:
        body = open_metrics(counts()).encode()
        return web.Response(body=body, headers={"Content-Type": _OPEN_METRICS})

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/metrics", metrics)


def open_metrics(counts: Counts) -> str:
    """Return the counts in the OpenMetrics text format."""
    lines: list[str] = []

    def family(name: str, kind: str, text: str, *samples: tuple[str, int]) -> None:
        lines.append(f"# TYPE arcp_{name} {kind}")
        lines.append(f"# HELP arcp_{name} {text}")
        lines.extend(f"arcp_{name}{suffix} {value}" for suffix, value in samples)

    family("ready", "gauge", "1 if sessions and jobs are accepted.", ("", int(counts.ready)))
    family("connections", "gauge", "Connected clients.", ("", counts.connections))
    family("sessions", "gauge", "Sessions that this process holds.", ("", counts.sessions))
    family(
        "jobs",
        "gauge",
        "Jobs of this process, by state.",
        ('{state="pending"}', counts.pending),
        ('{state="running"}', counts.running),
        ('{state="ended"}', counts.retained),
        ('{state="mirrored"}', counts.mirrored),
    )
    family("log_entries", "counter", "Entries written to the log.", ("_total", counts.written))
    family("log_waiting_bytes", "gauge", "Bytes that wait to be stored.", ("", counts.waiting))
    family("log_failing", "gauge", "1 if the log cannot be written.", ("", int(counts.failing)))
    family("webhook_waiting", "gauge", "Calls that are not made yet.", ("", counts.calls_waiting))
    family("webhook_calls", "counter", "Calls that succeeded.", ("_total", counts.calls_made))
    family(
        "webhook_dropped",
        "counter",
        "Calls that are not made: refused, given up, or too many.",
        ("_total", counts.calls_dropped),
    )
    return "\n".join([*lines, "# EOF", ""])
