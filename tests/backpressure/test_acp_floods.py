"""Memory of a client whose ACP agent asks for much and reads nothing, in a process of its own."""

from __future__ import annotations

import pytest

from arcp_client.acp import AcpLimits
from tests.alone import run_alone

pytestmark = pytest.mark.timeout(120)

MIB = 1024 * 1024
LIMITS = AcpLimits()
SLACK = 64 * MIB


@pytest.mark.parametrize(
    ("kind", "bound", "read"),
    [
        ("files", LIMITS.answers, 24 * 16 * MIB - 24),
        ("output", LIMITS.answers, 250 * 1_000_000),
        ("params", LIMITS.requests, 60),
        ("iterator", LIMITS.buffer.bytes, 0),
        ("calls", LIMITS.state, 0),
    ],
)
async def test_a_flood_stays_within_its_limit_in_bytes_and_loses_nothing(
    kind: str, bound: int, read: int
) -> None:
    """Rule A4."""
    found = await run_alone("tests.backpressure.acp_flood", kind, timeout=100)
    assert found["peak"] <= bound + SLACK
    assert found["read"] >= read
