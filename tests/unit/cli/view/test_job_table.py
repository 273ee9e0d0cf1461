"""The table of `arcp-client top` fits the terminal and says in words what colours say."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.cli.view.job_table import SORTS, TopTable, sentence
from arcp_client.cli.view.top_lines import TopLines

NOW = datetime(2026, 5, 13, 19, 42, tzinfo=UTC)
SNAPSHOTS = Path(__file__).parents[3] / "data" / "top"
KEYS = "q quit"


def ago(seconds: float) -> str:
    return (NOW - timedelta(seconds=seconds)).isoformat()


def row(n: int, status: str = "running", **more: Any) -> dict[str, Any]:
    return {
        "job_id": f"job_01M8J6NN4TQ327G6D08RHVE{n:03}",
        "label": None,
        "agent": "coder",
        "version": "2.0.1",
        "status": status,
        "phase": None,
        "progress": None,
        "done": None,
        "due_at": None,
        "last": "",
        "meters": [],
        "tokens": None,
        "created_at": ago(60 * n),
        "ended_at": None,
        "failure": None,
        "reason": None,
        **more,
    }


def because(code: str, level: str, text: str, **when: str | None) -> dict[str, Any]:
    return {"code": code, "level": level, "text": text, "since": None, "until": None, **when}


def dollars(spent: str, left: str | None = None) -> list[dict[str, Any]]:
    return [{"currency": "USD", "spent": spent, "left": left, "granted": left and "5.00"}]


TEN = [
    row(1, label="Refactor src/billing", last="calls fs.read", meters=dollars("1.25", "3.75"),
        progress={"current": 3, "total": 14, "units": "files"}, done=3 / 14,
        due_at=(NOW + timedelta(minutes=6)).isoformat(), tokens=15500),
    row(2, label="Supplier prices", agent="web-research", meters=dollars("4.92", "0.08"),
        reason=because("budget", "alert", "budget in USD ends",
                       until=(NOW + timedelta(seconds=40)).isoformat())),
    row(3, label="Move orders to Postgres", agent="migrate-db", last="calls psql",
        reason=because("tool", "note", "waiting for psql", since=ago(200))),
    row(4, agent="triage", reason=because("silent", "warn", "silent", since=ago(150))),
    row(5, label="Übersetzung 日本語 des Handbuchs", last="thinks: \x1b[2J whoa",
        progress={"current": 250, "total": 400, "units": None}, done=0.625),
    row(6, "pending", agent="crawler"),
    row(7, "success", label="Minutes of Tuesday", ended_at=ago(300), meters=dollars("0.31")),
    row(8, "error", label="Quarterly report", ended_at=ago(400), failure="X_NO_DATA: no tables",
        reason=because("failed", "alert", "X_NO_DATA: no tables")),
    row(9, "cancelled", ended_at=ago(500)),
    row(10, "lost", reason=because("lost", "alert", "the runtime no longer knows it")),
]  # fmt: skip


def drawn(table: TopTable, width: int, height: int) -> list[str]:
    lines = table.lines(width, height, NOW, keys=KEYS)
    assert len(lines) == height
    for line in lines:
        assert line.cell_len == width, repr(line.plain)
    return [line.plain.rstrip() for line in lines]


def ten(**options: Any) -> TopTable:
    table = TopTable(title="arcp-client top · atelier 1.4", **options)
    table.update(TEN)
    return table


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 30), (200, 50)])
def test_ten_jobs_look_like_the_snapshot(width: int, height: int) -> None:
    shown = "\n".join(drawn(ten(), width, height)) + "\n"
    kept = SNAPSHOTS / f"{width}x{height}.txt"
    if not kept.exists():  # delete the file to make it anew, then look at it
        kept.parent.mkdir(exist_ok=True)
        kept.write_text(shown, encoding="utf-8")
    assert shown == kept.read_text(encoding="utf-8")


def test_running_jobs_come_first_then_the_newest() -> None:
    names = [line.split()[0] for line in drawn(ten(), 80, 24)[3:13]]
    assert names[0] == "Refactor"
    assert names.index("Minutes") > 5


def test_the_selected_job_stays_selected_while_the_order_changes() -> None:
    table = ten()
    table.move(2)
    chosen = table.cursor
    for order in SORTS:
        table.sort = order
        table.arrange()
        assert table.cursor == chosen


def test_the_selected_job_is_on_the_screen() -> None:
    table = TopTable()
    table.update([row(n) for n in range(1, 500)])
    for steps in (0, 30, 400, -20, 1000, -1000):
        table.move(steps)
        drawn(table, 80, 24)
        assert table.cursor in table.visible(24)
        assert len(table.visible(24)) == 20


def test_filters_keep_what_fits() -> None:
    table = ten(text="billing")
    assert table.selected is not None
    assert table.selected["label"] == "Refactor src/billing"
    table.text, table.only = "", "look"
    table.arrange()
    assert len([line for line in drawn(table, 80, 24)[3:-1] if line]) == 4
    table.only, table.text = "ended", "nothing like it"
    table.arrange()
    assert drawn(table, 80, 24)[3] == "No job matches. Escape shows all."
    assert table.selected is None


def test_an_empty_table_says_what_to_do() -> None:
    assert "arcp-client run AGENT" in drawn(TopTable(), 80, 24)[3]


def test_a_job_in_plain_words() -> None:
    assert sentence(TEN[1], NOW) == (
        "Supplier prices …8RHVE002, web-research, running;"
        " budget in USD ends in 40 s; 0.08/5.00 USD left"
    )
    assert "\x1b" not in sentence(TEN[4], NOW)


def test_lines_are_printed_for_changes_only(capsys: pytest.CaptureFixture[str]) -> None:
    lines = TopLines()
    lines.show(TEN, NOW)
    assert len(capsys.readouterr().out.splitlines()) == 10
    lines.show([*TEN[:9], {**TEN[9], "last": "more"}], NOW)
    assert capsys.readouterr().out == ""
    lines.show([{**TEN[0], "status": "success", "ended_at": ago(0)}, *TEN[1:]], NOW)
    [line] = capsys.readouterr().out.splitlines()
    assert "Refactor src/billing …8RHVE001, coder, success" in line


TEXT = st.text(max_size=80)


@given(
    st.lists(
        st.builds(
            row,
            st.integers(1, 999),
            st.sampled_from(["running", "pending", "success", "error", "lost", "odd"]),
            label=st.none() | TEXT,
            last=TEXT,
            agent=TEXT,
        ),
        max_size=40,
        unique_by=lambda each: each["job_id"],
    ),
    st.integers(80, 220),
    st.integers(8, 60),
    st.sampled_from(SORTS),
)
def test_whatever_agents_send_each_line_has_the_width_of_the_terminal(
    rows: list[dict[str, Any]], width: int, height: int, order: str
) -> None:
    table = TopTable(sort=order)
    table.update(rows)
    table.move(len(rows) // 2)
    drawn(table, width, height)
