"""Shows the status of one job: progress, times, lease, budget."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from arcp_client.cli.actions.job_facts import JobFacts, job_facts
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal
from arcp_client.cli.view.json_report import SCHEMA
from arcp_client.cli.view.render import duration, iso, moment, number
from arcp_client.projection import Bar

__all__ = ["status"]


def status(where: Place, job_id: str) -> Exit:
    """Print the status of one job."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            found = await job_facts(client, job_id)
        _say_status(where, found)
        return Exit.SUCCESS

    return execute(body, at_once=True)


def _say_status(where: Place, found: JobFacts) -> None:
    view, seen = found.job, found.seen
    expires = view.lease_constraints.expires_at
    created = (found.entry.created_at if found.entry is not None else None) or seen.began_at
    ended = seen.last_at if seen.ended else None
    until = ended or (None if seen.ended else datetime.now(UTC))
    ran = None if created is None or until is None else max((until - created).total_seconds(), 0)
    facts: dict[str, Any] = {
        "job_id": view.id,
        "agent": view.agent,
        "status": seen.status if seen.ended else view.status,
        "verdict": {
            "kind": found.verdict.kind,
            "text": found.verdict.text,
            "since": iso(found.verdict.since),
        },
        "phase": seen.phase,
        "message": seen.message,
        "progress": found.bars(),
        "created_at": iso(created),
        "last_event_at": iso(seen.last_at),
        "ended_at": iso(ended),
        "seconds": None if ran is None else round(ran, 3),
        "error": None if seen.error is None else asdict(seen.error),
        "lease": {name: list(view.lease[name]) for name in view.lease.namespaces()},
        "expires_at": expires.isoformat() if expires is not None else None,
        "budget": {currency: str(amount) for currency, amount in view.budget.items()},
        "trace_id": view.trace_id,
    }
    if where.output is not Output.TEXT:
        print(terminal.as_json({"schema": SCHEMA, "type": "status", **facts}))
        return
    shown = {**facts, **_readable(found, created, ended, ran)}
    for name, value in shown.items():
        if value:
            text = value if isinstance(value, str) else terminal.as_json(value)
            print(terminal.harmless(f"{_NAMES.get(name, name):<10} {text}"))


_NAMES = {
    "created_at": "began",
    "last_event_at": "last event",
    "ended_at": "ended",
    "expires_at": "expires",
    "seconds": "duration",
}


def _readable(
    found: JobFacts, created: datetime | None, ended: datetime | None, ran: float | None
) -> dict[str, str | None]:
    """Return times and progress in readable form."""
    seen = found.seen
    times = {"created_at": created, "last_event_at": seen.last_at, "ended_at": ended}
    return {
        "verdict": found.verdict.words(datetime.now(UTC)) if not seen.ended else None,
        "phase": f"{seen.phase}: {seen.message}" if seen.phase and seen.message else seen.phase,
        "message": None,
        "progress": ", ".join(_bar(bar) for bar in seen.progress),
        **{name: moment(at) if at is not None else None for name, at in times.items()},
        "seconds": None if ran is None else f"{duration(ran)}{'' if seen.ended else ' so far'}",
        "error": f"{seen.error.code}: {seen.error.message}" if seen.error is not None else None,
    }


def _bar(bar: Bar) -> str:
    units = f" {bar.units}" if bar.units else ""
    if bar.total is None or bar.share is None:
        return f"{number(bar.current)}{units}"
    return f"{number(bar.current)}/{number(bar.total)}{units} ({bar.share:.0%})"
