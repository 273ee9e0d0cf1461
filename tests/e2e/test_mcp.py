"""``arcp-client mcp`` as a process between a real runtime and the official MCP client."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, StdioServerParameters

from tests.e2e.shell import COMMAND, Env, fresh, run, serving
from tests.forks import Process
from tests.unit.mcp.mcp_tasks import Created, Tasks, ended

pytestmark = pytest.mark.usefixtures("forked")

HERE = Path(__file__).parent
REPORT = {"title": "May", "pages": 2}


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Env:
    return fresh(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def url(env: Env) -> Iterator[str]:
    with serving(env, "--agents", "cli_agents:make") as (url, _):
        yield url


@pytest.fixture(params=["auto", "legacy"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stdio(env: Env, url: str, *options: str) -> StdioServerParameters:
    """What an MCP client starts."""
    return StdioServerParameters(
        command=COMMAND[0], args=[*COMMAND[1:], "mcp", "--url", url, *options], env=env
    )


@contextmanager
def http(env: Env, url: str, *options: str) -> Iterator[tuple[str, Any]]:
    """``arcp-client mcp --http`` as a process; the URL of its endpoint."""
    words = [*COMMAND, "mcp", "--http", "--port", "0", "--url", url, *options]
    pipe = subprocess.PIPE
    with Process(words, stdin=subprocess.DEVNULL, stderr=pipe, text=True, env=env) as process:
        try:
            for line in process.stderr:
                if (found := re.search(r"http://\S+", line)) is not None:
                    break
            else:
                raise AssertionError("it does not listen")
            yield found[0], process
        finally:
            process.terminate()
            process.communicate(timeout=30)


class Heard:
    def __init__(self) -> None:
        self.logged: list[Any] = []
        self.reported: list[Any] = []

    async def log(self, params: Any) -> None:
        self.logged.append(params.data)

    async def progress(self, current: float, total: float | None, message: str | None) -> None:
        self.reported.append((current, total))


async def use(server: Any, mode: str) -> None:
    """Use the agents as any MCP client would."""
    heard = Heard()
    async with Client(server, mode=mode, logging_callback=heard.log, log_level="info") as tools:
        listed = {tool.name: tool for tool in (await tools.list_tools()).tools}
        assert listed["report"].description == "Writes a report."
        assert listed["report"].input_schema["required"] == ["title"]
        answer = await tools.call_tool("report", REPORT)
        assert answer.structured_content["result"] == "May: 2 pages"
        refused = await tools.call_tool("report", {"title": "May", "pages": 0})
        assert refused.is_error
        assert set(refused.structured_content["fields"]) == {"pages"}
        counted = await tools.call_tool("slow", {"input": 0.0}, progress_callback=heard.progress)
        assert counted.structured_content["status"] == "success"
        await tools.call_tool("echo", {"input": [1]})
    assert heard.reported == [(0.0, 2.0), (1.0, 2.0)]
    assert "echoing" in heard.logged


async def test_the_official_client_uses_agents_over_stdio(env: Env, url: str, mode: str) -> None:
    await use(stdio(env, url), mode)


async def test_the_official_client_uses_agents_over_http(env: Env, url: str, mode: str) -> None:
    with http(env, url) as (endpoint, _):
        await use(endpoint, mode)


async def test_a_job_that_outlives_its_call_goes_on_in_a_second_process(
    env: Env, url: str, mode: str
) -> None:
    async with Client(stdio(env, url, "--wait", "0"), mode=mode) as tools:
        facts = (await tools.call_tool("slow", {"input": 1.0})).structured_content
        assert facts["status"] in ("pending", "running")
    async with Client(stdio(env, url), mode=mode) as tools:
        status = await tools.call_tool("job_status", {"job_id": facts["job_id"]})
        assert status.structured_content["agent"] == "slow"
        done = await tools.call_tool("job_result", {"job_id": facts["job_id"]})
        assert done.structured_content["status"] == "success"
        assert done.structured_content["result"] == 1.0


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_task_outlives_the_time_out_of_its_client_and_ends_in_a_second_process(
    env: Env, url: str, over: str
) -> None:
    """The job takes longer than the client would wait for an answer."""
    with contextlib.ExitStack() as stack:

        def bridge() -> Any:
            if over == "stdio":
                return stdio(env, url)
            return stack.enter_context(http(env, url))[0]

        async with Client(bridge(), extensions=[Tasks()], read_timeout_seconds=15) as tools:
            created = await tools.session.call_tool("slow", {"input": 20.0}, allow_claimed=True)
            assert isinstance(created, Created)
        async with Client(bridge(), extensions=[Tasks()], read_timeout_seconds=15) as tools:
            task = await ended(tools.session, created.task_id)
            assert task.status == "completed"
            assert task.result is not None
            assert task.result["structuredContent"]["result"] == 20.0


async def test_the_key_of_a_call_is_the_same_in_every_process(env: Env, url: str) -> None:
    found = []
    for given in (1, 1, 2):
        with http(env, url) as (endpoint, _):
            async with Client(endpoint) as tools:
                meta = {"arcp-client/idempotencyKey": "of a call"}
                answer = await tools.call_tool("echo", {"input": given}, meta=meta)
                found.append(answer.structured_content)
    assert found[0]["job_id"] == found[1]["job_id"]
    assert found[2]["code"] == "DUPLICATE_KEY"


async def test_a_second_process_cancels_a_job(env: Env, url: str) -> None:
    async with Client(stdio(env, url, "--wait", "0")) as tools:
        job_id = (await tools.call_tool("slow", {"input": 600})).structured_content["job_id"]
    with http(env, url) as (endpoint, _):
        async with Client(endpoint) as tools:
            answer = await tools.call_tool("job_cancel", {"job_id": job_id})
            assert answer.structured_content["status"] == "cancelled"
    assert '"cancelled"' in run(env, "status", job_id, "--json", "--url", url).stdout


@pytest.mark.parametrize("over", ["stdio", "http"])
async def test_a_cancelled_call_cancels_its_job(env: Env, url: str, mode: str, over: str) -> None:
    key = f"{over}-{mode}"
    with http(env, url) as (endpoint, _):
        server = endpoint if over == "http" else stdio(env, url)
        heard: asyncio.Queue[Any] = asyncio.Queue()

        async def log(params: Any) -> None:
            heard.put_nowait(params.data)

        async with Client(server, mode=mode, logging_callback=log, log_level="info") as tools:
            call = asyncio.create_task(tools.call_tool("slow", {"input": 600}))
            job_id = (await heard.get())["job_id"]
            call.cancel()
            await asyncio.wait({call})
            done = await tools.call_tool("job_result", {"job_id": job_id})
            assert done.structured_content["status"] == "cancelled", key


async def test_a_client_that_leaves_does_not_end_its_job(env: Env, url: str) -> None:
    heard: asyncio.Queue[Any] = asyncio.Queue()

    async def log(params: Any) -> None:
        heard.put_nowait(params.data)

    server = stdio(env, url)
    async with Client(server, mode="legacy", logging_callback=log) as tools:
        call = asyncio.create_task(tools.call_tool("slow", {"input": 600}))
        job_id = (await heard.get())["job_id"]
    await asyncio.wait({call})
    call.exception()
    assert '"running"' in run(env, "status", job_id, "--json", "--url", url).stdout
    cancelled = run(env, "cancel", job_id, "--url", url)
    assert cancelled.returncode == 0, cancelled.stderr
    assert '"cancelled"' in run(env, "status", job_id, "--json", "--url", url).stdout


def test_a_signal_ends_the_command_although_stdin_stays_open(env: Env, url: str) -> None:
    words = [*COMMAND, "mcp", "--url", url, "-v"]
    pipe = subprocess.PIPE
    with Process(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=env) as process:
        for line in process.stderr:
            if "session" in line:
                break
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0
        assert process.stdout.read() == ""


def test_a_runtime_that_is_not_there_is_an_exit_code(env: Env) -> None:
    done = run(env, "mcp", "--url", "ws://127.0.0.1:9/arcp", "--connect-timeout", "0.5")
    assert (done.returncode, done.stdout) == (3, "")


def test_http_for_other_machines_needs_a_token(env: Env, url: str) -> None:
    done = run(env, "mcp", "--http", "--host", "0.0.0.0", "--port", "0", "--url", url)
    assert done.returncode == 2
    assert "ARCP_MCP_TOKEN" in done.stderr


def test_without_the_extra_the_command_says_what_to_install(env: Env, tmp_path: Path) -> None:
    (tmp_path / "mcp.py").write_text("raise ModuleNotFoundError('no mcp', name='mcp')")
    hidden = {**env, "PYTHONPATH": f"{tmp_path}{os.pathsep}{env['PYTHONPATH']}"}
    done = subprocess.run(
        [sys.executable, "-m", "arcp_client.cli", "mcp"],
        env=hidden, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "pip install 'arcp-client[mcp]'" in done.stderr
