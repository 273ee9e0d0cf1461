"""The commands that ask and go: ``status``, ``cancel``, ``result``, ``ping``."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from arcp_client import Client, JobHandle
from arcp_client.cli.actions import saved_runs
from arcp_client.cli.actions.follow import save_result
from arcp_client.cli.actions.job_facts import Standing, standing
from arcp_client.cli.connection import Interrupts, Place, connected, execute
from arcp_client.cli.exit_codes import Complaint, Exit
from arcp_client.cli.options import Output
from arcp_client.cli.view import terminal
from arcp_client.cli.view.render import count, duration, iso, moment, number
from arcp_client.cli.view.report import SCHEMA, plain, write_result
from arcp_client.errors import FeatureNotNegotiated, PermissionDenied
from arcp_client.projection import ENDED, Bar

__all__ = ["cancel", "ping", "result", "status"]


def status(where: Place, job_id: str) -> Exit:
    """Say how one job stands."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            found = await standing(client, job_id)
        _say_status(where, found)
        return Exit.SUCCESS

    return execute(body, at_once=True)


def _say_status(where: Place, found: Standing) -> None:
    view, seen = found.job, found.seen
    expires = view.lease_constraints.expires_at
    created = (found.entry.created_at if found.entry is not None else None) or seen.began_at
    ended = seen.last_at if seen.ended else None
    until = ended or (None if seen.ended else datetime.now(UTC))
    ran = None if created is None or until is None else max((until - created).total_seconds(), 0)
    bars = [{**asdict(bar), "share": bar.share} for bar in seen.progress]
    facts: dict[str, Any] = {
        "job_id": view.id,
        "agent": view.agent,
        "status": seen.status if seen.ended else view.status,
        "phase": seen.phase,
        "message": seen.message,
        "progress": bars,
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
    shown = {**facts, **_told(found, created, ended, ran)}
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


def _told(
    found: Standing, created: datetime | None, ended: datetime | None, ran: float | None
) -> dict[str, str | None]:
    """Times and progress as people read them, in place of what programs read."""
    seen = found.seen
    times = {"created_at": created, "last_event_at": seen.last_at, "ended_at": ended}
    return {
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


def cancel(where: Place, job_id: str, *, reason: str | None) -> Exit:
    """Ask for the end of a job that was submitted from here."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            view = await client.watch(job_id)
            if view.status in ENDED:
                terminal.tell(terminal.err(), f"the job has ended already: {view.status}")
                return Exit.SUCCESS
            run = saved_runs.find(job_id)
            await _cancel(client, job_id, reason, run)
            terminal.tell(terminal.err(), f"the runtime was asked to end job {job_id}")
            if run is not None:
                run.over()
        return Exit.SUCCESS

    return execute(body, at_once=True)


async def _cancel(
    client: Client, job_id: str, reason: str | None, run: saved_runs.Run | None
) -> None:
    try:
        if run is None:
            await client.cancel_job(job_id, reason or "user.cancel")
            return
        # Said again with its key, it is the same job, and this session may cancel it, too.
        job = await client.submit(**run.submit)
        await job.cancel(reason or "user.cancel")  # also if it is a new one: see below
    except PermissionDenied as refused:
        raise Complaint(
            Exit.AUTHENTICATION,
            f"the runtime did not allow it: {refused.message or refused.code}",
            "a job is cancelled from where it was submitted: Ctrl-C twice, or this user's account",
        ) from refused
    if job.id != job_id:
        raise Complaint(
            Exit.NOT_FOUND, f"the runtime knows job {job_id} no longer; nothing was cancelled"
        )


def result(where: Place, job_id: str, *, save: Path | None) -> Exit:
    """Wait for the end of a job, and give its result."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            async with interrupts.stop():
                view = await client.watch(job_id, history=True)
                if save is not None:
                    size = await save_result(view, save)
                    terminal.tell(terminal.err(), f"wrote {count(size, 'byte')} to {save}", "dim")
                else:
                    _say_result(where, view, (await view.result()).value)
                saved_runs.forget(job_id)
                return Exit.SUCCESS
            raise Complaint(
                Exit.INTERRUPTED, "interrupted; the job is left alone", "ask again at any time"
            )

    return execute(body)


def _say_result(where: Place, view: JobHandle, value: Any) -> None:
    if where.output is Output.TEXT:
        write_result(value)
        return
    document = {
        "schema": SCHEMA,
        "type": "outcome",
        "job_id": view.id,
        "agent": view.agent,
        "status": view.status,
        "result": plain(value),
    }
    print(terminal.as_json(document))


def ping(where: Place) -> Exit:
    """Connect, and measure one round trip."""

    async def body(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            try:
                seconds: float | None = await client.ping()
            except FeatureNotNegotiated:
                seconds = None
            _say_ping(where, client, seconds)
        return Exit.SUCCESS

    return execute(body, at_once=True)


def _say_ping(where: Place, client: Client, seconds: float | None) -> None:
    session = client.session
    agents = [
        {"name": agent.name, "versions": list(agent.versions), "default": agent.default}
        for agent in session.agents
    ]
    if where.output is not Output.TEXT:
        facts: dict[str, Any] = {
            "schema": "arcp-client.ping/1",
            "runtime": {"name": session.runtime.name, "version": session.runtime.version},
            "dialect": session.dialect,
            "round_trip_ms": round(seconds * 1000, 3) if seconds is not None else None,
            "features": sorted(session.features),
            "agents": agents,
        }
        print(terminal.as_json(facts))
        return
    trip = f"{seconds * 1000:.1f} ms" if seconds is not None else "connected (it has no heartbeat)"
    print(terminal.harmless(f"{session.runtime.name} {session.runtime.version}: {trip}"))
    for agent in session.agents:
        print(terminal.harmless(f"  {agent.name}  {', '.join(agent.versions)}".rstrip()))
