"""The page of limits has every bound of the code, with its default."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from arcp_client import Buffer
from arcp_client._client import job_table as client_jobs
from arcp_client._dispatch import assembler, early_events, hooks, replay_buffer
from arcp_client._link import ended_jobs
from arcp_client._protocol import dedup, exchange, jobs, pending, reassembly
from arcp_client.acp import AcpLimits
from arcp_client.acp._http import routes
from arcp_client.runtime import Limits

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "limits.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in TEXT.splitlines()
    if line.startswith("| ")
]
UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "s": 1.0}
CLASSES = (Limits, Buffer, AcpLimits)


def value(text: str) -> float | None:
    """A default as the table says it: ``none``, a count, bytes or seconds."""
    if text == "none":
        return None
    number, _, unit = text.replace(",", "").partition(" ")
    return float(number) * (UNITS[unit] if unit else 1)


def numbers(text: str) -> list[float]:
    """The numbers of a cell, with their units of bytes."""
    found = re.findall(r"(\d[\d,]*)(?: (KiB|MiB))?", text)
    return [float(number.replace(",", "")) * UNITS.get(unit, 1) for number, unit in found]


def test_every_bound_that_can_be_set_stands_in_one_table_with_its_default() -> None:
    rows = dict(row for row in ROWS if len(row) == 2)
    stated = {name.strip("`"): text for name, text in rows.items() if name.startswith("`")}
    assert stated.pop("AcpLimits.buffer") == "`Buffer(bytes=8 MiB)`"
    assert AcpLimits().buffer == Buffer(bytes=8 * 2**20)
    defaults = {
        f"{kind.__name__}.{field.name}": field.default
        for kind in CLASSES
        for field in fields(kind)
        if field.name not in ("default_lease", "buffer")
    }
    assert {name: value(text) for name, text in stated.items()} == defaults


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("ended jobs whose records are kept", [client_jobs._RECENT]),
        ("jobs with events and without", [early_events._JOBS, early_events._SECONDS]),
        ("requests that timed out", [pending.MOST_LATE]),
        ("unsubscribe requests that the runtime", [exchange.UNSUBSCRIBING]),
        ("outcomes of ended jobs", [ended_jobs._JOBS, ended_jobs._BYTES]),
        ("events of ended jobs that a history", [dedup.LATER, dedup.LATER_JOBS]),
        ("ended jobs for which a repeated", [jobs.REMEMBERED]),
        ("events of one job that are recognised", [dedup.REMEMBERED]),
        ("recorded lost ranges", [reassembly.REMEMBERED]),
        ("result chunks ahead of", [assembler._AHEAD]),
        ("notifications that wait for one hook", [hooks._WAITING]),
        ("requests over HTTP, of an ACP agent", [routes._MOST]),
    ],
)
def test_bounds_of_collections_are_as_in_the_code(bound: str, expected: list[float]) -> None:
    (row,) = [row for row in ROWS if row[0].startswith(bound)]
    assert numbers(row[1]) == expected


def test_bytes_of_fixed_buffers_are_as_in_the_code() -> None:
    (past,) = [row for row in ROWS if row[0].startswith("a client's past events")]
    kept = [replay_buffer._BYTES, replay_buffer._ALL_BYTES, replay_buffer._HISTORY]
    assert numbers(past[2]) == kept
    (chunks,) = [row for row in ROWS if row[0].startswith("chunks of one result")]
    assert numbers(chunks[2]) == [assembler._IN_MEMORY]


def test_fields_that_the_other_tables_name_exist_with_the_default_that_they_state() -> None:
    defaults = {field.name: field.default for field in fields(Limits)}
    for row in ROWS:
        name = row[0].strip("`")
        if len(row) > 2 and name in defaults and row[0].startswith("`"):
            assert value(row[1]) == defaults[name], row
