"""Tests of blocking code are plain functions. The runtime runs in the loop thread of the client."""

import asyncio

import pytest

from arcp_client.sync import Client, Job, Runtime, errors


def shown(job: Job) -> str:
    """The program under test."""
    try:
        return f"the total is {job.result(timeout=60).value}"
    except errors.JobCancelled as error:
        return f"cancelled: {error.message}"
    except errors.JobFailed as error:  # JobCancelled is a JobFailed, so it comes first
        return f"failed: {error.message}"


@pytest.fixture
def client():
    runtime = Runtime()

    @runtime.agent("add")
    async def add(numbers, job):
        if not numbers:
            raise ValueError("there are no numbers")
        return sum(numbers)

    @runtime.agent("wait")
    async def wait(input, job):
        await asyncio.Event().wait()

    with Client(runtime) as client:
        yield client


def test_a_result_is_shown(client):
    assert shown(client.submit("add", [1, 2, 3])) == "the total is 6"


def test_a_failure_is_shown(client):
    assert shown(client.submit("add", [])) == "failed: the agent failed"


def test_a_cancellation_is_shown(client):
    job = client.submit("wait")
    job.cancel("not needed")
    assert shown(job) == "cancelled: not needed"
