"""Draws many jobs as a table for a terminal of any size. It reads no clock and writes nothing.

`top` shows the table on a full screen, or prints its changes as lines. Words repeat what
colours say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.text import Text

from arcp_client.cli.view import render
from arcp_client.cli.view.terminal import harmless
from arcp_client.projection import ENDED, Reason

__all__ = ["SORTS", "TopTable", "name_of", "reason_of", "sentence"]

Row = Mapping[str, Any]

SORTS = ("time", "look", "progress", "cost", "name")
FILTERS = ("", "look", "running", "ended")
_OVER = ENDED | {"lost"}
_LEVELS = {"alert": 0, "warn": 1, "note": 2}
_MARKS = {
    "running": ("▶", "cyan"),
    "pending": ("…", "dim"),
    "success": ("✓", "green"),
    "error": ("✗", "red"),
    "cancelled": ("■", "dim"),
    "timed_out": ("✗", "red"),
    "lost": ("?", "yellow"),
}
_TONES = {"alert": "bold red", "warn": "yellow", "note": ""}
_ID = 8
_MIDDLE, _WIDE = 110, 160


# ------------------------------------------------------------------------- one job


def name_of(row: Row) -> str:
    """What a job is called: its label, else the end of its id."""
    job_id = str(row["job_id"])
    short = job_id if len(job_id) <= _ID + 4 else f"…{job_id[-_ID:]}"
    label = row.get("label")
    return harmless(f"{label} {short}" if label else short)


def reason_of(row: Row) -> Reason | None:
    """Why the job needs attention, as an object that can say it with its time."""
    told = row.get("reason")
    if not told:
        return None
    return Reason(
        told["code"], told["level"], told["text"], _time(told["since"]), _time(told["until"])
    )


def sentence(row: Row, now: datetime) -> str:
    """A job in one line of plain words, for screen readers and for files."""
    parts = [f"{name_of(row)}, {row['agent']}, {row['status'].replace('_', ' ')}"]
    reason = reason_of(row)
    if reason is not None:
        parts.append(row.get("failure") or reason.words(now))
    progress = _progress(row, now, bars=0)
    if progress:
        parts.append(f"progress {progress}")
    money = _money(row)
    if money:
        parts.append(money)
    if row.get("last") and row["status"] not in _OVER:
        parts.append(f"last event: {row['last']}")
    return harmless("; ".join(parts))


def needs_look(row: Row) -> bool:
    """Whether a person should look at a job: its reason is more than a note."""
    return bool(row.get("reason")) and row["reason"]["level"] != "note"


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _seconds(row: Row, now: datetime) -> float | None:
    began = _time(row["created_at"])
    until = _time(row["ended_at"]) if row["status"] in _OVER else now
    return None if began is None or until is None else (until - began).total_seconds()


def _progress(row: Row, now: datetime, *, bars: int) -> str:
    told = row.get("progress")
    if not told:
        return ""
    done = row.get("done")
    units = f" {told['units']}" if told["units"] else ""
    if done is None:
        return f"{told['current']}{units}"
    text = f"{done:4.0%}"
    if bars:
        full = int(done * bars)
        text = f"{'━' * full}{'┄' * (bars - full)}{text}"
    text += f" {told['current']}/{told['total']}{units}"
    due = _time(row.get("due_at"))
    if due is not None and due > now and done < 1:
        text += f", {_span((due - now).total_seconds())} left"
    return text.strip()


def _percent(row: Row) -> str:
    return "" if row.get("done") is None else f"{row['done']:.0%}"


def _span(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _amount(text: str, *, cents: bool = True) -> str:
    value = Decimal(text)
    if value == int(value) and not cents:
        return f"{int(value):,}"
    return f"{value:,.2f}" if abs(value) >= Decimal("0.01") else f"{value:.4f}"


def _money(row: Row) -> str:
    """The budget that is left, of the currency with the smallest share."""
    lowest: tuple[Decimal, str] | None = None
    for meter in row.get("meters") or ():
        if meter["left"] is None:
            continue
        granted = Decimal(meter["granted"] or 0)
        share = Decimal(meter["left"]) / granted if granted else Decimal(0)
        amounts = [each for each in (meter["left"], meter["granted"]) if each]
        cents = any(Decimal(each) % 1 for each in amounts)
        if lowest is None or share < lowest[0]:
            text = "/".join(_amount(each, cents=cents) for each in amounts)
            lowest = (share, f"{text} {meter['currency']} left")
    return "" if lowest is None else lowest[1]


def _spent(row: Row) -> str:
    spent = [
        f"{_amount(meter['spent'])} {meter['currency']}"
        for meter in row.get("meters") or ()
        if meter["spent"] and Decimal(meter["spent"])
    ]
    return ", ".join(spent)


def _tokens(row: Row) -> str:
    return "" if row.get("tokens") is None else f"{row['tokens']:,}"


def _now(row: Row, now: datetime) -> Text:
    """What the job does, or why it needs attention."""
    reason = reason_of(row)
    if reason is None:
        return Text("" if row["status"] in _OVER else harmless(row.get("last") or ""), "dim")
    words = row.get("failure") or reason.words(now)
    mark = "" if reason.level == "note" else "! "
    return Text(f"{mark}{harmless(words)}", _TONES[reason.level])


def _state(row: Row) -> Text:
    mark, style = _MARKS.get(row["status"], ("·", ""))
    return Text(f"{mark} {row['status'].replace('_', ' ')}", style)


def _agent(row: Row) -> str:
    return harmless(row["agent"] + (f"@{row['version']}" if row.get("version") else ""))


def _age(row: Row, now: datetime) -> str:
    seconds = _seconds(row, now)
    return "" if seconds is None else render.duration(seconds)


# ------------------------------------------------------------------------- the table


@dataclass(frozen=True, slots=True)
class _Column:
    title: str
    width: int  # 0: the rest of the line
    cell: Callable[[Row, datetime], Text | str]
    right: bool = False


def _columns(width: int) -> list[_Column]:
    if width < _MIDDLE:
        job = _Column("JOB", 18, lambda row, _: harmless(row.get("label") or name_of(row)))
    else:
        job = _Column("JOB", 28, lambda row, _: name_of(row))
    state = _Column("STATE", 11, lambda row, _: _state(row))
    activity = _Column("NOW", 0, _now)
    age = _Column("TIME", 7 if width < _MIDDLE else 9, _age, right=True)
    if width < _MIDDLE:
        return [
            job,
            state,
            _Column("DONE", 4, lambda row, _: _percent(row), right=True),
            activity,
            _Column("SPENT", 8, lambda row, _: _spent(row), right=True),
            age,
        ]
    money = _Column("SPENT", 12, lambda row, _: _spent(row), right=True)
    if width < _WIDE:
        progress = _Column("PROGRESS", 22, lambda row, now: _progress(row, now, bars=6))
        return [job, state, progress, activity, money, age]
    return [
        job,
        _Column("AGENT", 20, lambda row, _: _agent(row)),
        state,
        _Column("PROGRESS", 36, lambda row, now: _progress(row, now, bars=10)),
        activity,
        _Column("BUDGET", 22, lambda row, _: _money(row), right=True),
        money,
        _Column("TOKENS", 10, lambda row, _: _tokens(row), right=True),
        age,
    ]


@dataclass
class TopTable:
    """The jobs of a screen: which are shown, in which order, and which one is selected.

    Attributes:
        title: what the jobs belong to.
        link: the state of the connection, in words; empty if it is live.
        text: the filter: a job is shown if its name, agent, status or last event has the text.
        only: the filter by state, one of `FILTERS`.
        sort: the order, one of `SORTS`.
        cursor: the id of the selected job.
        note: a message for the line above the keys.
    """

    title: str = "jobs"
    link: str = ""
    text: str = ""
    only: str = ""
    sort: str = "time"
    cursor: str | None = None
    note: str = ""
    _rows: list[Row] = field(default_factory=list)
    _shown: list[Row] = field(default_factory=list)
    _top: int = 0

    def update(self, rows: Iterable[Row]) -> None:
        """Show these jobs."""
        self._rows = list(rows)
        self.arrange()

    def arrange(self) -> None:
        """Filter and sort again; the selected job stays selected."""
        wanted = self.text.lower()
        shown = [row for row in self._rows if self._fits(row, wanted)]
        shown.sort(key=_ORDERS[self.sort])
        at = self.at
        self._shown = shown
        ids = [row["job_id"] for row in shown]
        if self.cursor not in ids:
            self.cursor = ids[min(at, len(ids) - 1)] if ids else None

    def _fits(self, row: Row, wanted: str) -> bool:
        if self.only == "look" and not needs_look(row):
            return False
        if self.only == "running" and row["status"] in _OVER:
            return False
        if self.only == "ended" and row["status"] not in _OVER:
            return False
        fields = (row.get("label"), row["job_id"], _agent(row), row["status"], row.get("last"))
        return not wanted or any(wanted in str(each).lower() for each in fields if each)

    @property
    def at(self) -> int:
        """The position of the selected job."""
        for n, row in enumerate(self._shown):
            if row["job_id"] == self.cursor:
                return n
        return 0

    @property
    def selected(self) -> Row | None:
        """The selected job."""
        return self._shown[self.at] if self._shown else None

    def move(self, steps: int) -> None:
        """Select another job, so many lines below."""
        if self._shown:
            at = min(max(self.at + steps, 0), len(self._shown) - 1)
            self.cursor = self._shown[at]["job_id"]

    def visible(self, height: int) -> list[str]:
        """The ids of the jobs on a screen of this height."""
        room = max(height - 4, 1)
        return [row["job_id"] for row in self._shown[self._top : self._top + room]]

    def lines(self, width: int, height: int, now: datetime, *, keys: str = "") -> list[Text]:
        """Draw the whole screen: heads, rows, and the keys at the bottom."""
        room = max(height - 4, 1)
        at = self.at
        self._top = max(min(self._top, at, len(self._shown) - room), at - room + 1, 0)
        columns = _columns(width)
        lines = [self._head(width), self._counts(width), _titles(columns, width)]
        for row in self._shown[self._top : self._top + room]:
            line = _line(columns, row, now, width)
            if row["job_id"] == self.cursor:
                line.stylize("reverse")
            lines.append(line)
        if not self._shown:
            lines.append(_fit(Text(self._nothing(), "dim"), width))
        lines += [Text(" " * width)] * (height - 1 - len(lines))
        lines.append(_fit(Text(self.note or keys, "" if self.note else "dim"), width))
        return lines[:height]

    def _nothing(self) -> str:
        if self._rows:
            return "No job matches. Escape shows all."
        return "No jobs yet. In another terminal:  arcp-client run AGENT"

    def _head(self, width: int) -> Text:
        right = Text(self.link or "live", "yellow" if self.link else "green")
        left = _fit(Text(harmless(self.title), "bold"), max(width - right.cell_len - 2, 0))
        return _fit(left.append("  ").append_text(right), width)

    def _counts(self, width: int) -> Text:
        running = sum(row["status"] not in _OVER for row in self._rows)
        look = sum(map(needs_look, self._rows))
        words = [render.count(len(self._rows), "job"), f"{running:,} running"]
        words.append(f"{look:,} {'needs' if look == 1 else 'need'} attention")
        line = Text(" · ".join(words))
        if look:
            line.stylize("yellow", line.plain.rindex(" · ") + 3)
        shows = [f"only: {self.only}"] if self.only else []
        shows += [f"filter: {harmless(self.text)}"] if self.text else []
        line.append("".join(f" · {each}" for each in [*shows, f"by {self.sort}"]), "dim")
        return _fit(line, width)


_ORDERS: dict[str, Callable[[Row], Any]] = {
    "time": lambda row: (row["status"] in _OVER, _newest(row), row["job_id"]),
    "look": lambda row: (row["status"] in _OVER, _urgency(row), _newest(row), row["job_id"]),
    "progress": lambda row: (row["status"] in _OVER, -(row.get("done") or 0.0), row["job_id"]),
    "cost": lambda row: (-_dearest(row), row["job_id"]),
    "name": lambda row: (name_of(row).lower(), row["job_id"]),
}


def _newest(row: Row) -> float:
    began = _time(row["created_at"])
    return 0.0 if began is None else -began.replace(tzinfo=began.tzinfo or UTC).timestamp()


def _urgency(row: Row) -> int:
    return _LEVELS.get(row["reason"]["level"], 3) if row.get("reason") else 3


def _dearest(row: Row) -> Decimal:
    spent = (Decimal(each["spent"] or 0) for each in row.get("meters") or ())
    return max(spent, default=Decimal(0))


def _fit(text: Text, width: int) -> Text:
    """Cut or fill a text to this number of cells."""
    if text.cell_len > width:
        text = text.copy()
        text.truncate(width, overflow="ellipsis")
    return text.append(" " * max(width - text.cell_len, 0))


def _cell(value: Text | str, width: int, *, right: bool) -> Text:
    text = Text(value) if isinstance(value, str) else value
    if cell_len(text.plain) > width:
        text.truncate(width, overflow="ellipsis")
    padding = " " * max(width - text.cell_len, 0)
    return Text(padding).append_text(text) if right else text.append(padding)


def _widths(columns: list[_Column], width: int) -> list[int]:
    fixed = sum(each.width for each in columns) + len(columns) - 1
    return [each.width or max(width - fixed, 0) for each in columns]


def _line(columns: list[_Column], row: Row, now: datetime, width: int) -> Text:
    line = Text(no_wrap=True)
    for n, (column, size) in enumerate(zip(columns, _widths(columns, width), strict=True)):
        line.append(" " if n else "")
        line.append_text(_cell(column.cell(row, now), size, right=column.right))
    return line


def _titles(columns: list[_Column], width: int) -> Text:
    titles = (
        set_cell_size(each.title, size) if not each.right else each.title.rjust(size)
        for each, size in zip(columns, _widths(columns, width), strict=True)
    )
    return _fit(Text(" ".join(titles), "bold"), width)
