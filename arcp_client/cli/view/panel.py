"""Lays out the lines of a job's live view, without I/O."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from rich.text import Text

from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.render import bar, count, duration, number
from arcp_client.cli.view.terminal import harmless
from arcp_client.projection import Bar, Call, JobProjection, Meter, verdict_of

__all__ = ["Frame", "panel", "summary"]

_NAME = 14
_FEW, _MANY = 8, 18
_LOW, _LEAST = 0.25, 0.1


@dataclass(frozen=True, slots=True)
class Frame:
    """The dimensions and times for drawing a view.

    Attributes:
        width: width of a line, in cells.
        height: lines of the terminal; the view uses a third of them, but at least a few.
        elapsed: running time of the job, in seconds.
        now: the time by the runtime's clock, as far as known.
        link: the state of the connection; empty if it is live.
    """

    width: int
    height: int
    elapsed: float
    now: datetime
    link: str = ""

    @property
    def rows(self) -> int:
        """Maximum number of lines of the view."""
        return min(max(self.height // 3, 4), _MANY, max(self.height - 2, 1))

    @property
    def cells(self) -> int:
        """Width of a bar, in cells."""
        return min(max((self.width - _NAME) // 3, 6), 40)


def panel(tree: JobTree, frame: Frame) -> list[Text]:
    """Return the lines of the view: the job first, then by decreasing importance."""
    room = frame.rows - 1
    gauges = _gauges(tree.root, frame)[: min(3, room)]
    lines = [_head(tree, frame)]
    few = room <= _FEW
    for rows, most in (
        (_bars(tree, frame)[: room - len(gauges)], 3 if few else 8),
        (gauges, 3),
        (_calls(tree, frame), 2 if few else 6),
        (_result(tree, frame), 1 if few else 4),
    ):
        lines += rows[: min(most, frame.rows - len(lines))]
    for line in lines:
        line.truncate(frame.width, overflow="ellipsis")
        line.no_wrap = True
    return lines


def summary(tree: JobTree, elapsed: float) -> Text:
    """Summarise a finished job in one line."""
    root = tree.root
    facts = [f"{count(root.events, 'event')} in {duration(elapsed)}"]
    if tree.children:
        facts.append(count(len(tree.children), "delegated job"))
    for meter in root.meters:
        of = f" of {_money(meter.granted)}" if meter.granted is not None else ""
        facts.append(f"{_money(meter.spent)}{of} {harmless(meter.currency)} spent")
    return Text(" · ".join(facts), style="dim")


def _row(name: str, style: str = "") -> Text:
    text = Text().append(harmless(name), style=style)
    text.truncate(_NAME, overflow="ellipsis", pad=True)
    return Text("  ").append_text(text).append(" ")


def _head(tree: JobTree, frame: Frame) -> Text:
    job = tree.root
    style, chip = ("bold yellow", "○") if frame.link else ("bold green", "●")
    line = Text().append(f"{chip} ", style=style).append(harmless(job.agent or "?"), style="bold")
    line.append(f"  {harmless(job.job_id)}", style="dim")
    right = f"  {frame.link}  " if frame.link else "  "
    right += duration(frame.elapsed)
    phase = job.phase or job.status
    if job.phase and job.message:
        phase = f"{phase}: {job.message}"
    line.append(f"  {harmless(phase)}")
    verdict = verdict_of(job, frame.now)
    quiet = verdict.kind == "silent" and all(child.ended for child in tree.children)
    if quiet or verdict.kind == "waiting_for_you":
        line.append(f"  {harmless(verdict.words(frame.now))}", style="bold yellow")
    if job.gaps:
        line.append(f"  ! {count(len(job.gaps), 'gap')}", style="bold yellow")
    line.truncate(max(frame.width - len(right), 1), overflow="ellipsis", pad=True)
    return line.append(right, style="yellow" if frame.link else "dim")


def _bars(tree: JobTree, frame: Frame) -> list[Text]:
    rows = [_bar(each.units or "progress", each, frame) for each in tree.root.progress]
    for child in tree.children:
        name = f"└ {child.agent.partition('@')[0] or child.job_id}"
        if child.ended:
            good = child.status == "success"
            word = "✓ done" if good else f"✗ {child.status}"
            rows.append(_row(name).append(word, style="green" if good else "red"))
        elif child.progress:
            rows.append(_bar(name, child.progress[-1], frame))
        else:
            rows.append(_row(name).append(harmless(child.phase or child.status), style="dim"))
    return rows


def _bar(name: str, each: Bar, frame: Frame) -> Text:
    row = _row(name)
    units = f" {each.units}" if each.units else ""
    if each.share is None or each.total is None:
        row.append(f"{number(each.current)}{harmless(units)}", style="green")
    else:
        row.append_text(bar(each.share, frame.cells))
        row.append(f" {number(each.current)}/{number(each.total)}{harmless(units)}")
    return row.append(f"  {harmless(each.message)}" if each.message else "", style="dim")


def _gauges(job: JobProjection, frame: Frame) -> list[Text]:
    rows = [_meter(meter, frame) for meter in job.meters_at(frame.now)]
    if job.expires_at is not None and not job.ended:
        rows.append(_expiry(job, job.expires_at, frame))
    return rows


def _meter(meter: Meter, frame: Frame) -> Text:
    row = _row(meter.currency)
    facts = [f"{_money(meter.spent)} spent"]
    if meter.left is not None:
        facts = [f"{_money(meter.left)} left"]
    if meter.granted and meter.left is not None:
        share = min(max(float(meter.left / meter.granted), 0.0), 1.0)
        row.append_text(bar(share, frame.cells, _warning(share))).append(" ")
        facts = [f"{_money(meter.left)} of {_money(meter.granted)} left"]
    if meter.rate > 0:
        facts.append(f"{_rate(meter.rate)}/min")
    if meter.seconds_left is not None:
        lasts = f"{duration(meter.seconds_left)} left" if meter.seconds_left else "spent"
        facts.append(lasts)
    return row.append(" · ".join(facts))


def _expiry(job: JobProjection, expires: datetime, frame: Frame) -> Text:
    row = _row("lease")
    left = (expires - frame.now).total_seconds()
    if left <= 0:
        return row.append("expired", style="bold red")
    began = job.began_at or frame.now
    whole = (expires - began).total_seconds()
    share = min(max(left / whole, 0.0), 1.0) if whole > 0 else 1.0
    row.append_text(bar(share, frame.cells, _warning(share)))
    return row.append(f" {duration(left)} left")


def _warning(share: float) -> str:
    return "green" if share > _LOW else "yellow" if share > _LEAST else "bold red"


def _calls(tree: JobTree, frame: Frame) -> list[Text]:
    running = [(call, job) for job in tree for call in job.running]
    done = [call for call in tree.root.calls if not call.running]
    rows = [_running(call, job, tree, frame) for call, job in running]
    return rows + [_finished(call) for call in reversed(done)]


def _running(call: Call, job: JobProjection, tree: JobTree, frame: Frame) -> Text:
    row = _row(f"→ {call.tool}", "cyan")
    since = duration((frame.now - call.began).total_seconds()) if call.began is not None else ""
    row.append(f"{since:>5}  ", style="cyan").append(harmless(call.args))
    return row if job is tree.root else row.append(f"  ({harmless(job.agent)})", style="dim")


def _finished(call: Call) -> Text:
    mark, style = ("✗", "red") if call.failed else ("✓", "dim")
    row = _row(f"{mark} {call.tool}", style)
    took = ""
    if call.began is not None and call.ended is not None:
        took = f"{max((call.ended - call.began).total_seconds(), 0):.1f} s"
    row.append(f"{took:>5}  {harmless(call.args)}", style="dim")
    return row.append(f" → {harmless(call.outcome or 'nothing')}", style=style)


def _result(tree: JobTree, frame: Frame) -> list[Text]:
    root = tree.root
    if not root.chunks:
        return []
    size = count(root.streamed, "byte")
    lines = [line for line in tree.tail.splitlines() if line.strip()]
    if not lines:
        return [_row("result").append(size)]
    most = 1 if frame.rows - 1 <= _FEW else 4
    first, *more = lines[-most:]
    rows = [_row("result").append(f"{size}  ").append(_end(first, frame), style="green")]
    return rows + [_row("").append(_end(line, frame), style="green") for line in more]


def _end(line: str, frame: Frame) -> str:
    """Return the end of a line."""
    room = max(frame.width - _NAME - 20, 10)
    return harmless(line if len(line) <= room else f"…{line[-room:]}")


def _money(amount: Decimal | None) -> str:
    """Format an amount with two decimals, or more if needed."""
    if amount is None:
        return ""
    whole, _, cents = f"{amount:,f}".partition(".")
    return f"{whole}.{cents.rstrip('0').ljust(2, '0')[:6]}"


def _rate(a_second: float) -> str:
    a_minute = a_second * 60
    return f"{a_minute:,.2f}" if a_minute >= 0.1 else f"{a_minute:.2g}"
