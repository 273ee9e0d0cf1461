"""Runs three jobs over a link that is cut twice, and prints a table of lost and repeated events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from time import monotonic

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text
from tenacity import wait_fixed

from arcp_client import (
    ArcpError,
    Client,
    LinkState,
    Live,
    Reconnect,
    Reconnecting,
    events,
)
from arcp_client.cli.actions.demo_agents import AGENTS, Ledger, demo_runtime
from arcp_client.cli.actions.demo_check import Row, count, faults, mark
from arcp_client.cli.errors import command_error
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.view import render, terminal
from arcp_client.testing import FaultyProxy

__all__ = ["demo", "report"]

CUTS = 2
_LIMIT = 18.0
_PACE = 0.11
_DELAY = (0.002, 0.06)
_FIRST_CUT = (11_000, 15_000)
_NEXT_CUT = (9_000, 13_000)


@dataclass(slots=True)
class Witness:
    """The events that the handler has processed, by job id, and the state of the link."""

    handled: dict[str, list[str]] = field(default_factory=dict)
    holes: int = 0
    running: int = 0
    overlaps: int = 0
    cuts: int = 0
    resumed: int = 0

    @property
    def total(self) -> int:
        """Number of events handled so far."""
        return sum(map(len, self.handled.values()))


class DemoScreen:
    """Prints lines with the time since the start.

    Args:
        console: the output.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._began = monotonic()

    def event(self, agent: str, event: events.Event) -> None:
        """Print an event that was handled."""
        style = _STYLES.get(agent, "default")
        line = Text().append(f"{self.elapsed:6.2f}s ", style="dim")
        line.append(f"{event.seq or 0:>4}  ", style="dim").append(f"{agent:<9}", style=style)
        self._line(line.append_text(render.event_text(event)))

    def note(self, text: str, style: str = "bold yellow") -> None:
        """Print a change of the link."""
        line = Text().append(f"{self.elapsed:6.2f}s ", style="dim")
        self._line(line.append(f"──── {text}", style=style))

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return monotonic() - self._began

    def _line(self, line: Text) -> None:
        if self._console.is_terminal:
            self._console.print(line, no_wrap=True, overflow="ellipsis")
        else:
            self._console.print(line, soft_wrap=True)


_STYLES = dict(zip(AGENTS, ("cyan", "magenta", "green"), strict=True))


def demo(*, seed: int, fast: bool) -> Exit:
    """Run the demo; return 0 if the table has no fault.

    A fault is an event that was lost, repeated or disordered, or a wrong result.
    """
    terminal.log_to_stderr()
    console = terminal.out()
    try:
        rows, witness = asyncio.run(_bounded(console, seed=seed, fast=fast))
    except TimeoutError:
        raise CommandError(Exit.FAILED, f"the demo did not end within {_LIMIT:.0f} s") from None
    except ArcpError as error:
        raise command_error(error) from error
    return report(console, rows, witness)


def report(console: Console, rows: Sequence[Row], witness: Witness) -> Exit:
    """Print the table, and the faults if there are any."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column("job", no_wrap=True)
    for title in ("sent", "handled", "lost", "repeated", "out of order"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("result", no_wrap=True, overflow="ellipsis")
    for row in rows:
        numbers = row.count
        bad = [numbers.lost, numbers.repeated, numbers.disordered]
        table.add_row(
            Text(row.agent, style=_STYLES.get(row.agent, "")),
            *(str(number) for number in (numbers.sent, numbers.handled)),
            *(Text(str(number), style="bold red" if number else "green") for number in bad),
            _verdict(row),
        )
    console.print(table)
    wrong = faults(
        rows,
        cuts=min(witness.cuts, witness.resumed),
        wanted_cuts=CUTS,
        overlaps=witness.overlaps,
    )
    if witness.holes:
        wrong.append(f"{render.count(witness.holes, 'gap')} reported")
    if wrong:
        for each in wrong:
            terminal.tell(console, f"✗ {each}", "bold red")
        return Exit.FAILED
    terminal.tell(
        console,
        f"✓ {witness.cuts} cuts in mid-stream, {witness.resumed} resumes; every event handled"
        " once, in order, one at a time",
        "bold green",
    )
    return Exit.SUCCESS


def _verdict(row: Row) -> Text:
    if row.result != row.expected:
        return Text("✗ wrong", style="bold red")
    if isinstance(row.result, str):
        return Text(f"✓ {len(row.result):,} characters", style="green")
    return Text(f"✓ {terminal.harmless(terminal.as_json(row.result))}", style="green")


async def _bounded(console: Console, *, seed: int, fast: bool) -> tuple[list[Row], Witness]:
    async with asyncio.timeout(_LIMIT):
        return await _play(console, seed=seed, scale=0.25 if fast else 1.0)


async def _play(console: Console, *, seed: int, scale: float) -> tuple[list[Row], Witness]:
    rng = random.Random(seed)
    runtime, ledger = demo_runtime(random.Random(rng.random()), pace=_PACE * scale)
    witness, screen = Witness(), DemoScreen(console)
    delays = random.Random(rng.random())
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(runtime)
        server = await stack.enter_async_context(runtime.serve("127.0.0.1", 0))
        proxy = await stack.enter_async_context(FaultyProxy(server.url))
        # Measured in bytes, so that the cuts hit the stream at any position of a frame.
        proxy.cut_after(rng.randint(*_FIRST_CUT))
        proxy.cut_after(rng.randint(*_NEXT_CUT))
        screen.note(f"runtime on {server.url}, client behind a proxy on port {proxy.port}", "dim")
        client = Client(proxy.url, reconnect=Reconnect(wait=wait_fixed(0.2), reset_after=0))
        _watch_link(client, proxy, ledger, witness, screen)

        @client.on(events.Event)
        async def handle(event: events.Event) -> None:
            witness.overlaps += witness.running
            witness.running += 1
            await asyncio.sleep(delays.uniform(*_DELAY) * scale)
            job = client.job(event.job_id or "")
            screen.event(job.agent if job is not None else "session", event)
            if isinstance(event, events.Gap):
                witness.holes += 1
            else:
                witness.handled.setdefault(event.job_id or "", []).append(mark(event))
            witness.running -= 1

        await stack.enter_async_context(client)
        jobs = [await client.submit(agent, {"seed": seed}) for agent in AGENTS]
        results = [(await job.result()).value for job in jobs]
        await client.drain()
    screen.note("the handler has processed all events", "dim")
    rows = [
        Row(
            agent=job.agent,
            count=count(ledger.sent.get(job.id, []), witness.handled.get(job.id, [])),
            result=result,
            expected=ledger.returned.get(job.id),
        )
        for job, result in zip(jobs, results, strict=True)
    ]
    return rows, witness


def _watch_link(
    client: Client, proxy: FaultyProxy, ledger: Ledger, witness: Witness, screen: DemoScreen
) -> None:
    sent_before = 0

    @client.on_state
    def changed(state: LinkState) -> None:
        nonlocal sent_before
        match state:
            case Reconnecting(1, delay, _):
                # In mid-stream: some events were handled, and the agents have not finished.
                hit = witness.total > 0 and len(ledger.returned) < len(AGENTS)
                witness.cuts += hit
                sent_before = ledger.total
                screen.note(
                    f"cut {proxy.cuts}{' in mid-stream' if hit else ''}: {sent_before} events sent,"
                    f" {witness.total} handled; reconnecting in {delay:.1f} s"
                )
            case Reconnecting(attempt, delay, cause):
                screen.note(f"attempt {attempt} in {delay:.1f} s: {cause}")
            case Live(True):
                witness.resumed += 1
                missed = ledger.total - sent_before
                screen.note(f"resumed; {missed} events were sent in the meantime", "bold green")
            case Live(False):
                screen.note("connected", "bold green")
