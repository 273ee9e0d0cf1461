"""The tables of states in docstrings, read back: what is written there is what is tested."""

from __future__ import annotations

import re
from types import ModuleType
from typing import NamedTuple

__all__ = ["Row", "rows_of"]


class Row(NamedTuple):
    """In a state, on something that happens, there is a next state."""

    state: str
    on: str
    to: str


def rows_of(module: ModuleType) -> list[Row]:
    """The rows of the first table in a module's docstring."""
    lines = (module.__doc__ or "").splitlines()
    rules = [number for number, line in enumerate(lines) if re.fullmatch("=+ +=+ +=+", line)]
    assert len(rules) >= 3, f"{module.__name__} has no table of three columns"
    body = lines[rules[1] + 1 : rules[2]]
    return [Row(*re.split(" {2,}", line)) for line in body]
