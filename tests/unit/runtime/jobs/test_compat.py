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


@pytest.mark.parametrize("value", [{"a": 1}, "text", 0, False, None, [], 2**70])
@pytest.mark.parametrize(
    ("dialect", "names"),
    [("specification", {"result"}), ("python", {"result"}), ("go", {"result", "output"})],
)
async def test_an_inline_result_stands_where_the_clients_of_a_dialect_read_it(
    make: MakeRuntime, open_peer: Any, dialect: Speech, names: set[str], value: Any
) -> None:
    runtime = make(dialect=dialect)

    @runtime.agent("gives")
    async def gives(input: Any, job: JobContext) -> Any:
        return value

    peer = await open_peer(runtime)
    await peer.submit("gives")
    payload = (await peer.until("job.result"))["payload"]
    assert {
        name: payload[name] for name in ("result", "output") if name in payload
    } == dict.fromkeys(names, value)


async def test_a_streamed_result_is_not_repeated_under_another_name(
    make: MakeRuntime, open_peer: Any
) -> None:
    runtime = make(dialect="go")

    @runtime.agent("streams")
    async def streams(input: Any, job: JobContext) -> None:
        await job.chunk("text", more=False)

    peer = await open_peer(runtime)
    await peer.submit("streams")
    payload = (await peer.until("job.result"))["payload"]
    assert payload["result_size"] == 4
    assert not {"result", "output"} & payload.keys()


def test_another_dialect_is_refused() -> None:
    with pytest.raises(ValueError, match="dialect must be one of specification, python, go"):
        Runtime(dialect="klingon")  # type: ignore[arg-type]
