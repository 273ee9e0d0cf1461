"""What a runtime says to clients that cannot read all of the specification."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client.runtime import JobContext, Limits, Runtime
from tests.unit.runtime.conftest import MakeRuntime

Speech = Any


async def spoken(make: MakeRuntime, open_peer: Any, dialect: Speech) -> tuple[Any, Any, Any]:
    """An acceptance with a budget, the end of a cancelled job, and one without a lease."""
    runtime = make(dialect=dialect, limits=Limits(cancel_grace=0))

    @runtime.agent("forever")
    async def forever(input: Any, job: JobContext) -> None:
        await asyncio.Event().wait()

    peer = await open_peer(runtime)
    accepted = await peer.submit("forever", lease_request={"cost.budget": ["USD:5.00"]})
    await peer.ask("job.cancel", {"job_id": accepted["payload"]["job_id"]})
    ended = await peer.until("job.error")
    empty = await peer.submit("forever", lease_request={})
    return accepted["payload"], ended["payload"], empty["payload"]


async def test_the_specification_is_spoken_by_default(make: MakeRuntime, open_peer: Any) -> None:
    accepted, ended, empty = await spoken(make, open_peer, "specification")
    assert accepted["budget"] == {"USD": 5.0}
    assert (ended["code"], ended["final_status"]) == ("CANCELLED", "cancelled")
    assert empty["lease"] == {}


async def test_clients_of_the_python_sdk_are_spoken_to(make: MakeRuntime, open_peer: Any) -> None:
    accepted, ended, empty = await spoken(make, open_peer, "python")
    assert accepted["budget"] == {"USD": "5.00"}
    assert (ended["code"], ended["final_status"]) == ("CANCELLED", "error")
    assert empty["lease"]["tool.call"] == ["*"]


def test_another_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="it is one of specification, python"):
        Runtime(dialect="klingon")  # type: ignore[arg-type]
