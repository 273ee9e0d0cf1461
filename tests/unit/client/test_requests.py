"""Submitting, watching, listing, cancelling, pinging: every request ends (S6, S7)."""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from pydantic import BaseModel

from arcp_client import Client, Job, JobView, Lease, Runtime, events
from arcp_client.errors import (
    AgentNotFound,
    AgentVersionNotFound,
    DuplicateKey,
    JobCancelled,
    JobFailed,
    JobNotFound,
    JobTimedOut,
    LeaseExpired,
)
from tests.unit.client.conftest import Gates


async def test_submit_gives_a_job_with_its_resolved_agent(client: Client) -> None:
    job = await client.submit("echo", {"x": [1, 2]})
    assert job.agent == "echo@1.0.0"
    assert job.trace_id is not None
    assert (await job.result()).value == {"x": [1, 2]}
    assert job.status == "success"


async def test_the_input_is_copied_when_the_call_is_made(client: Client) -> None:
    given = {"list": [1]}
    submitting = asyncio.ensure_future(client.submit("echo", given))
    await asyncio.sleep(0)
    given["list"].append(2)
    assert (await (await submitting).result()).value == {"list": [1]}


async def test_inputs_may_be_dataclasses_models_datetimes_and_decimals(client: Client) -> None:
    @dataclass
    class Data:
        n: int

    class Model(BaseModel):
        when: datetime

    moment = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    given = {"d": Data(1), "m": Model(when=moment), "t": moment, "e": Decimal("1.5")}
    value = (await (await client.submit("echo", given)).result()).value
    assert value["d"] == {"n": 1}
    assert value["e"] == 1.5
    assert value["t"].startswith("2026-01-02T03:04:05")
    assert value["m"]["when"].startswith("2026-01-02T03:04:05")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"agent": "Not A Name"}, "agent"),
        ({"agent": "echo", "input": float("nan")}, "JSON"),
        ({"agent": "echo", "input": {1, 2, 3} - {1, 2, 3, 4} | {object()}}, "JSON"),
        ({"agent": "echo", "lease": {"fs.read": "/src/**"}}, "list"),
        ({"agent": "echo", "lease": "fs.read"}, "a mapping"),
        ({"agent": "echo", "expires_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"agent": "echo", "max_runtime": 0}, "max_runtime"),
        ({"agent": "echo", "trace_id": "nope"}, "trace_id"),
        ({"agent": "echo", "idempotency_key": ""}, "idempotency_key"),
    ],
)
async def test_what_no_runtime_could_accept_is_refused_here(
    client: Client, arguments: dict[str, object], says: str
) -> None:
    with pytest.raises((TypeError, ValueError), match=says):
        await client.submit(**arguments)  # type: ignore[arg-type]


async def test_an_unknown_agent_and_an_unknown_version_are_told_apart(client: Client) -> None:
    with pytest.raises(AgentNotFound):
        await client.submit("nobody")
    with pytest.raises(AgentVersionNotFound):
        await client.submit("echo@9.9.9")


async def test_two_requests_at_once_get_their_own_answers(client: Client) -> None:
    good, bad = await asyncio.gather(
        client.submit("echo", 1), client.submit("nobody"), return_exceptions=True
    )
    assert isinstance(good, Job)
    assert isinstance(bad, AgentNotFound)
    assert (await good.result()).value == 1


async def test_an_open_key_with_the_same_parameters_gives_the_same_job(client: Client) -> None:
    first = await client.submit("stuck", 1, idempotency_key="k")
    again = await client.submit("stuck", 1, idempotency_key="k")
    assert again is first
    with pytest.raises(DuplicateKey):
        await client.submit("stuck", 2, idempotency_key="k")
    await first.cancel()


async def test_a_key_of_an_earlier_session_gives_its_outcome(runtime: Runtime) -> None:
    async with Client(runtime) as first:
        job = await first.submit("echo", "once", idempotency_key="nightly")
        await job.result()
    async with Client(runtime) as second:
        again = await second.submit("echo", "once", idempotency_key="nightly")
        assert again.id == job.id
        assert (await again.result()).value == "once"


async def test_a_key_of_an_earlier_session_is_followed_while_its_job_runs(
    runtime: Runtime, gates: Gates
) -> None:
    async with Client(runtime) as first:
        job = await first.submit("gated", "g", idempotency_key="nightly")
        async for event in job:
            if isinstance(event, events.Log):
                break
    async with Client(runtime) as second:
        again = await second.submit("gated", "g", idempotency_key="nightly")
        assert again.id == job.id
        gates["g"].set()
        messages = [e.message async for e in again.events(events.Log)]
        assert messages[-1] == "after"
        assert (await again.result()).value == "g"


async def test_cancel_returns_once_acknowledged_and_the_result_is_job_cancelled(
    client: Client,
) -> None:
    job = await client.submit("stuck")
    await job.cancel("enough")
    with pytest.raises(JobCancelled) as caught:
        await job.result()
    assert caught.value.job_id == job.id
    assert job.status == "cancelled"
    await job.cancel()  # it has ended: nothing to do, nothing to raise


async def test_a_failed_job_raises_the_same_outcome_each_time(client: Client) -> None:
    job = await client.submit("fail")
    for _ in range(2):
        with pytest.raises(JobFailed) as caught:
            await job.result()
        assert caught.value.code == "INTERNAL_ERROR"
        assert "boom" not in str(caught.value)


async def test_max_runtime_ends_a_job_as_timed_out(client: Client) -> None:
    job = await client.submit("stuck", max_runtime=0.5)
    with pytest.raises(JobTimedOut):
        await job.result()
    assert job.status == "timed_out"


async def test_a_lease_and_its_expiry_come_back_with_the_acceptance(client: Client) -> None:
    expires = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    lease = Lease({"fs.read": ("/src/**",), "cost.budget": ("USD:1.50",)})
    job = await client.submit("stuck", lease=lease, expires_at=expires)
    assert job.lease.get("fs.read") == ("/src/**",)
    assert job.lease_constraints.expires_at == expires
    assert job.budget == {"USD": Decimal("1.5")}
    await job.cancel()


async def test_an_expired_lease_is_an_error_of_its_own(client: Client) -> None:
    expires = datetime.now(UTC) + timedelta(seconds=0.2)
    job = await client.submit("stuck", expires_at=expires)
    with pytest.raises(LeaseExpired) as caught:
        await job.result()
    assert not caught.value.retryable


async def test_chunked_text_is_joined_to_str_and_binary_to_bytes(client: Client) -> None:
    text = await (await client.submit("text", ["a", "ß", "😀"])).result()
    assert (text.value, text.size) == ("aß😀", len("aß😀".encode()))
    assert text.result_id is not None
    binary = await (await client.submit("binary", 3)).result()
    assert binary.value == bytes(1000) + b"\x01" * 1000 + b"\x02" * 1000


async def test_chunks_can_be_read_while_they_come_and_saved_to_a_file(
    client: Client, tmp_path: object
) -> None:
    job = await client.submit("binary", 3)
    pieces = [piece async for piece in job.chunks()]
    assert b"".join(pieces) == (await job.result()).value
    path = tmp_path / "result.bin"  # type: ignore[operator]
    assert await job.save(path) == 3000
    assert path.read_bytes() == b"".join(pieces)
    inline = await client.submit("echo", {"a": 1})
    assert await inline.save(path) == path.stat().st_size
    assert path.read_text() == '{\n  "a": 1\n}\n'


@pytest.mark.parametrize(
    ("value", "saved"),
    [("text", b"text"), ("line\n", b"line\n"), ("", b""), (None, b"null\n"), ([], b"[]\n")],
)
async def test_only_a_result_that_is_saved_as_json_gets_a_newline(
    client: Client, tmp_path: Path, value: object, saved: bytes
) -> None:
    job = await client.submit("echo", value)
    await job.save(tmp_path / "result")
    assert (tmp_path / "result").read_bytes() == saved


async def test_a_result_replaces_files_only_and_writes_through_nothing(
    client: Client, tmp_path: Path
) -> None:
    job = await client.submit("echo", "result")
    await job.result()
    pipe, precious = tmp_path / "pipe", tmp_path / "precious"
    os.mkfifo(pipe)
    precious.write_text("mine")
    (tmp_path / ".to.part").symlink_to(precious)
    (tmp_path / "to").symlink_to(precious)
    for path in (pipe, tmp_path):
        with pytest.raises(FileExistsError):
            await job.save(path)
    await job.save(tmp_path / "to")
    assert pipe.is_fifo()
    assert precious.read_text() == "mine"
    assert (tmp_path / "to").read_text() == "result"
    assert len(list(tmp_path.iterdir())) == 4


async def test_jobs_lists_page_by_page_with_filters(client: Client) -> None:
    made = [await client.submit("echo", n) for n in range(120)]
    for job in made:
        await job.result()
    waiting = await client.submit("stuck")
    listed = [summary async for summary in client.jobs()]
    assert {summary.job_id for summary in listed} == {job.id for job in [*made, waiting]}
    running = [s.job_id async for s in client.jobs(status=["running"])]
    assert running == [waiting.id]
    assert [s.job_id async for s in client.jobs(agent="stuck")] == [waiting.id]
    later = datetime.now(UTC) + timedelta(days=1)
    assert [s async for s in client.jobs(created_after=later)] == []
    with pytest.raises(ValueError, match="time zone"):
        _ = [s async for s in client.jobs(created_after=datetime(2026, 1, 1))]  # noqa: DTZ001
    await waiting.cancel()


async def test_open_jobs_are_those_whose_outcome_is_not_known(client: Client) -> None:
    waiting = await client.submit("stuck")
    done = await client.submit("echo")
    await done.result()
    assert client.open_jobs() == [waiting]
    assert client.job(waiting.id) is waiting
    assert client.job("job_unheard_of") is None
    await waiting.cancel()


async def test_watching_from_another_session_gives_history_and_the_rest(
    runtime: Runtime, gates: Gates
) -> None:
    async with Client(runtime) as submitter, Client(runtime) as observer:
        job = await submitter.submit("gated", "w")
        async for event in job:
            if isinstance(event, events.Log):
                break
        view = await observer.watch(job.id, history=True)
        assert isinstance(view, JobView)
        assert view.history_last == event.id
        gates["w"].set()
        seen = [e.message async for e in view.events(events.Log)]
        assert seen == ["before", "after"]
        assert (await view.result()).value == "w"


async def test_a_submit_under_the_key_of_a_job_of_another_session_names_the_end_of_its_history(
    runtime: Runtime, gates: Gates
) -> None:
    async with Client(runtime) as first, Client(runtime) as second:
        job = await first.submit("gated", "w", idempotency_key="k")
        assert job.history_last == "", "it begins now"
        async for event in job:
            if isinstance(event, events.Log):
                break
        assert job.history_last == event.id, "the client has all of it"
        same = await second.submit("gated", "w", idempotency_key="k")
        assert same.id == job.id
        assert same.history_last is None, "its subscription is not confirmed"
        past = await anext(same.events())
        assert same.history_last == past.id == event.id
        gates["w"].set()
        assert (await same.result()).value == "w"


async def test_handlers_get_the_history_of_a_watched_job(runtime: Runtime) -> None:
    async with Client(runtime) as submitter, Client(runtime) as observer:
        job = await submitter.submit("say", ["a", "b"])
        await job.result()
        seen: list[str] = []
        observer.on(events.Log)(lambda event: seen.append(event.message))
        view = await observer.watch(job.id, history=True)
        await view.result()
        assert seen == ["a", "b"]


async def test_watching_a_finished_job_with_history_ends_with_its_outcome(
    runtime: Runtime,
) -> None:
    async with Client(runtime) as submitter, Client(runtime) as observer:
        job = await submitter.submit("say", ["a", "b"])
        await job.result()
        view = await observer.watch(job.id, history=True)
        kinds = [event.kind async for event in view]
        assert kinds[-1] == "result"
        assert kinds.count("log") == 2
        assert (await view.result()).value == 2


async def test_watching_from_a_number_counts_as_the_submitting_session_does(
    runtime: Runtime,
) -> None:
    """S11."""
    async with Client(runtime) as submitter, Client(runtime) as observer:
        await (await submitter.submit("say", ["an earlier job moves", "the numbers"])).result()
        job = await submitter.submit("say", ["a", "b", "c"])
        first = await anext(aiter(job.events(events.Log)))
        await job.result()
        view = await observer.watch(job.id, history=True, from_seq=first.seq)
        assert [event.message async for event in view.events(events.Log)] == ["b", "c"]


async def test_watching_ones_own_job_adds_no_second_copy(client: Client, gates: Gates) -> None:
    """S11."""
    seen: list[str] = []

    @client.on(events.Log)
    async def handle(event: events.Log) -> None:
        seen.append(event.message)

    job = await client.submit("gated", "own")
    view = await client.watch(job.id, history=True)
    gates["own"].set()
    await job.result()
    assert (await view.result()).value == "own"
    assert seen == ["before", "after"]


async def test_watching_what_nobody_knows_is_job_not_found(client: Client) -> None:
    with pytest.raises(JobNotFound):
        await client.watch("job_01JZZZZZZZZZZZZZZZZZZZZZZZ")


async def test_unsubscribing_ends_the_view_and_may_be_repeated(
    runtime: Runtime, gates: Gates
) -> None:
    async with Client(runtime) as submitter, Client(runtime) as observer:
        job = await submitter.submit("gated", "u")
        view = await observer.watch(job.id)
        await view.unsubscribe()
        await view.unsubscribe()
        gates["u"].set()
        assert (await job.result()).value == "u"


async def test_ping_gives_the_round_trip_in_seconds(client: Client) -> None:
    assert 0 <= await client.ping() < 60
