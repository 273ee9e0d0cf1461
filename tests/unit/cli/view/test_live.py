"""The live view on a terminal: in order, all of it, and few writes however many events come."""

from __future__ import annotations

import asyncio
import io
import re
from datetime import UTC, datetime

import pytest
from rich.console import Console

from arcp_client import Connecting, Live, Reconnecting, Result, events
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.live import LiveText
from arcp_client.projection import JobProjection

JOB = "job_1"


class Written(io.StringIO):
    """What was written, and how often."""

    times = 0

    def write(self, text: str) -> int:
        self.times += 1
        return super().write(text)

    @property
    def plain(self) -> str:
        """Without control sequences."""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.getvalue())


def begun() -> tuple[LiveText, Written]:
    written = Written()
    console = Console(file=written, force_terminal=True, width=80, height=24, _environ={})
    report = LiveText(console)
    report.began(JobTree(JobProjection(JOB, agent="a")))
    return report, written


def log(n: int) -> events.Log:
    return events.Log(job_id=JOB, message=f"line {n:05}", ts=datetime(2026, 5, 13, tzinfo=UTC))


def test_a_thousand_events_at_once_are_a_few_writes_and_all_there() -> None:
    report, written = begun()
    before = written.times
    for n in range(1000):
        report.event(log(n))
    report.close()
    assert re.findall(r"line (\d+)", written.plain) == [f"{n:05}" for n in range(1000)]
    assert written.times - before < 20


async def test_a_line_is_there_a_moment_later() -> None:
    report, written = begun()
    refreshing = asyncio.get_running_loop().create_task(report.refresh())
    report.event(log(7))
    assert "line 00007" not in written.plain
    while "line 00007" not in written.plain:
        await asyncio.sleep(0.01)
    report.close()
    await refreshing


def test_what_is_to_be_kept_is_shown_at_once() -> None:
    report, written = begun()
    report.event(log(1))
    report.flush()
    assert "line 00001" in written.plain
    report.close()


def test_what_the_view_says_needs_no_line() -> None:
    report, written = begun()
    report.event(events.Progress(job_id=JOB, current=1, total=2, units="files"))
    report.event(events.ResultChunk(job_id=JOB, data="the text"))
    report.event(events.Metric(job_id=JOB, name="cost.budget.remaining", value=3, unit="USD"))
    report.event(events.Metric(job_id=JOB, name="cost.model", value=2, unit="USD"))
    report.flush()
    shown = written.plain
    assert "1/2 files" in shown
    assert "the text" in shown
    assert "1.00 left" in shown
    assert "cost.model = 2 USD" in shown
    assert "chunk" not in shown
    assert "remaining" not in shown
    report.close()


def test_the_link_is_a_line_and_a_mark() -> None:
    report, written = begun()
    report.link(Reconnecting(2, 7.5, ConnectionError("gone")))
    report.flush()
    assert "link lost, reconnecting in 7.5 s, attempt 2: gone" in written.plain
    assert "○ a" in written.plain
    assert "reconnecting in 7 s, attempt 2" in written.plain
    report.link(Connecting(1))
    report.link(Live(True))
    report.close()
    assert written.plain.rstrip().splitlines()[-1].startswith("● a")


@pytest.mark.parametrize("good", [True, False])
def test_at_the_end_there_is_one_line_about_all_of_it(
    good: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    report, written = begun()
    report.event(log(1))
    if good:
        report.event(events.Completed(job_id=JOB))
        report.succeeded(Result(value="the result"), None)
        assert capsys.readouterr().out == "the result\n"
    else:
        report.event(events.Failed(job_id=JOB, code="E"))
        report.failed(CommandError(Exit.FAILED, "it failed"), None)
    report.close()
    assert written.plain.rstrip().endswith("2 events in 0 s")
    assert written.getvalue().count("\x1b[?25h") == 2, "the cursor was never left hidden"


def test_a_clock_at_the_end_of_the_calendar_stands_still() -> None:
    report, written = begun()
    report.event(events.Log(job_id=JOB, message="last", ts=datetime.max.replace(tzinfo=UTC)))
    report.event(events.Progress(job_id=JOB, current=1, total=2))
    report.close()
    assert "last" in written.plain


def test_times_without_a_zone_are_in_utc() -> None:
    """A transcript may have such; an event from the wire never has."""
    report, written = begun()
    for n, ts in enumerate((datetime(2026, 5, 13), datetime(2026, 5, 13, tzinfo=UTC)) * 2):  # noqa: DTZ001
        report.event(events.ToolCall(job_id=JOB, tool="t", call_id=str(n // 2), ts=ts))
        report.flush()
        report.event(events.ToolResult(job_id=JOB, call_id=str(1 - n // 2), result=1, ts=ts))
        report.flush()
    report.close()
    assert "← " in written.plain
