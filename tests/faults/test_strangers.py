"""Connections that never say who they are cost a runtime little memory (R2)."""

from __future__ import annotations

import sys

import pytest

from arcp_client.runtime import Limits
from tests.alone import run_alone


@pytest.mark.skipif(sys.platform != "linux", reason="memory is measured as Linux counts it")
async def test_r2_unfinished_frames_before_hello_stay_within_their_bound() -> None:
    count, size = 150, 4_000_000
    found = await run_alone("tests.faults.strangers", count, size, timeout=120)
    assert found["value"] == 2
    assert found["grown"] <= count * Limits().handshake_bytes + 64 * 1024 * 1024
