"""Lists the jobs of a runtime, once or until a signal."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from arcp_client import Client, JobSummary, LinkState, Reconnecting
from arcp_client.cli.connection import Place, connected
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts, execute
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal
from arcp_client.cli.view.render import count, duration, local
from arcp_client.errors import RequestTimeout

__all__ = ["jobs", "list_jobs"]

_SCHEMA = "arcp-client.jobs/1"
_COLOURS = {"running": "cyan", "success": "green", "pending": "dim"}
_OPEN = ("running", "pending")
_MOST = 100_000
_FRAME = 4
"""Lines of a table in addition to its rows."""


def jobs(where: Place, *, status: list[str], agent: str | None, watch: bool, every: float) -> Exit:
    """List jobs, once or until interrupted."""
    if watch and where.output is Output.JSON:
        raise CommandError(
            Exit.USAGE,
            "--watch cannot write a single JSON document",
            "use --output jsonl",
        )

    async def find(client: Client) -> list[JobSummary]:
        return await list_jobs(client, status=status, agent=agent)

    async def once(interrupts: Interrupts) -> Exit:
        async with connected(where, interrupts) as client:
            found = await find(client)
        _list(where.output, found)
        return Exit.SUCCESS

    async def again(interrupts: Interrupts) -> Exit:
        screen = _screen(where.output)
        async with connected(where, interrupts, tell=screen.link) as client:
            try:
                async with interrupts.stop():
                    while True:
                        try:
                            screen.show(await find(client))
                        except RequestTimeout:  # the link is down; the client reconnects
                            continue
                        await asyncio.sleep(every)
            finally:
                screen.close()
        return Exit.SUCCESS

    return execute(again) if watch else execute(once, at_once=True)


async def list_jobs(client: Client, **wanted: Any) -> list[JobSummary]:
    """Return all jobs of a listing.

    Raises:
        CommandError: the listing has too many jobs.
    """
    found: list[JobSummary] = []
    async for job in client.jobs(**wanted):
        if len(found) >= _MOST:
            raise CommandError(
                Exit.FAILED,
                f"the runtime lists more than {_MOST:,} jobs",
                "--status and --agent list fewer",
            )
        found.append(job)
    return found


def _list(output: Output, found: list[JobSummary]) -> None:
    console = terminal.out()
    match output:
        case Output.JSON:
            rows = [_row(job) for job in found]
            print(terminal.as_json({"schema": _SCHEMA, "jobs": rows}))
        case Output.JSONL:
            for job in found:
                _print_job(output, job)
        case Output.TEXT if not console.is_terminal:
            for job in found:
                _print_job(output, job)
        case Output.TEXT if not found:
            terminal.tell(terminal.err(), "no matching jobs", "dim")
        case Output.TEXT:
            console.print(_table(found))


def _row(job: JobSummary) -> dict[str, Any]:
    return {
        "job_id": job.job_id,
        "agent": job.agent,
        "status": job.status,
        "parent_job_id": job.parent_job_id,
        "created_at": job.created_at.isoformat() if job.created_at is not None else None,
        "last_event_seq": job.last_event_seq,
    }


def _print_job(output: Output, job: JobSummary) -> None:
    """Print one job on a line: JSON, or tab-separated columns for cut and awk."""
    if output is Output.JSONL:
        print(terminal.as_json({"schema": _SCHEMA, **_row(job)}), flush=True)
        return
    created = job.created_at.isoformat() if job.created_at is not None else ""
    cells = (job.job_id, job.status, job.agent, created)
    print("\t".join(terminal.harmless(cell) for cell in cells), flush=True)


def _table(found: Sequence[JobSummary], now: datetime | None = None) -> Table:
    """Build a table. With ``now`` it shows ages and not times."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("job", no_wrap=True)
    table.add_column("status", no_wrap=True)
    table.add_column("agent", no_wrap=True)
    table.add_column("created" if now is None else "age", no_wrap=True)
    for job in found:
        at = job.created_at
        when = ""
        if at is not None:
            age = duration((now - at).total_seconds()) if now is not None else ""
            when = age or local(at, "%m-%d %H:%M:%S")
        table.add_row(
            Text(terminal.harmless(job.job_id)),
            Text(terminal.harmless(job.status), style=_COLOURS.get(job.status, "red")),
            Text(terminal.harmless(job.agent)),
            Text(when),
        )
    return table


# ------------------------------------------------------------------------- again and again


class _Screen(Protocol):
    """Shows lists, one after another."""

    def link(self, state: LinkState) -> None:
        """Show a change of the connection."""

    def show(self, found: list[JobSummary]) -> None:
        """Show the present list."""

    def close(self) -> None:
        """End the display. Idempotent."""


def _screen(output: Output) -> _Screen:
    console = terminal.err()
    live = console.is_terminal and terminal.out().is_terminal and not console.is_dumb_terminal
    return _Live(console) if live and output is Output.TEXT else _Changes(output)


class _Changes:
    """Prints a line for each job that is new or changed its status."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._known: dict[str, str] = {}

    def link(self, state: LinkState) -> None:
        pass

    def show(self, found: list[JobSummary]) -> None:
        for job in found:
            if self._known.get(job.job_id) != job.status:
                _print_job(self._output, job)
        self._known = {job.job_id: job.status for job in found}

    def close(self) -> None:
        pass


class _Live:
    """Updates one table in place: running jobs first, then the newest, as many as fit."""

    def __init__(self, console: Console) -> None:
        self._found: list[JobSummary] = []
        self._link = ""
        self._live = Live(
            self, console=console, auto_refresh=False, redirect_stdout=False,
            vertical_overflow="crop",
        )  # fmt: skip

    def link(self, state: LinkState) -> None:
        self._link = "reconnecting" if isinstance(state, Reconnecting) else ""
        if self._live.is_started:
            self._live.refresh()

    def show(self, found: list[JobSummary]) -> None:
        self._found = sorted(found, key=_urgency)
        if not self._live.is_started:
            self._live.start()
            self._live.console.show_cursor()
        self._live.refresh()

    def close(self) -> None:
        self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room = max(console.size.height - _FRAME - 1, 1)
        shown = self._found[:room]
        yield _table(shown, datetime.now(UTC))
        running = sum(job.status in _OPEN for job in self._found)
        facts = [f"{count(len(self._found), 'job')}, {running:,} open"]
        if len(shown) < len(self._found):
            facts.append(f"{len(self._found) - len(shown):,} not shown")
        facts.append(self._link or "Ctrl-C ends it")
        yield Text(" · ".join(facts), style="yellow" if self._link else "dim", no_wrap=True)


def _urgency(job: JobSummary) -> tuple[bool, float]:
    created = job.created_at.timestamp() if job.created_at is not None else 0.0
    return job.status not in _OPEN, -created
