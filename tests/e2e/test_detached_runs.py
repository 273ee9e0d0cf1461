"""``arcp-client run --detach``: a job that would end with its session is not submitted."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Wait
from tests.e2e.shell import fresh, run
from tests.interop.rules import rule


async def run_detached(tmp_path: Path, url: str) -> tuple[int, str, str]:
    words = ("run", "gated", "--detach", "--url", url)
    done = await asyncio.to_thread(run, fresh(tmp_path), *words, cwd=tmp_path)
    return done.returncode, done.stdout, done.stderr


@rule("note-9")
@pytest.mark.parametrize("dialect", ["typescript", "spec"])
async def test_s21_a_job_that_would_end_with_the_session_is_not_submitted(
    dialect: str, tmp_path: Path
) -> None:
    agents = {"gated": [Wait("go")]}
    async with ScriptedRuntime(dialect, agents=agents) as runtime, runtime.serve() as served:
        code, out, err = await run_detached(tmp_path, served.url)
        if dialect == "spec":
            assert (code, out.strip()) == (0, next(iter(runtime.jobs)))
            assert [job.status for job in runtime.jobs.values()] == ["running"]
        else:
            assert (code, out, runtime.jobs) == (2, "", {})
            assert "ends the jobs of a session with it" in err
            assert "without --detach" in err
