"""What notebooks show is escaped, short, and says what a reader looks for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from arcp_client import Client, JobContext, Runtime, events, sync
from arcp_client._html import escaped, table
from arcp_client._notebook import in_kernel, show_live
from arcp_client.errors import JobFailed
from arcp_client.models import Result


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("<img src=x onerror=alert()>&", "&lt;img src=x onerror=alert()&gt;&amp;"),
        ("a\"b'c", "a&quot;b&#x27;c"),
        (7, "7"),
        ("a\u202eb", "a\ufffdb"),
        ("x" * 3000, "x" * 2000 + "… (3000 characters)"),
    ],
)
def test_values_are_escaped_and_cut(value: object, shown: str) -> None:
    assert escaped(value) == shown


def test_every_part_of_a_table_is_escaped_and_missing_values_are_left_out() -> None:
    html = table("<1>", [("<2>", "<3>"), ("none", None)])
    assert "<1>" not in html
    assert "<2>" not in html
    assert "<3>" not in html
    assert "none" not in html


def test_an_event_shows_its_fields() -> None:
    moment = datetime(2026, 11, 29, 12, tzinfo=UTC)
    html = events.Log(seq=7, job_id="job_1", message="<b>", level="warn", ts=moment)._repr_html_()
    for part in ("Log 7", "job_1", "&lt;b&gt;", "warn", "2026-11-29 12:00:00+00:00"):
        assert part in html
    assert "<b>&" not in html


def test_a_result_shows_its_value() -> None:
    html = Result(value={"a": "<i>"}, summary="short")._repr_html_()
    assert "{&#x27;a&#x27;: &#x27;&lt;i&gt;&#x27;}" in html
    assert "short" in html
    assert "size" not in html


async def test_jobs_and_clients_show_their_state() -> None:
    runtime = Runtime(name="<nb>")

    @runtime.agent("work")
    async def work(_: Any, job: JobContext) -> None:
        await job.progress(3, 10, units="files", message="<reading>")
        await job.cancelled.wait()

    client = Client(runtime)
    assert "Connecting" in client._repr_html_()
    async with runtime, client:
        job = await client.submit("work")
        async for _ in job:
            break
        html = job._repr_html_()
        for part in (job.id, "work", "running", "3 / 10 files &lt;reading&gt;"):
            assert part in html
        state = client._repr_html_()
        for part in ("runtime://&lt;nb&gt;", "Live(resumed=False)", client.session.id, job.id):
            assert part in state
        with pytest.raises(NotImplementedError):  # IPython then shows the HTML or the text
            show_live(job)
        await job.cancel()
    assert not in_kernel()


async def test_a_job_says_why_it_failed_and_that_its_client_is_closed() -> None:
    runtime = Runtime(name="nb")

    @runtime.agent("fails")
    async def fails(_: Any, job: JobContext) -> None:
        raise ValueError("no paper")

    @runtime.agent("waits")
    async def waits(_: Any, job: JobContext) -> None:
        await job.cancelled.wait()

    async with runtime:
        async with Client(runtime) as client:
            failing = await client.submit("fails")
            with pytest.raises(JobFailed):
                await failing.result()
            waiting = await client.submit("waits")
        assert "INTERNAL_ERROR" in failing._repr_html_()
        assert "the client is closed" in waiting._repr_html_()


def test_the_blocking_client_shows_the_same() -> None:
    runtime = Runtime(name="nb")

    @runtime.agent("work")
    async def work(_: Any, job: JobContext) -> str:
        return "done"

    with sync.Client(runtime) as client:
        job = client.submit("work")
        job.result()
        assert "success" in job._repr_html_()
        assert "runtime://nb" in client._repr_html_()
