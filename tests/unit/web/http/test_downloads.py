"""The transcript and the result of a job can be saved as files."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, events, transcripts
from arcp_client.testing import ReplayedRuntime
from tests.unit.web.kit import SOON, Gates, Site, site


async def saved(served: Site, job_id: str, what: str) -> tuple[bytes, dict[str, str]]:
    url = served.url(f"api/jobs/{job_id}/{what}")
    async with asyncio.timeout(SOON), served.http.get(url) as response:
        assert response.status == 200, await response.text()
        disposition = response.headers["Content-Disposition"]
        assert disposition.startswith(f'attachment; filename="{job_id}.')
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        return await response.read(), dict(response.headers)


async def followed(served: Site, job_id: str) -> None:
    await served.tab(job_id).follow()


async def test_a_transcript_has_every_event_and_is_complete(
    dashboard: Site, other: Client, tmp_path: Path
) -> None:
    job = await other.submit("say", {"lines": 500})
    await followed(dashboard, job.id)
    data, headers = await saved(dashboard, job.id, "transcript")
    assert headers["Content-Type"].startswith("application/jsonl")
    path = tmp_path / "saved.jsonl"
    path.write_bytes(data)
    with transcripts.read(path) as reader:
        lines = list(reader)
        assert reader.complete
    told = [line.event for line in lines if isinstance(line, transcripts.EventLine)]
    logged = [event.message for event in told if isinstance(event, events.Log)]
    assert logged == [f"{n}".ljust(10, ".") for n in range(500)]
    assert isinstance(told[-1], events.Completed)
    [first] = [line for line in lines if isinstance(line, transcripts.JobLine)]
    assert (first.job_id, first.agent) == (job.id, "say")
    [outcome] = [line for line in lines if isinstance(line, transcripts.OutcomeLine)]
    assert (outcome.status, outcome.error) == ("success", None)


async def test_the_transcript_of_a_running_job_is_marked_as_interrupted(
    dashboard: Site, other: Client, gates: Gates
) -> None:
    job = await other.submit("say", {"lines": 10, "gate": "half"})
    await dashboard.tab(job.id).follow(lambda timeline: len(timeline.numbers) >= 5)
    data, _ = await saved(dashboard, job.id, "transcript")
    assert data.splitlines()[-1].startswith(b'{"type":"end"')
    assert b'"interrupted"' in data.splitlines()[-1]
    gates["half"].set()
    await job.result()


async def test_a_transcript_has_the_error_of_a_failed_job(dashboard: Site, other: Client) -> None:
    job = await other.submit("fail")
    await followed(dashboard, job.id)
    data, _ = await saved(dashboard, job.id, "transcript")
    assert b'"INTERNAL_ERROR"' in data.splitlines()[-2]


async def test_events_that_are_not_kept_any_more_are_a_gap_in_the_transcript(
    client: Client, other: Client, tmp_path: Path
) -> None:
    job = await other.submit("say", {"lines": 400, "size": 1000})
    async with site(client, memory=100_000) as served:
        await followed(served, job.id)
        data, _ = await saved(served, job.id, "transcript")
    path = tmp_path / "saved.jsonl"
    path.write_bytes(data)
    with transcripts.read(path) as reader:
        told = [line.event for line in reader if isinstance(line, transcripts.EventLine)]
    gap, oldest = told[0], told[1]
    assert isinstance(gap, events.Gap)
    assert gap.reason == "not_retained"
    assert oldest.seq is not None
    assert gap.last == oldest.seq - 1


async def test_a_transcript_that_was_saved_can_be_played(
    dashboard: Site, other: Client, tmp_path: Path
) -> None:
    job = await other.submit("say", {"lines": 20})
    await followed(dashboard, job.id)
    data, _ = await saved(dashboard, job.id, "transcript")
    path = tmp_path / "saved.jsonl"
    path.write_bytes(data)
    async with (
        ReplayedRuntime(path, speed=None) as runtime,
        Client(runtime) as client,
        site(client) as served,
        asyncio.timeout(SOON),
    ):
        await runtime.played()
        timeline = await served.tab(runtime.jobs[job.id]).follow()
    assert timeline.end == "success"
    assert [each["kind"] for each in timeline.events] == ["log"] * 20 + ["result"]


@pytest.mark.parametrize(
    ("value", "kind", "data"),
    [
        ({"a": [1, 2]}, "application/json", b'{"a":[1,2]}\n'),
        ("plain ü", "text/plain; charset=utf-8", "plain ü".encode()),
        (None, "application/json", b"null\n"),
        ("<script>alert(1)</script>", "text/plain; charset=utf-8", b"<script>alert(1)</script>"),
    ],
    ids=["json", "text", "null", "markup"],
)
async def test_a_result_is_saved_with_its_type(
    dashboard: Site, other: Client, value: Any, kind: str, data: bytes
) -> None:
    job = await other.submit("echo", value)
    await followed(dashboard, job.id)
    found, headers = await saved(dashboard, job.id, "result")
    assert (found, headers["Content-Type"]) == (data, kind)


async def test_a_streamed_result_is_saved_whole(dashboard: Site, other: Client) -> None:
    text = await other.submit("text", ["one ", "two ", "three"])
    await followed(dashboard, text.id)
    found, headers = await saved(dashboard, text.id, "result")
    assert (found, headers["Content-Type"]) == (b"one two three", "text/plain; charset=utf-8")
    binary = await other.submit("binary", 100)
    await followed(dashboard, binary.id)
    found, headers = await saved(dashboard, binary.id, "result")
    assert found == b"".join(bytes([n]) * 1000 for n in range(100))
    assert headers["Content-Type"] == "application/octet-stream"


async def test_there_is_no_result_before_the_end_and_none_of_a_job_that_failed(
    dashboard: Site, other: Client, gates: Gates
) -> None:
    job = await other.submit("gated", "one")
    status, found = await dashboard.get(f"api/jobs/{job.id}/result")
    assert (status, found["error"]["code"]) == (409, "NOT_ENDED")
    gates["one"].set()
    await job.result()
    failed = await other.submit("fail")
    await followed(dashboard, failed.id)
    status, found = await dashboard.get(f"api/jobs/{failed.id}/result")
    assert (status, found["error"]["code"]) == (409, "INTERNAL_ERROR")
