"""Prints a line for each job that is new, has changed its state, or begins to need attention.

The lines are for screen readers, and for output that is not a terminal.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from arcp_client.cli.view import render, terminal
from arcp_client.cli.view.job_table import Row, needs_look, sentence

__all__ = ["TopLines"]


class TopLines:
    """Prints changes of jobs as lines of plain words on stdout."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, ...]] = {}

    def show(self, rows: Iterable[Row], now: datetime) -> None:
        """Print what has changed since the last call."""
        known = {}
        for row in rows:
            reason = row["reason"]["code"] if row.get("reason") and needs_look(row) else None
            known[row["job_id"]] = key = (row["status"], reason, row.get("phase"))
            if self._known.get(row["job_id"]) != key:
                self.say(sentence(row, now), now)
        self._known = known

    def say(self, text: str, now: datetime) -> None:
        """Print one line with the time."""
        print(f"{render.local(now, '%H:%M:%S')} {terminal.harmless(text)}", flush=True)
