"""What every transport does, whatever carries its frames."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from arcp_client.errors import LinkLost
from arcp_client.testing import TRANSPORT_CHECKS, TransportCase
from arcp_client.testing.transport_checks import TransportCheck
from tests.unit.transports.kit import KINDS, LIMIT, Pair, nothing_left


@pytest.fixture(params=sorted(KINDS))
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Pair]:
    with nothing_left():
        async with KINDS[request.param](tmp_path) as pair:
            yield pair


@pytest.mark.parametrize("check", TRANSPORT_CHECKS, ids=lambda check: check.__name__)
async def test_every_transport_passes_the_conformance_kit(
    check: TransportCheck, pair: Pair
) -> None:
    await check(TransportCase(pair.near, pair.far, LIMIT))


async def test_the_reason_of_an_end_names_the_side_and_is_the_same_for_every_call(
    pair: Pair,
) -> None:
    await pair.far.close()
    ends = []
    for _ in range(2):
        with pytest.raises(LinkLost) as caught:
            await pair.near.receive()
        ends.append(caught.value)
    first, again = ends
    assert (first.close_code, first.exit_code) == (again.close_code, again.exit_code)
    assert "closed by this side" not in str(first)
    await pair.near.close(timeout=0.5)
    with pytest.raises(LinkLost):
        await pair.near.send(b"{}")


async def test_after_a_close_the_errors_say_that_this_side_closed(pair: Pair) -> None:
    await pair.near.close(timeout=0.5)
    with pytest.raises(LinkLost, match="closed by this side"):
        await pair.near.send(b"{}")
    with pytest.raises(LinkLost, match="closed by this side"):
        await pair.near.receive()
