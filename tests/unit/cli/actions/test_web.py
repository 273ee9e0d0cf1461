"""The command ``web``: where it listens, what it shows, how it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, JobContext, Runtime, transcripts
from arcp_client.cli.actions.web import web
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError
from arcp_client.cli.output_format import Output

pytestmark = pytest.mark.usefixtures("forked")

ROOT = Path(__file__).parents[4]
COMMAND = [sys.executable, "-m", "arcp_client.cli", "web"]
TOKEN = "a-token-to-log-in-with"


def environment(directory: Path, **more: str) -> dict[str, str]:
    return {
        "HOME": str(directory),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTHONWARNINGS": "error",
        **more,
    }


@contextmanager
def serving(
    directory: Path, *options: str, **more: str
) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command as a process; its URL, once it listens."""
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment(directory, **more), cwd=directory,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        assert found, line + process.stderr.read()
        yield found[0], process
    finally:
        process.kill()
        process.communicate(timeout=10)


def refused(directory: Path, *options: str, **more: str) -> tuple[int, str]:
    done = subprocess.run(
        [*COMMAND, "--port", "0", *options],
        capture_output=True, text=True, timeout=40, check=False,
        env=environment(directory, **more), cwd=directory,
    )  # fmt: skip
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    return done.returncode, done.stderr


def get(url: str, **headers: str) -> tuple[int, Any]:
    request = urllib.request.Request(url, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.fixture
async def runtime() -> AsyncIterator[Runtime]:
    async with Runtime(name="shown") as runtime:

        @runtime.agent("echo")
        async def echo(input: Any, job: JobContext) -> Any:
            await job.log("here")
            return input

        yield runtime


async def test_it_shows_the_jobs_of_a_runtime_and_ends_with_a_signal(
    runtime: Runtime, tmp_path: Path
) -> None:
    async with runtime.serve() as server, Client(server.url) as client:
        job = await client.submit("echo", 1)
        await job.result()

        def look() -> tuple[Any, int, str]:
            with serving(tmp_path, "--url", server.url) as (url, process):
                _, overview = get(f"{url}api/overview")
                process.send_signal(signal.SIGTERM)
                _, complaints = process.communicate(timeout=20)
                return overview, process.returncode, complaints

        overview, code, complaints = await asyncio.to_thread(look)
    assert (code, complaints) == (0, "")
    assert overview["runtime"]["name"] == "shown"
    assert overview["control"] is False
    assert [row["job_id"] for row in overview["jobs"]] == [job.id]


async def test_a_token_comes_from_the_environment_or_a_file(
    runtime: Runtime, tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    async with runtime.serve() as server:

        def look(*options: str, **more: str) -> list[int]:
            with serving(tmp_path, "--url", server.url, "--host", "0.0.0.0", *options, **more) as (
                url,
                process,
            ):
                url = url.replace("0.0.0.0", "127.0.0.1")
                codes = [
                    get(f"{url}api/overview")[0],
                    get(f"{url}api/overview", Authorization=f"Bearer {TOKEN}")[0],
                ]
                status = Path(f"/proc/{process.pid}/cmdline").read_text()
                assert TOKEN not in status
                return codes

        assert await asyncio.to_thread(look, "--login-file", "token") == [401, 200]
        assert await asyncio.to_thread(look, ARCP_WEB_TOKEN=TOKEN) == [401, 200]


WHERE = Place("ws://127.0.0.1:1/arcp", None, Output.TEXT, 0.2, 1.0)
OPTIONS: dict[str, Any] = {
    "replay": None,
    "speed": "1",
    "host": "127.0.0.1",
    "port": 0,
    "login_file": None,
    "allow_control": False,
    "allowed_hosts": (),
    "open_": False,
}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"host": "0.0.0.0"}, "a login token"),
        ({"host": "example.org"}, "a login token"),
        ({"login_file": Path("nowhere")}, "nowhere"),
        ({"speed": "-1"}, "--speed"),
        ({"speed": "fast"}, "--speed"),
    ],
    ids=str,
)
def test_what_cannot_be_is_a_usage_error_before_anything_is_connected(
    options: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARCP_WEB_TOKEN", raising=False)
    with pytest.raises(CommandError, match=words) as refusal:
        web(WHERE, **{**OPTIONS, **options})
    assert refusal.value.code == 2


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--url", "ws://127.0.0.1:1/arcp", "--connect-timeout", "0.2"), 3, "error:"),
        (("--replay", "nowhere"), 2, "nowhere"),
        (("--replay", "nonsense"), 2, "nonsense"),
    ],
)
def test_what_is_wrong_is_said(
    tmp_path: Path, options: tuple[str, ...], code: int, words: str
) -> None:
    (tmp_path / "nonsense").write_text("this is no transcript\n")
    found, complaint = refused(tmp_path, *options)
    assert words in complaint
    assert found == code


async def test_a_port_that_is_taken_is_said(runtime: Runtime, tmp_path: Path) -> None:
    async with runtime.serve() as server:
        code, complaint = await asyncio.to_thread(
            refused, tmp_path, "--url", server.url, "--port", str(server.port)
        )
    assert code == 3
    assert "cannot listen" in complaint


async def test_a_transcript_is_shown_as_it_went(runtime: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    async with Client(runtime) as client:
        job = await client.submit("echo", {"a": 1})
        with transcripts.Writer(path, transcripts.header(client.session)) as writer:
            recording = transcripts.Recording(writer)
            recording.began(job)
            async for event in job:
                recording.event(event)
            recording.ended(job)
            recording.end()

    def look() -> tuple[Any, str]:
        with serving(tmp_path, "--replay", str(path), "--speed", "max") as (url, _):
            overview = get(f"{url}api/overview")[1]
            while not overview["jobs"]:
                overview = get(f"{url}api/overview")[1]
            [row] = overview["jobs"]
            with urllib.request.urlopen(
                f"{url}api/jobs/{row['job_id']}/stream", timeout=20
            ) as response:
                return row, response.read().decode()

    row, told = await asyncio.to_thread(look)
    assert row["agent"] == "echo"
    assert '"message":"here"' in told
    assert told.rstrip().endswith('event: end\ndata: {"status":"success"}')
