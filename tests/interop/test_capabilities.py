"""What an application gets of each runtime is what the table says, cell by cell."""

from __future__ import annotations

import logging

import pytest

from arcp_client.testing import VirtualClock
from tests.interop import peers
from tests.interop.capabilities import PROBES, RUNTIMES, TABLE
from tests.interop.rules import rule

pytestmark = pytest.mark.timeout(20)


def expected(probe: str, runtime: str) -> str:
    row = TABLE[probe]
    return row.get(runtime) or row["*"]


@pytest.fixture(autouse=True)
def quiet() -> None:
    """A crashing agent is the subject of some tests, not an error of theirs."""
    logging.getLogger("arcp.runtime.server").setLevel(logging.CRITICAL)


def test_the_table_has_a_row_for_every_probe() -> None:
    assert list(TABLE) == list(PROBES)
    for row in TABLE.values():
        assert set(row) <= {"*", *RUNTIMES}


@rule("note-1", "note-9")
@rule("accept-1", "accept-4", "accept-6", "accept-15", "accept-19", "accept-22", "accept-26")
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("probe", PROBES)
def test_an_application_gets_what_the_table_says(probe: str, runtime: str) -> None:
    async def scenario() -> str:
        # This package's own runtime needs no script to play it.
        make = peers.live if runtime == "arcp-client" else peers.scripted
        async with make(runtime) as peer:
            return await PROBES[probe](peer)

    assert VirtualClock().run(scenario()) == expected(probe, runtime)


@pytest.mark.parametrize("probe", PROBES)
async def test_the_script_for_python_does_what_the_reference_does(probe: str) -> None:
    async with peers.live("python") as peer:
        assert await PROBES[probe](peer) == expected(probe, "python")
