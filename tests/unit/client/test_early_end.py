"""A job that ends while the client still asks about it: the end is the job's, not the answer."""

from __future__ import annotations

from typing import Any

import pytest

from arcp_client import Client, JobContext, Runtime
from arcp_client.errors import JobFailed


@pytest.mark.parametrize(
    "code", ["INVALID_REQUEST", "PERMISSION_DENIED", "JOB_NOT_FOUND", "DUPLICATE_KEY"]
)
async def test_a_failure_with_the_code_of_a_refusal_is_the_jobs_own(code: str) -> None:
    runtime = Runtime()

    @runtime.agent("picky")
    async def picky(input: Any, job: JobContext) -> None:
        raise JobFailed("not like this", code=code)

    # A key of the caller's makes the client subscribe to the job at once: it may be an old one.
    async with runtime, Client(runtime) as client:
        job = await client.submit("picky", idempotency_key="mine")
        with pytest.raises(JobFailed) as failed:
            await job.result()
    assert (failed.value.code, failed.value.message) == (code, "not like this")
