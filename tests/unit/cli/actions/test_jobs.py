"""A listing ends, whatever the runtime lists and whenever somebody has had enough of it."""

from __future__ import annotations

import asyncio
import itertools
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from arcp_client import JobSummary
from arcp_client.cli.actions import jobs
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import execute
from arcp_client.cli.output_format import Output

HERE = Place("ws://x/", None, Output.JSONL, connect_timeout=1.0, reconnect_for=1.0)


@pytest.fixture(autouse=True)
def logger() -> Iterator[None]:
    """Commands log to stderr; the tests behind this one do not."""
    logger = logging.getLogger("arcp_client")
    before = list(logger.handlers), logger.propagate
    yield
    logger.handlers[:], logger.propagate = before


class Endless:
    """A runtime that has always one more job to list."""

    interrupt = False

    async def jobs(self, **_: Any) -> AsyncIterator[JobSummary]:
        for n in itertools.count():
            if self.interrupt and n == 10:
                os.kill(os.getpid(), signal.SIGINT)
            if self.interrupt or n % 1000 == 0:
                await asyncio.sleep(0)
            yield JobSummary(job_id=f"j{n}", agent="a", status="running")


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> Endless:
    runtime = Endless()

    @asynccontextmanager
    async def connected(*_: Any, **__: Any) -> AsyncIterator[Endless]:
        yield runtime

    monkeypatch.setattr(jobs, "connected", connected)
    return runtime


def listed(**options: Any) -> CommandError:
    with pytest.raises(CommandError) as problem:
        jobs.jobs(HERE, status=[], agent=None, every=0.0, **options)
    return problem.value


@pytest.mark.parametrize("watch", [False, True])
def test_more_jobs_than_can_be_held_are_not_listed_in_part(
    endless: Endless, watch: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    problem = listed(watch=watch)
    assert (problem.code, problem.happened) == (
        Exit.FAILED,
        "the runtime lists more than 100,000 jobs",
    )
    assert capsys.readouterr().out == ""


def test_a_signal_ends_a_listing_that_does_not_end(
    endless: Endless, capsys: pytest.CaptureFixture[str]
) -> None:
    endless.interrupt = True
    assert listed(watch=False).code is Exit.INTERRUPTED
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_wherever_it_is(sent: signal.Signals) -> None:
    async def body(_: object) -> Exit:
        os.kill(os.getpid(), sent)
        async with asyncio.timeout(20):
            await asyncio.get_running_loop().create_future()
        return Exit.SUCCESS

    with pytest.raises(CommandError) as problem:
        execute(body, at_once=True)
    assert problem.value.code is Exit.INTERRUPTED
