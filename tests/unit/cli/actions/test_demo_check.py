"""The demo's counting, on records made up to be wrong."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from arcp_client.cli.actions.demo import Witness, report
from arcp_client.cli.actions.demo_check import Count, Row, count, faults
from arcp_client.cli.exit_codes import Exit

SENT = ["log a", "log b", "log c", "end"]


def row(handled: list[str], *, result: object = 1) -> Row:
    return Row(agent="writer", count=count(SENT, handled), result=result, expected=1)


@pytest.mark.parametrize(
    ("handled", "lost", "repeated", "disordered", "unexpected"),
    [
        (["log a", "log b", "log c", "end"], 0, 0, 0, 0),
        (["log a", "log c", "end"], 1, 0, 0, 0),
        (["log a", "log b", "log b", "log c", "end"], 0, 1, 0, 0),
        (["log a", "log c", "log b", "end"], 0, 0, 1, 0),
        (["log a", "log b", "log c", "log a", "end"], 0, 1, 0, 0),
        (["log a", "log b", "log x", "log c", "end"], 0, 0, 0, 1),
        (["end", "log c", "log b", "log a"], 0, 0, 3, 0),
        ([], 4, 0, 0, 0),
    ],
)
def test_each_fault_is_counted_as_what_it_is(
    handled: list[str], lost: int, repeated: int, disordered: int, unexpected: int
) -> None:
    assert count(SENT, handled) == Count(
        sent=4,
        handled=len(handled),
        lost=lost,
        repeated=repeated,
        disordered=disordered,
        unexpected=unexpected,
    )


def printed(rows: list[Row], witness: Witness) -> tuple[Exit, str]:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    code = report(console, rows, witness)
    assert isinstance(console.file, io.StringIO)
    return code, console.file.getvalue()


def test_all_well_is_success() -> None:
    code, text = printed([row(SENT)], Witness(cuts=2, resumed=2))
    assert code is Exit.SUCCESS
    assert "2 cuts in mid-stream, 2 resumes" in text


@pytest.mark.parametrize(
    ("rows", "witness", "said"),
    [
        ([row(SENT[1:])], Witness(cuts=2, resumed=2), "writer: 1 event lost"),
        ([row(SENT + SENT)], Witness(cuts=2, resumed=2), "writer: 4 events repeated"),
        ([row(SENT[::-1])], Witness(cuts=2, resumed=2), "writer: 3 events out of order"),
        ([row([*SENT, "x"])], Witness(cuts=2, resumed=2), "1 event handled that were never sent"),
        ([row(SENT, result=2)], Witness(cuts=2, resumed=2), "the result differs from the agent"),
        ([row(SENT)], Witness(cuts=1, resumed=1), "1 of 2 cuts hit the stream"),
        ([row(SENT)], Witness(cuts=2, resumed=1), "1 of 2 cuts hit the stream"),
        ([row(SENT)], Witness(cuts=2, resumed=2, overlaps=1), "1 handlers started before"),
        ([row(SENT)], Witness(cuts=2, resumed=2, holes=1), "1 gap reported"),
    ],
)
def test_whatever_is_wrong_is_said_and_fails(rows: list[Row], witness: Witness, said: str) -> None:
    code, text = printed(rows, witness)
    assert code is Exit.FAILED
    assert said in text
    assert "every event handled" not in text


def test_a_job_that_sent_nothing_proves_nothing() -> None:
    empty = Row(agent="writer", count=count([], []), result=None, expected=None)
    assert faults([empty], cuts=2, wanted_cuts=2, overlaps=0) == ["writer: sent nothing"]


def test_the_table_fits_eighty_columns() -> None:
    _, text = printed([row(SENT)], Witness(cuts=2, resumed=2))
    heading = next(line for line in text.splitlines() if "sent" in line)
    for title in ("job", "sent", "handled", "lost", "repeated", "out of order", "result"):
        assert title in heading
