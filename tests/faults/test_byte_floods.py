"""Every buffer has a bound in bytes: the process stays under it and 64 MiB for its work (R6)."""

from __future__ import annotations

import pytest

from tests.alone import run_alone

MIB = 1024 * 1024
ROOM = 64 * MIB

BOUNDS = {
    "answers": 8,
    "nonces": 8,
    "inputs": 16,
    "retained": 16 + 4 + 8,
    "journal": 8 + 8 + 4 * 4,
    "client_nonces": 4,
    "client_answers": 4,
}


@pytest.mark.parametrize("flood", BOUNDS)
async def test_a_flood_costs_no_more_than_its_bound(flood: str) -> None:
    measured = await run_alone("tests.faults.byte_floods", flood, timeout=90)
    assert measured["peak"] - measured["start"] <= BOUNDS[flood] * MIB + ROOM
