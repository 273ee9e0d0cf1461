"""``arcp-client serve`` with a database, with TLS, with a token, to other machines."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arcp_client import Client, WebSocketConnector, errors, events
from tests.e2e.shell import COMMAND, fresh, run
from tests.forks import Process
from tests.unit.runtime.certificate import self_signed, trusting
from tests.unit.runtime.webhooks.receiver import Receiver

ROOT = Path(__file__).parents[2]
AGENTS = """
from arcp_client import Runtime

def plain():
    return Runtime()

def make(auth=None, event_log=None):
    runtime = Runtime(auth=auth, event_log=event_log)

    @runtime.agent("quick")
    async def quick(input, job):
        return input

    return runtime
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Where it is started, with a user's module."""
    (tmp_path / "my_agents.py").write_text(AGENTS)
    return tmp_path


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The command as a process; its URL, once it listens."""
    process = Process(
        [*COMMAND, "serve", "--port", "0", *options],
        stderr=subprocess.PIPE, text=True, env=fresh(directory), cwd=directory,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        found = re.search(r"wss?://\S+", line)
        assert found, line + process.stderr.read()
        yield found[0], process
    finally:
        process.kill()
        process.communicate(timeout=10)


def refused(directory: Path, *options: str, code: int = 2) -> str:
    """What it says when it does not start."""
    done = run(fresh(directory), "serve", "--port", "0", *options, cwd=directory)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


async def test_a_database_makes_jobs_survive_the_process(directory: Path) -> None:
    options = ("--db", "runtime.db", "--agents", "my_agents:make")
    with serving(directory, *options) as (url, process):
        async with Client(url) as client:
            first = await client.submit("quick", {"n": 1}, idempotency_key="k")
            assert (await first.result()).value == {"n": 1}
            process.send_signal(signal.SIGKILL)
    with serving(directory, *options) as (url, process):
        async with Client(url) as client:
            again = await client.submit("quick", {"n": 1}, idempotency_key="k")
            assert again.id == first.id
            assert (await again.result()).value == {"n": 1}
        process.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(process.wait, 20) == 0


async def test_the_sample_agents_take_a_database_too(directory: Path) -> None:
    with serving(directory, "--db", "samples.db") as (url, _):
        async with Client(url) as client:
            assert (await (await client.submit("echo", 7)).result()).value == 7
        assert (directory / "samples.db").exists()
        said = refused(directory, "--db", "samples.db", code=3)
        assert "another runtime has samples.db open" in said


def test_a_database_that_cannot_be_used_is_refused(directory: Path) -> None:
    (directory / "text").write_text("no database at all, and long enough to be read as one" * 99)
    assert "is no event log" in refused(directory, "--db", "text")
    assert "cannot be used" in refused(directory, "--db", "missing/runtime.db")
    said = refused(directory, "--db", "runtime.db", "--agents", "my_agents:plain")
    assert "does not accept the database" in said
    assert "parameter event_log" in said


def test_a_function_that_takes_something_else_is_told_what_it_may_take(directory: Path) -> None:
    module = "def register(runtime):\n    pass\n"
    (directory / "registering.py").write_text(module)
    said = refused(directory, "--agents", "registering:register")
    assert "requires the argument 'runtime'" in said
    assert "returns a Runtime; it may take auth, event_log, webhooks" in said


def run_trusting(certificate: Path, directory: Path, url: str) -> subprocess.CompletedProcess[str]:
    """A new process, because OpenSSL reads the variable when a process first needs certificates."""
    return subprocess.run(
        [*COMMAND, "run", "echo", "--input", "7", "--url", url],
        env=fresh(directory) | {"SSL_CERT_FILE": str(certificate)}, cwd=directory,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, check=False,
    )  # fmt: skip


async def test_tls(directory: Path) -> None:
    certificate, key = self_signed(directory)
    options = ("--tls-cert", str(certificate), "--tls-key", str(key))
    with serving(directory, *options) as (url, _):
        assert url.startswith("wss://127.0.0.1:")
        trusted = WebSocketConnector(url, ssl=trusting(directory))
        async with Client(trusted) as client:
            assert (await (await client.submit("echo", 7)).result()).value == 7
        with pytest.raises(errors.ConnectFailed):
            await Client(url).connect()
        ran = run_trusting(certificate, directory, url)
        assert (ran.returncode, ran.stdout.strip()) == (0, "7"), ran.stderr
        said = run(fresh(directory), "run", "echo", "--url", url, cwd=directory)
        assert said.returncode == 3
        assert "SSL_CERT_FILE" in said.stderr
        assert "is a runtime running there" not in said.stderr
    both = directory / "both.pem"
    both.write_bytes(certificate.read_bytes() + key.read_bytes())
    with serving(directory, "--tls-cert", str(both)) as (url, _):
        assert url.startswith("wss://")


def test_tls_that_cannot_be_used_is_refused(directory: Path) -> None:
    certificate, key = self_signed(directory)
    (directory / "other").mkdir()
    _, other = self_signed(directory / "other")
    assert "needs its certificate" in refused(directory, "--tls-key", str(key))
    assert "cannot be used" in refused(directory, "--tls-cert", str(certificate))
    assert "cannot be used" in refused(directory, "--tls-cert", "nothing.pem")
    said = refused(directory, "--tls-cert", str(certificate), "--tls-key", str(other))
    assert "the certificate" in said
    assert "has no TLS" in refused(directory, "--stdio", "--tls-cert", str(certificate))


async def test_a_token_from_a_file(directory: Path) -> None:
    (directory / "token").write_text("sesame\n")
    with serving(directory, "--token-file", "token", "--host", "0.0.0.0") as (url, _):
        reachable = url.replace("0.0.0.0", "127.0.0.1")
        async with Client(reachable, token="sesame") as client:
            assert (await (await client.submit("echo", 7)).result()).value == 7
        with pytest.raises(errors.Unauthenticated):
            await Client(reachable, token="wrong").connect()


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_nobody_else_is_let_in_without_a_token(directory: Path, host: str) -> None:
    assert "without a token, every client" in refused(directory, "--host", host)
    said = refused(directory, "--host", host, "--agents", "my_agents:make")
    assert "without a token, every client" in said


async def test_host_names_that_are_allowed_are_served_and_no_others(directory: Path) -> None:
    options = ("--allow-host", "agents.example", "--allow-host", "Agents.internal")
    with serving(directory, *options) as (url, _):
        for name in ("agents.example", "agents.internal:443", "localhost"):
            named = WebSocketConnector(url, headers={"Host": name})
            async with Client(named) as client:
                assert (await (await client.submit("echo", 7)).result()).value == 7
        with pytest.raises(errors.ConnectFailed, match="host name"):
            await Client(WebSocketConnector(url, headers={"Host": "other.example"})).connect()


def test_a_host_that_is_no_name_is_refused(directory: Path) -> None:
    said = refused(directory, "--allow-host", "https://agents.example")
    assert "is not a host name such as jobs.example" in said
    assert "has no --allow-host" in refused(directory, "--stdio", "--allow-host", "a.example")


SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


async def test_the_command_of_the_page_about_webhooks_calls_one(directory: Path) -> None:
    page = (ROOT / "docs" / "howto" / "webhooks.md").read_text(encoding="utf-8")
    (options,) = re.findall(r"^\$ arcp-client serve (.*) --webhook \S+$", page, re.MULTILINE)
    shutil.copy(ROOT / "examples" / "agents" / "webhook_agents.py", directory)
    (directory / "secret").write_text(SECRET)
    async with asyncio.timeout(50), Receiver(secret=SECRET) as receiver:
        called = ["--webhook", receiver.url, "--webhook-secret", "secret"]
        with serving(directory, *options.split(), *called) as (url, _):
            async with Client(url) as client:
                job = await client.submit("deploy", "1.4")
                async for question in job.events(events.Question):
                    await job.answer(question.question_id, "yes")
                assert (await job.result()).value == "yes"
            calls = await receiver.until(3)
    assert [call["type"] for call in calls] == ["question.opened", "question.settled", "job.ended"]


async def test_a_webhook_is_called_with_the_secret_of_a_file(directory: Path) -> None:
    (directory / "secret").write_text(f"{SECRET}\n")
    async with Receiver(secret=SECRET) as receiver:
        options = ["--webhook", receiver.url, "--webhook-secret", str(directory / "secret")]
        with serving(directory, *options, "--webhook-event", "job.ended") as (url, _):
            async with Client(url) as client:
                job = await client.submit("echo", 1)
                await job.result()
            (call,) = await receiver.until(1)
    assert (call["type"], call["data"]["job_id"]) == ("job.ended", job.id)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--webhook", "https://example.com/"], "ARCP_WEBHOOK_SECRET"),
        (["--webhook-event", "job.ended"], "--webhook URL"),
        (["--webhook", "https://u:hidden@example.com/", "--webhook-secret", "ok"], "password"),
        (["--webhook", "http://example.com/", "--webhook-secret", "ok"], "--webhook-http"),
        (["--webhook", "https://example.com/", "--webhook-secret", "none"], "cannot be read"),
        (["--webhook", "https://example.com/", "--webhook-secret", "weak"], "24 to 64"),
        (
            ["--webhook", "https://a.example/", "--webhook-secret", "ok", "--webhook-secret", "ok"],
            "1 webhooks have 2 files",
        ),
        (
            ["--webhook", "https://example.com/", "--webhook-secret", "ok", "--webhook-event", "x"],
            "job.ended",
        ),
        (
            ["--agents=my_agents:make", "--webhook=https://example.com/", "--webhook-secret=ok"],
            "parameter webhooks",
        ),
    ],
)
def test_an_invalid_webhook_is_refused_without_showing_secrets(
    directory: Path, options: list[str], words: str
) -> None:
    (directory / "ok").write_text(SECRET)
    (directory / "weak").write_text("hidden-secret")
    said = refused(directory, *options)
    assert words in said
    assert "hidden" not in said
