"""What an application gets of each runtime is what the table says, cell by cell."""

from __future__ import annotations

import logging

import pytest

from arcp_client._dialects import DIALECTS, SPECIFICATION
from arcp_client.testing import VirtualClock
from tests.interop import peers
from tests.interop.capabilities import PROBES, RUNTIMES, outcome_of
from tests.interop.rules import rule


@pytest.fixture(autouse=True)
def quiet() -> None:
    """A crashing agent is the subject of some tests, not an error of theirs."""
    logging.getLogger("arcp.runtime.server").setLevel(logging.CRITICAL)


def test_every_outcome_of_a_dialect_is_that_of_a_probe_and_not_the_usual_one() -> None:
    for kind in DIALECTS.values():
        for probe, outcome in kind.outcomes.items():
            assert outcome != PROBES[probe].usual
    assert SPECIFICATION.outcomes == DIALECTS["arcp-client"].outcomes == {}


@rule("note-1", "note-9")
@rule("accept-1", "accept-4", "accept-6", "accept-15", "accept-19", "accept-22", "accept-26")
@pytest.mark.parametrize("runtime", RUNTIMES)
@pytest.mark.parametrize("probe", PROBES)
def test_an_application_gets_what_the_table_says(probe: str, runtime: str) -> None:
    async def scenario() -> str:
        # This package's own runtime needs no script to play it.
        make = peers.live if runtime == "arcp-client" else peers.scripted
        async with make(runtime) as peer:
            return await PROBES[probe].run(peer)

    assert VirtualClock().run(scenario()) == outcome_of(probe, runtime)


@pytest.mark.parametrize("probe", PROBES)
async def test_the_script_for_python_does_what_the_reference_does(probe: str) -> None:
    async with peers.live("python") as peer:
        assert await PROBES[probe].run(peer) == outcome_of(probe, "python")
