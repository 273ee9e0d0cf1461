"""Memory of a client whose ACP agent asks for much and reads nothing, in a process of its own."""

from __future__ import annotations

import pytest

from arcp_client.acp import AcpLimits
from tests.alone import run_alone
from tests.backpressure.flooding_agent import CALLS, CHUNKS, FILES, KEPT, MIB, OUTPUTS

pytestmark = pytest.mark.timeout(120)

LIMITS = AcpLimits()
SLACK = 64 * MIB


FLOODS = {
    "files": FILES * 16 * MIB - FILES,
    "output": OUTPUTS * 1_000_000,
    "params": KEPT * 4 * MIB,
    "iterator": CHUNKS * MIB,
    "calls": CALLS * MIB,
}
"""Their sizes in bytes."""


@pytest.mark.parametrize(
    ("kind", "bound", "read"),
    [
        ("files", LIMITS.answers, FLOODS["files"]),
        ("output", LIMITS.answers, FLOODS["output"]),
        ("params", LIMITS.requests, KEPT),
        ("iterator", LIMITS.buffer.bytes, 0),
        ("calls", LIMITS.state, 0),
    ],
)
async def test_a_flood_stays_within_its_limit_in_bytes_and_loses_nothing(
    kind: str, bound: int, read: int
) -> None:
    """Rule A4."""
    assert FLOODS[kind] > bound + SLACK
    found = await run_alone("tests.backpressure.acp_flood", kind, timeout=100)
    assert found["peak"] <= bound + SLACK
    assert found["read"] >= read
