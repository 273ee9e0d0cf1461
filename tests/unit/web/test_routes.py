"""Jobs are submitted and cancelled from the browser; invalid requests are refused."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from yarl import URL

from arcp_client import Client
from tests.unit.web.kit import JSON, SOON, Gates, Site, site

BODY = {"agent": "echo", "input": {"a": 1}, "idempotency_key": "key-1"}


async def test_a_job_is_submitted_once_however_often_it_is_sent(dashboard: Site) -> None:
    first = await dashboard.post("api/jobs", BODY)
    second = await dashboard.post("api/jobs", BODY)
    assert first == second
    status, body = first
    assert status == 201
    timeline = await dashboard.tab(body["job_id"]).follow()
    assert timeline.events[-1]["value"] == {"a": 1}
    assert [row["job_id"] for row in (await dashboard.get("api/overview"))[1]["jobs"]] == [
        body["job_id"]
    ]


async def test_a_job_submitted_from_the_dashboard_shows_all_events_even_to_a_late_page(
    dashboard: Site,
) -> None:
    body = {"agent": "say", "input": {"lines": 3000}, "idempotency_key": "k"}
    _, found = await dashboard.post("api/jobs", body)
    job = dashboard.client.job(found["job_id"])
    assert job is not None
    async with asyncio.timeout(SOON):
        await job.result()
    timeline = await dashboard.tab(found["job_id"]).follow()
    logged = [each["message"] for each in timeline.events if each["kind"] == "log"]
    assert len(logged) == 3000


async def test_a_submission_has_the_lease_and_the_run_time(dashboard: Site) -> None:
    body = {**BODY, "lease": {"fs.read": ["/src/**"]}, "max_runtime": 60}
    _, found = await dashboard.post("api/jobs", body)
    timeline = await dashboard.tab(found["job_id"]).follow()
    assert timeline.details[-1]["lease"] == {"fs.read": ["/src/**"]}


async def test_a_job_is_cancelled(dashboard: Site) -> None:
    _, found = await dashboard.post(
        "api/jobs", {"agent": "gated", "input": "never", "idempotency_key": "k"}
    )
    job_id = found["job_id"]
    status, _ = await dashboard.post(f"api/jobs/{job_id}/cancel", {"reason": "enough"})
    assert status == 202
    timeline = await dashboard.tab(job_id).follow()
    assert timeline.end == "cancelled"
    assert timeline.details[-1]["error"]["code"] == "CANCELLED"
    assert (await dashboard.post(f"api/jobs/{job_id}/cancel", b""))[0] == 202  # it has its will


async def test_a_job_of_another_session_cannot_be_cancelled(
    dashboard: Site, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    status, found = await dashboard.post(f"api/jobs/{job.id}/cancel", {})
    assert status in (403, 404)
    assert found["error"]["code"] in ("PERMISSION_DENIED", "JOB_NOT_FOUND")
    gates["one"].set()
    await job.result()


async def test_without_control_the_dashboard_is_read_only(client: Client) -> None:
    async with site(client) as served:
        assert (await served.get("api/overview"))[1]["control"] is False
        for path, body in (("api/jobs", BODY), ("api/jobs/x/cancel", {})):
            status, found = await served.post(path, body)
            assert (status, found["error"]["code"]) == (403, "READ_ONLY")
            assert "--allow-control" in found["error"]["remedy"]
    assert [job async for job in client.jobs()] == []


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"agent": "nobody"}, 404, "AGENT_NOT_AVAILABLE"),
        ({"agent": "echo@9.9.9"}, 404, "AGENT_VERSION_NOT_AVAILABLE"),
        ({"agent": ""}, 400, "INVALID_REQUEST"),
        ({"agent": "a b"}, 400, "INVALID_REQUEST"),
        ({"agent": None}, 400, "INVALID_BODY"),
        ({"agent": 1}, 400, "INVALID_BODY"),
        ({"agent": ["echo"]}, 400, "INVALID_BODY"),
        ({"idempotency_key": None}, 400, "INVALID_BODY"),
        ({"idempotency_key": ""}, 400, "INVALID_REQUEST"),
        ({"idempotency_key": {}}, 400, "INVALID_BODY"),
        ({"lease": "all"}, 400, "INVALID_BODY"),
        ({"lease": {"fs.read": "/"}}, 400, "INVALID_BODY"),
        ({"lease": {"": ["/"]}}, 400, "INVALID_REQUEST"),
        ({"max_runtime": -1}, 400, "INVALID_REQUEST"),
        ({"max_runtime": "long"}, 400, "INVALID_BODY"),
        ({"max_runtime": 1e400}, 400, "INVALID_JSON"),
        ({"more": 1}, 400, "INVALID_BODY"),
    ],
    ids=str,
)
async def test_an_invalid_body_is_refused_with_the_reason(
    dashboard: Site, change: dict[str, Any], status: int, code: str
) -> None:
    found = await dashboard.post("api/jobs", {**BODY, **change})
    assert (found[0], found[1]["error"]["code"]) == (status, code), found[1]
    assert found[1]["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, "INVALID_JSON"),
        (b"{", 400, "INVALID_JSON"),
        (b"nonsense", 400, "INVALID_JSON"),
        (b"\xff\xfe", 400, "INVALID_JSON"),
        (b'{"agent": "\xff"}', 400, "INVALID_JSON"),
        (b"[]", 400, "INVALID_BODY"),
        (b"null", 400, "INVALID_BODY"),
        (b'"text"', 400, "INVALID_BODY"),
        (b"[" * 100_000, 400, "INVALID_BODY"),
        (b'{"input":' + b"[" * 100_000, 400, "INVALID_JSON"),
        (b'{"input":' + b'{"a":' * 50_000 + b"1" + b"}" * 50_001, 400, "INVALID_JSON"),
        (json.dumps({**BODY, "input": "x" * (1 << 20)}).encode(), 413, "BODY_TOO_LARGE"),
    ],
    ids=lambda value: repr(value[:20]) if isinstance(value, bytes) else str(value),
)
async def test_hostile_bodies_are_refused(
    dashboard: Site, body: bytes, status: int, code: str
) -> None:
    found = await dashboard.post("api/jobs", body)
    assert (found[0], found[1]["error"]["code"]) == (status, code), found[1]
    assert (await dashboard.get("api/overview"))[0] == 200


@pytest.mark.parametrize("depth", [100, 500, 900, 5000])
async def test_an_input_of_any_depth_is_submitted_or_refused(dashboard: Site, depth: int) -> None:
    deep = b"[" * depth + b"]" * depth
    body = b'{"agent":"echo","idempotency_key":"k","input":' + deep + b"}"
    status, found = await dashboard.post("api/jobs", body)
    assert status in (201, 400), found
    if status == 201:
        await dashboard.tab(found["job_id"]).follow()


async def test_a_body_that_grows_beyond_the_limit_is_refused_while_it_comes(
    dashboard: Site,
) -> None:
    sent = 0

    async def endless() -> Any:
        nonlocal sent
        while sent < 64 << 20:
            sent += 65536
            yield b"x" * 65536

    url = dashboard.url("api/jobs")
    async with asyncio.timeout(SOON):
        async with dashboard.http.post(url, data=endless(), headers=JSON) as response:
            assert response.status == 413
    assert sent < 32 << 20


@pytest.mark.parametrize(
    "job_id",
    [
        "none",
        "..",
        "%2e%2e",
        "a%2fb",
        "x" * 300,
        "%00",
        "%0d%0aSet-Cookie:%20a=b",
        "%ff",
        "%c3%bc",
        "{}",
    ],
)
@pytest.mark.parametrize("what", ["stream", "transcript", "result"])
async def test_a_job_id_that_does_not_exist_is_not_found(
    dashboard: Site, job_id: str, what: str
) -> None:
    url = URL(f"{dashboard.url('')}api/jobs/{job_id}/{what}", encoded=True)
    async with dashboard.http.get(url) as response:
        assert response.status == 404
        assert (await response.json())["error"]["code"] in ("JOB_NOT_FOUND", "NOT_FOUND")
        assert "Set-Cookie" not in response.headers


async def test_the_state_of_a_job_is_told_and_its_events_are_read_from_then_on(
    dashboard: Site, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 50, "gate": "half"})
    status, found = await dashboard.get(f"api/jobs/{job.id}")
    assert (status, found["job_id"], found["agent"]) == (200, job.id, "say")
    async with asyncio.timeout(SOON):
        while found["events"] < 25:  # nothing else asks the server to read them
            await asyncio.sleep(0.01)
            _, found = await dashboard.get(f"api/jobs/{job.id}")
    gates["half"].set()
    await job.result()
    status, found = await dashboard.get("api/jobs/none")
    assert (status, found["error"]["code"]) == (404, "JOB_NOT_FOUND")


async def test_requests_after_the_client_was_closed_are_refused_with_the_reason(
    client: Client,
) -> None:
    async with site(client, allow_control=True) as served:
        await client.close()
        status, found = await served.get("api/overview")
        assert status == 200
        assert found["link"]["state"] == "closed"
        for status, found in (
            await served.post("api/jobs", BODY),
            await served.get("api/jobs/x/stream"),
        ):
            assert (status, found["error"]["code"]) == (503, "SESSION_OVER")
