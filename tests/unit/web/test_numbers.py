"""W1: numbers pass through the dashboard's server with the digits that were typed or sent."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from arcp_client import Client
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Emit, Finish
from tests.dialects import PLAYED
from tests.exact_numbers import NUMBERS, ExactConnector, digits
from tests.unit.web.kit import Site, site

VALUES = [digits(text) for text in NUMBERS]
TEXT = f"[{','.join(NUMBERS)}]"
SCRIPT = [
    Emit("tool_call", {"tool": "add", "args": {"n": VALUES}, "call_id": "c1"}),
    Emit("tool_result", {"call_id": "c1", "result": {"n": VALUES}}),
    *(Emit("metric", {"name": "size", "value": value, "unit": "B"}) for value in VALUES),
    Emit("x-vendor.note", {"deep": [{"n": VALUES}]}),
    Finish({"n": VALUES}),
]


@pytest.fixture(params=PLAYED)
async def exact(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Site, ExactConnector]]:
    async with ScriptedRuntime(request.param, agents={"sums": SCRIPT}) as runtime:
        connector = ExactConnector(runtime)
        async with (
            Client(connector, token="t") as client,
            site(client, allow_control=True) as served,
        ):
            yield served, connector


async def submitted(served: Site, typed: str = "null") -> str:
    body = f'{{"agent":"sums","idempotency_key":"k","input":{typed}}}'
    status, answer = await served.post("api/jobs", body.encode())
    assert status == 201, answer
    return str(answer["job_id"])


async def test_an_input_reaches_the_runtime_as_it_was_typed(
    exact: tuple[Site, ExactConnector],
) -> None:
    served, connector = exact
    await submitted(served, f'{{"é": {TEXT},\n "text": "a  b \\u0041"}}')
    (frame,) = [frame for frame in connector.sent if b'"job.submit"' in frame]
    assert f'"input":{{"\\u00e9":{TEXT},"text":"a  b \\u0041"}}'.encode() in frame
    assert b"\n" not in frame


async def test_events_results_and_transcripts_have_the_digits_that_were_sent(
    exact: tuple[Site, ExactConnector],
) -> None:
    served, _ = exact
    job_id = await submitted(served)
    shown = b""
    async with served.http.get(served.url(f"api/jobs/{job_id}/stream")) as response:
        while piece := await response.content.readany():
            shown += piece
    async with served.http.get(served.url(f"api/jobs/{job_id}/transcript")) as response:
        written = await response.read()
    async with served.http.get(served.url(f"api/jobs/{job_id}/result")) as response:
        assert await response.text() == f'{{"n":{TEXT}}}\n'
    for found in (shown, written):
        assert (
            found.count(TEXT.encode()) == 4
        )  # arguments, what came back, the vendor's, the result
        for text in NUMBERS:
            assert f'"value":{text},'.encode() in found


@pytest.mark.parametrize("typed", ["1e400", "[-1e400]"])
async def test_a_number_that_no_runtime_reads_is_refused_with_its_reason(
    dashboard: Site, typed: str
) -> None:
    body = f'{{"agent":"echo","idempotency_key":"k","input":{typed}}}'
    status, answer = await dashboard.post("api/jobs", body.encode())
    assert status == 400
    assert answer["error"]["code"] == "INVALID_REQUEST"
    assert "out of range" in answer["error"]["message"]


async def test_an_input_that_is_left_out_is_null(dashboard: Site) -> None:
    status, answer = await dashboard.post("api/jobs", {"agent": "echo", "idempotency_key": "k"})
    assert status == 201, answer
    async with dashboard.http.get(dashboard.url(f"api/jobs/{answer['job_id']}/stream")) as response:
        await response.read()
    async with dashboard.http.get(dashboard.url(f"api/jobs/{answer['job_id']}/result")) as response:
        assert await response.json() is None
