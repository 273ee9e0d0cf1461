"""A job with ``retries`` is submitted again while it fails with a retryable error."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, JobContext, Runtime, events
from arcp_client import sync as blocking
from arcp_client.errors import ClientClosed, DuplicateKey, JobCancelled, JobFailed
from arcp_client.testing import VirtualClock


class Flaky:
    """An agent that fails as often as its input says, and what its jobs were."""

    def __init__(self, runtime: Runtime) -> None:
        self.works: list[str] = []
        self.jobs: list[str] = []
        self.begun = asyncio.Event()
        runtime.agent("flaky")(self.run)
        runtime.agent("streams")(self.stream)
        runtime.agent("hopeless")(self.give_up)

    def note(self, job: JobContext) -> int:
        self.works.append(job.work_id)
        self.jobs.append(job.id)
        return len(self.jobs)

    async def run(self, input: int, job: JobContext) -> Any:
        n = self.note(job)
        await job.log(f"attempt {n}")
        if n <= input:
            raise JobFailed("the model is overloaded", code="UNAVAILABLE", retryable=True)
        return n

    async def stream(self, input: int, job: JobContext) -> None:
        n = self.note(job)
        await job.chunk(f"attempt {n}, ")
        if n <= input:
            raise JobFailed("the model is overloaded", code="UNAVAILABLE", retryable=True)
        await job.chunk("whole", more=False)

    async def give_up(self, input: Any, job: JobContext) -> None:
        self.note(job)
        raise JobFailed("no such city", code="INVALID_REQUEST", retryable=False)


@pytest.fixture
def flaky(runtime: Runtime) -> Flaky:
    return Flaky(runtime)


async def test_the_result_is_that_of_the_attempt_that_succeeds(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("flaky", 2, retries=3)
    first = job.id
    assert (await job.result()).value == 3
    assert job.attempts == tuple(flaky.jobs)
    assert job.attempts[0] == first
    assert job.id == job.attempts[-1]
    assert job.status == "success"
    assert len(set(flaky.works)) == 1


async def test_an_iteration_continues_with_the_events_of_the_next_attempt(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("flaky", 1, retries=1)
    seen = [event async for event in job]
    assert [type(event) for event in seen] == [
        events.Log,
        events.Failed,
        events.Log,
        events.Completed,
    ]
    assert [event.job_id for event in seen] == [job.attempts[0]] * 2 + [job.attempts[1]] * 2
    late = [event.kind async for event in job.events(events.Log)]
    assert late == ["log", "log"]


async def test_the_last_error_is_raised_when_no_retry_is_left(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("flaky", 10, retries=2)
    with pytest.raises(JobFailed, match="overloaded"):
        await job.result()
    assert len(flaky.jobs) == 3
    assert [event.kind async for event in job][-1] == "error"
    assert await job.next_attempt() is None


async def test_an_error_that_is_not_retryable_ends_the_job(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("hopeless", retries=5)
    with pytest.raises(JobFailed, match="no such city"):
        await job.result()
    assert len(flaky.jobs) == 1


async def test_a_cancelled_job_is_not_begun_again(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("stuck", retries=5)
    await job.cancel()
    with pytest.raises(JobCancelled):
        await job.result()
    assert await job.next_attempt() is None


async def test_without_retries_a_job_is_its_only_attempt(client: Client, flaky: Flaky) -> None:
    job = await client.submit("flaky", 1)
    with pytest.raises(JobFailed):
        await job.result()
    assert job.attempts == (job.id,)
    assert await job.next_attempt() is None
    with pytest.raises(ValueError, match="is not an attempt"):
        await job.next_attempt("job_other")


async def test_the_attempts_are_announced_one_by_one(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("flaky", 2, retries=2)
    found: list[str] = [job.id]
    while (following := await job.next_attempt(found[-1])) is not None:
        found.append(following)
    assert tuple(found) == job.attempts


async def test_a_key_leads_to_the_present_attempt_after_a_restart(
    clock: VirtualClock, runtime: Runtime, flaky: Flaky
) -> None:
    async with Client(runtime) as first:
        job = await first.submit("flaky", 2, idempotency_key="k", retries=5)
        assert (await job.result()).value == 3
    async with Client(runtime) as second:
        again = await second.submit("flaky", 2, idempotency_key="k", retries=5)
        assert (await again.result()).value == 3
        assert again.attempts == job.attempts
    assert len(flaky.jobs) == 3
    assert set(flaky.works) == {"k"}


async def test_a_work_id_of_the_caller_counts(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("flaky", 1, work_id="order-7", retries=1)
    await job.result()
    assert flaky.works == ["order-7", "order-7"]


async def test_two_submits_with_one_key_share_their_attempts(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    jobs = [await client.submit("flaky", 1, idempotency_key="k", retries=2) for _ in range(2)]
    results = await asyncio.gather(*(job.result() for job in jobs))
    assert [result.value for result in results] == [2, 2]
    assert len(flaky.jobs) == 2
    with pytest.raises(DuplicateKey):
        await client.submit("flaky", 9, idempotency_key="k", retries=2)


async def test_the_pause_before_an_attempt_grows(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("flaky", 3, retries=3)
    times = [clock.time()]
    while await job.next_attempt(job.attempts[len(times) - 1]) is not None:
        times.append(clock.time())
    pauses = [b - a for a, b in pairwise(times)]
    assert len(pauses) == 3
    for n, pause in enumerate(pauses):
        assert 0.4 * 2**n <= pause <= 1.1 * 2**n


async def test_a_closed_client_begins_nothing_again(
    clock: VirtualClock, runtime: Runtime, flaky: Flaky
) -> None:
    client = Client(runtime)
    await client.connect()
    job = await client.submit("flaky", 9, retries=9)
    async for event in job:
        if event.terminal:
            break
    waiting = asyncio.create_task(job.result())
    await asyncio.sleep(0)
    await client.close()
    with pytest.raises(ClientClosed):
        await waiting
    assert len(flaky.jobs) == 1


async def test_an_attempt_that_is_refused_ends_the_job_and_says_so(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("flaky", 9, retries=3, idempotency_key="k")
    blocker = await client.submit("echo", 1, idempotency_key="k~1")
    await blocker.result()
    with pytest.raises(JobFailed, match="overloaded") as failed:
        await job.result()
    assert "attempt 2 was refused" in failed.value.__notes__[-1]


async def test_a_file_has_the_result_of_the_last_attempt_only(
    clock: VirtualClock, client: Client, flaky: Flaky, tmp_path: Path
) -> None:
    job = await client.submit("streams", 2, retries=2)
    await job.save(tmp_path / "result")
    assert (tmp_path / "result").read_text() == "attempt 3, whole"


async def test_chunks_of_two_attempts_are_not_mixed(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("streams", 1, retries=1)
    pieces: list[bytes] = []
    with pytest.raises(JobFailed):
        async for chunk in job.chunks():
            pieces.append(chunk)  # noqa: PERF401 - it must keep what came before the error
    assert b"".join(pieces) == b"attempt 1, "
    await job.result()
    assert b"".join([chunk async for chunk in job.chunks()]) == b"attempt 2, whole"


async def test_closing_an_iterator_ends_its_wait_for_an_attempt(
    clock: VirtualClock, client: Client, flaky: Flaky
) -> None:
    job = await client.submit("flaky", 1, retries=1)
    iterator = job.events()
    seen = [await anext(iterator), await anext(iterator)]
    assert seen[-1].terminal
    waiting = asyncio.create_task(anext(iterator, None))
    await asyncio.sleep(0)
    await iterator.aclose()
    assert await waiting is None
    await job.result()


async def test_a_key_that_is_too_long_for_its_attempts_is_refused(client: Client) -> None:
    with pytest.raises(ValueError, match="idempotency_key"):
        await client.submit("echo", idempotency_key="k" * 255, retries=1)


def test_a_blocking_client_iterates_over_all_attempts() -> None:
    runtime = Runtime()
    jobs: list[str] = []

    @runtime.agent("flaky")
    async def flaky(input: Any, job: JobContext) -> int:
        jobs.append(job.id)
        for n in range(3):
            await job.log(f"{n}")
        if len(jobs) == 1:
            raise JobFailed("overloaded", code="UNAVAILABLE", retryable=True)
        return len(jobs)

    with blocking.Client(runtime) as client:
        job = client.submit("flaky", retries=1)
        kinds = [event.kind for event in job]
        assert kinds == ["log"] * 3 + ["error"] + ["log"] * 3 + ["result"]
        assert job.result().value == 2
        assert job.attempts == tuple(jobs)
        assert job.next_attempt() is None
