"""The commands as a person uses them: processes, pipes, a terminal of 80 by 24, Ctrl-C."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

from arcp_client import Client, StdioConnector
from tests.e2e.shell import (
    COMMAND,
    ESCAPE,
    HERE,
    Env,
    ended,
    free_port,
    fresh,
    job_of,
    run,
    serving,
    terminal,
)
from tests.forks import Process

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Env:
    return fresh(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def url(env: Env) -> Iterator[str]:
    with serving(env, "--agents", "cli_agents:make") as (url, _):
        yield url


@pytest.fixture
def arcp(env: Env, url: str, tmp_path: Path) -> Callable[..., Done]:
    """Runs a command against the served agents and waits for its end."""

    def call(*words: str, input: str = "", **more: str) -> Done:
        return run({**env, "ARCP_URL": url, **more}, *words, cwd=tmp_path, input=input)

    return call


# ---------------------------------------------------------------------- demo, version


def test_demo_piped(arcp: Callable[..., Done]) -> None:
    done = arcp("demo", "--fast")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert ESCAPE not in done.stdout
    rows = re.findall(
        r"^ *(reviewer|indexer|writer) +(\d+) +(\d+) +(\d+) +(\d+) +(\d+) +✓", done.stdout, re.M
    )
    assert [row[0] for row in rows] == ["reviewer", "indexer", "writer"]
    for _, sent, handled, *wrong in rows:
        assert int(sent) == int(handled) > 30
        assert wrong == ["0", "0", "0"]
    assert done.stdout.count("in mid-stream:") == 2
    assert done.stdout.count("──── resumed;") == 2
    numbers = [int(n) for n in re.findall(r"^ *[\d.]+s +(\d+)  \w", done.stdout, re.M)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) == sum(int(row[1]) for row in rows)


def test_demo_is_right_for_another_seed(arcp: Callable[..., Done]) -> None:
    done = arcp("demo", "--fast", "--seed", "2")
    assert done.returncode == 0, done.stdout + done.stderr


def test_demo_on_a_terminal_is_coloured_and_one_line_an_event(env: Env) -> None:
    with terminal(env, "demo", "--fast") as child:
        child.expect("one at a time")
        shown = child.before
        assert ended(child) == 0
    assert ESCAPE in shown
    plain = re.sub(r"\x1b\[[0-9;]*m", "", shown)
    assert max(len(line) for line in plain.replace("\r", "").split("\n")) <= 80
    assert ESCAPE not in plain


def test_demo_on_a_dumb_terminal_is_plain(env: Env) -> None:
    with terminal(env, "demo", "--fast", TERM="dumb") as child:
        child.expect("one at a time")
        assert ESCAPE not in child.before
        assert ended(child) == 0


def test_demo_interrupted(env: Env) -> None:
    with terminal(env, "demo") as child:
        child.expect("connected")
        child.sendintr()
        child.expect("interrupted")
        assert "Traceback" not in child.before
        assert ended(child) == 130


def test_version(arcp: Callable[..., Done]) -> None:
    text = arcp("version")
    assert text.returncode == 0
    assert text.stdout.startswith("arcp-client 0.")
    assert "\naiohttp 3" in text.stdout
    parsed = json.loads(arcp("version", "--output", "json").stdout)
    assert parsed["schema"] == "arcp-client.version/1"
    assert parsed["python"] == sys.version.split()[0]


# ---------------------------------------------------------------------- run: output


def test_run_text(arcp: Callable[..., Done]) -> None:
    done = arcp("run", "echo", "--input", '{"a": "ü"}')
    assert (done.returncode, done.stdout) == (0, '{"a": "ü"}\n')
    assert "echoing" in done.stderr
    assert ESCAPE not in done.stderr


def test_run_json_lines(arcp: Callable[..., Done]) -> None:
    done = arcp("run", "echo", "--input", "-", "--output", "jsonl", input="[1]")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["type"] for line in lines] == ["job", "event", "event", "outcome"]
    assert (lines[-1]["status"], lines[-1]["result"], lines[-1]["events"]) == ("success", [1], 2)
    assert done.stderr == ""


def test_run_json(arcp: Callable[..., Done], tmp_path: Path) -> None:
    (tmp_path / "in.json").write_text('"from a file"')
    document = json.loads(arcp("run", "echo", "-i", "@in.json", ARCP_OUTPUT="json").stdout)
    assert document["result"] == "from a file"
    assert document["gaps"] == []


def test_run_bytes(arcp: Callable[..., Done], env: Env, url: str, tmp_path: Path) -> None:
    done = arcp("run", "bytes", "-o", "out.bin")
    assert (done.returncode, done.stdout) == (0, "")
    assert (tmp_path / "out.bin").read_bytes() == b"\x00\xff\x00\x00\xff\x01\x00\xff\x02"
    with terminal(env, "run", "bytes", ARCP_URL=url) as child:
        child.expect("not text")
        assert ended(child) == 2


@pytest.mark.parametrize(
    ("variables", "coloured", "live"),
    [({}, True, True), ({"NO_COLOR": "1"}, False, True), ({"TERM": "dumb"}, False, False)],
)
def test_run_is_coloured_and_live_where_it_may_be(
    env: Env, url: str, variables: Env, coloured: bool, live: bool
) -> None:
    with terminal(env, "run", "echo", "-i", '"result"', ARCP_URL=url, **variables) as child:
        child.expect("result")
        assert bool(re.search(r"\x1b\[[0-9;]*m", child.before)) is coloured
        assert (ESCAPE in child.before) is live
        assert ended(child) == 0


def test_hostile_text_is_not_obeyed_by_a_terminal(env: Env, url: str) -> None:
    with terminal(env, "run", "hostile", ARCP_URL=url) as child:
        child.expect("result")
        child.expect(pexpect.EOF)
        shown = child.before
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown


def test_latin_1_output_is_no_failure(arcp: Callable[..., Done]) -> None:
    done = arcp("run", "echo", "-i", '"→"', "--output", "json", PYTHONIOENCODING="latin-1")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["result"] == "→"


# ---------------------------------------------------------------------- run: exit codes


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["run", "fails"], 1, "the job failed: INTERNAL_ERROR: the disk is full"),
        (["run", "breaks"], 1, "the agent failed"),
        (["run"], 2, "Missing argument"),
        (["run", "echo", "--input", "{"], 2, "--input is not JSON"),
        (["run", "echo", "--token", "sesame"], 2, "No such option"),
        (["run", "echo", "--token=sesame"], 2, "No such option"),
        (["run", "echo", "--max-runtime", "-1"], 2, "max_runtime"),
        (["run", "echo", "--url", "http://127.0.0.1/"], 2, "begins with ws://"),
        (["run", "nobody"], 5, "nobody is not registered"),
        (["watch", "job_00"], 5, "there is no job job_00"),
        (["status", "job_00"], 5, "there is no job"),
        (["cancel", "job_00"], 5, "there is no job"),
        (["result", "job_00"], 5, "there is no job"),
        (["run", "denied", "--lease", "fs.read=/**"], 6, "PERMISSION_DENIED"),
        (["run", "spends", "--lease", "tool.call=*", "--lease", "cost.budget=USD:1"], 6, "BUDGET"),
        (["run", "waits", "--max-runtime", "1"], 124, "timed out"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_exit_codes(arcp: Callable[..., Done], words: list[str], code: int, said: str) -> None:
    done = arcp(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "secret" not in done.stderr
    assert "sesame" not in done.stderr
    assert done.stdout == ""


def test_no_runtime_is_3(arcp: Callable[..., Done]) -> None:
    gone = f"ws://127.0.0.1:{free_port()}/arcp"
    done = arcp("run", "echo", "--url", gone, "--connect-timeout", "0.5")
    assert done.returncode == 3
    assert "Connection refused" in done.stderr
    assert "ARCP_URL" in done.stderr
    # How many attempts fit into the time is chance; the error itself is three lines.
    attempt = "no connection yet, attempt "
    assert len([line for line in done.stderr.splitlines() if not line.startswith(attempt)]) == 3
    assert done.stdout == ""


def test_authentication_is_4(arcp: Callable[..., Done], env: Env, tmp_path: Path) -> None:
    served = {**env, "ARCP_TOKEN": "sesame"}
    with serving(served, "--agents", "cli_agents:make") as (url, _):
        for token in ({}, {"ARCP_TOKEN": "wrong-one"}):
            done = arcp("run", "echo", ARCP_URL=url, **token)
            assert done.returncode == 4, done.stderr
            assert "ARCP_TOKEN" in done.stderr
            assert "wrong-one" not in done.stderr
        assert arcp("run", "echo", ARCP_URL=url, ARCP_TOKEN="sesame").returncode == 0
        (tmp_path / "token").write_text("sesame\n")
        assert arcp("run", "echo", "--token-file", "token", ARCP_URL=url).returncode == 0


def test_a_runtime_that_goes_for_good_is_3(arcp: Callable[..., Done], env: Env) -> None:
    with (
        serving(env, "--agents", "cli_agents:make") as (url, server),
        terminal(env, "run", "waits", "--reconnect-for", "1", ARCP_URL=url) as child,
    ):
        child.expect("waiting")
        server.kill()
        child.expect("link lost")
        child.expect("run --resume job_")
        assert ended(child) == 3


def test_a_runtime_that_forgot_the_job_is_7(env: Env) -> None:
    port = free_port()
    with (
        serving(env, "--agents", "cli_agents:make", port=port) as (url, server),
        terminal(env, "run", "waits", ARCP_URL=url) as child,
    ):
        child.expect("waiting")
        server.kill()
        server.wait(timeout=10)
        child.expect("link lost")
        with serving(env, "--agents", "cli_agents:make", port=port):
            child.expect("error: ")
            assert ended(child) == 7


def test_whoever_reads_half_of_it_gets_no_traceback(env: Env, url: str) -> None:
    script = f"{' '.join(COMMAND)} run ticks --output jsonl | head -n 1; echo ${{PIPESTATUS[0]}}"
    child = pexpect.spawn(
        "bash", ["-c", script], env={**env, "ARCP_URL": url}, encoding="utf-8", timeout=40
    )
    try:
        child.expect("arcp-client.job/1")
        child.expect("continues")
        child.expect("130")
        assert ended(child) == 0
    finally:
        child.close(force=True)


@pytest.mark.parametrize(
    ("words", "code", "out"),
    [
        (["run", "echo", "-i", "1"], 0, "1\n"),
        (["run", "echo", "-i", "1", "--json"], 0, "outcome"),
        (["run", "fails"], 1, ""),
        (["run", "nobody"], 5, ""),
        (["run"], 2, ""),
        (["jobs", "--status", "running"], 0, ""),
        (["ping", "--url", "ws://127.0.0.1:1/", "--connect-timeout", "0.3"], 3, ""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
@pytest.mark.parametrize("stderr", ["a pipe that nobody reads", "/dev/full"])
def test_a_stderr_that_takes_nothing_changes_no_exit_code(
    env: Env, url: str, tmp_path: Path, words: list[str], code: int, out: str, stderr: str
) -> None:
    if stderr.startswith("/"):
        end = os.open(stderr, os.O_WRONLY)
    else:
        reader, end = os.pipe()
        os.close(reader)
    try:
        with Process(
            [*COMMAND, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=end,
            text=True, env={**env, "ARCP_URL": url}, cwd=tmp_path,
        ) as process:  # fmt: skip
            printed, _ = process.communicate(timeout=40)
    finally:
        os.close(end)
    assert process.returncode == code
    assert out in printed


@pytest.mark.parametrize("home", ["/dev/null", "/proc", None])
def test_commands_work_without_a_home(
    arcp: Callable[..., Done], home: str | None, monkeypatch: pytest.MonkeyPatch, env: Env
) -> None:
    if home is None:
        monkeypatch.delitem(env, "HOME")
    else:
        monkeypatch.setitem(env, "HOME", home)
    if home is not None:
        done = arcp("run", "echo", "-i", "1")
        assert (done.returncode, done.stdout) == (0, "1\n")
        assert "--resume will not find this run" in done.stderr
    for words in (["ping"], ["jobs"], ["config", "show"], ["version"]):
        assert arcp(*words).returncode == 0, words


# ---------------------------------------------------------------------- run: Ctrl-C


def test_one_interrupt_detaches_and_the_job_runs_on(
    env: Env, url: str, arcp: Callable[..., Done]
) -> None:
    with terminal(env, "run", "waits", ARCP_URL=url) as child:
        child.expect("waiting")
        child.sendintr()
        child.expect("Come back with:  arcp-client run --resume job_[0-9A-Za-z]+")
        job = job_of(child.after)
        assert ended(child) == 130
        assert "Traceback" not in child.before
    assert json.loads(arcp("status", job, "--output", "json").stdout)["status"] == "running"
    assert arcp("cancel", job).returncode == 0
    done = arcp("watch", job)
    assert done.returncode == 1
    assert "cancelled" in done.stderr


def test_two_interrupts_cancel_the_job(env: Env, url: str, arcp: Callable[..., Done]) -> None:
    with terminal(env, "run", "waits", ARCP_URL=url) as child:
        child.expect("waiting")
        child.sendintr()
        child.expect("arcp-client run --resume job_[0-9A-Za-z]+")
        job = job_of(child.after)
        child.expect("again now")
        child.sendintr()
        child.expect("The job is cancelled")
        assert ended(child) == 130
    assert json.loads(arcp("status", job, "--output", "json").stdout)["status"] == "cancelled"


def test_an_interrupt_of_watch_leaves_the_job_alone(
    env: Env, url: str, arcp: Callable[..., Done]
) -> None:
    job = arcp("run", "waits", "--detach").stdout.strip()
    with terminal(env, "watch", job, ARCP_URL=url) as child:
        child.expect("waiting")
        child.sendintr()
        child.expect("left alone")
        assert ended(child) == 130
    assert arcp("status", job).stdout.split()[5] == "running"
    assert arcp("cancel", job).returncode == 0


def test_an_interrupt_before_the_connection(env: Env) -> None:
    gone = f"ws://127.0.0.1:{free_port()}/arcp"
    with terminal(env, "run", "echo", "--url", gone, "--connect-timeout", "60") as child:
        child.expect("attempt 2")
        child.sendintr()
        child.expect("interrupted before there was a connection")
        assert ended(child) == 130


# ---------------------------------------------------------------------- the others


def test_jobs_lists_what_ran(arcp: Callable[..., Done], env: Env, url: str) -> None:
    job = arcp("run", "echo", "--detach").stdout.strip()
    assert arcp("result", job).stdout == "null\n"
    rows = [line.split("\t") for line in arcp("jobs", "--agent", "echo").stdout.splitlines()]
    assert [job, "success", "echo"] in [row[:3] for row in rows]
    listed = json.loads(arcp("jobs", "--status", "success", "--output", "json").stdout)
    assert {entry["status"] for entry in listed["jobs"]} == {"success"}
    with terminal(env, "jobs", ARCP_URL=url) as child:
        child.expect("status")
        child.expect(job)
        assert ended(child) == 0


def test_who_comes_later_sees_when_the_job_began_and_how_it_stands(
    arcp: Callable[..., Done],
) -> None:
    job = arcp("run", "steps", "-i", '{"to": 4}', "--detach").stdout.strip()
    assert arcp("result", job).returncode == 0
    listed = json.loads(arcp("jobs", "--json").stdout)["jobs"]
    created = next(each["created_at"] for each in listed if each["job_id"] == job)
    status = json.loads(arcp("status", job, "--json").stdout)
    assert (status["created_at"], status["status"]) == (created, "success")
    assert status["ended_at"] is not None
    watched = arcp("watch", job)
    assert " · began " in watched.stderr
    assert re.search(r"events in \d", watched.stderr)


def test_watch_and_result_of_a_job_that_has_ended(arcp: Callable[..., Done]) -> None:
    job = arcp("run", "echo", "-i", '"x"', "--detach").stdout.strip()
    assert arcp("result", job).stdout == "x\n"
    watched = arcp("watch", job)
    assert (watched.returncode, watched.stdout) == (0, "x\n")
    assert "echoing" in watched.stderr
    again = arcp("cancel", job)
    assert (again.returncode, "ended already: success" in again.stderr) == (0, True)


def test_only_who_submitted_may_cancel(arcp: Callable[..., Done], tmp_path: Path) -> None:
    job = arcp("run", "waits", "--detach").stdout.strip()
    elsewhere = arcp("cancel", job, HOME=str(tmp_path))
    assert elsewhere.returncode == 4
    assert "use the program that submitted the job" in elsewhere.stderr
    assert arcp("cancel", job, "--reason", "enough").returncode == 0
    assert "enough" in arcp("watch", job).stderr


def test_ping(arcp: Callable[..., Done]) -> None:
    assert arcp("ping").stdout.startswith("cli-tests ")
    told = json.loads(arcp("ping", "--output", "json").stdout)
    assert told["round_trip_ms"] > 0
    assert "echo" in {agent["name"] for agent in told["agents"]}


def test_config_show(arcp: Callable[..., Done], url: str, tmp_path: Path) -> None:
    (tmp_path / "arcp.toml").write_text('[profiles.ci]\noutput = "jsonl"\n')
    shown = arcp("config", "show", "--origin", "--profile", "ci", ARCP_TOKEN="sesame").stdout
    assert f"url      {url}  (ARCP_URL)" in shown
    assert "jsonl  (./arcp.toml)" in shown
    assert "sesame" not in shown


# ---------------------------------------------------------------------- serve


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_serve_stops_when_it_is_asked_to(env: Env, sent: signal.Signals) -> None:
    with (
        serving(env, "--grace", "0.2") as (url, server),
        terminal(env, "run", "count", "-i", '{"to": 9999}', ARCP_URL=url) as child,
    ):
        child.expect("2/9,999")
        server.send_signal(sent)
        out, said = server.communicate(timeout=20)
        assert (server.returncode, out) == (0, "")
        assert "stopping" in said
        assert "Traceback" not in said
        child.expect("the runtime was shut down")
        assert ended(child) == 1


def test_serve_ends_though_an_agent_swallows_its_interruption(env: Env) -> None:
    with (
        serving(env, "--agents", "cli_agents:make") as (url, server),
        terminal(env, "run", "stubborn", "--reconnect-for", "1", ARCP_URL=url) as child,
    ):
        child.expect("I stay")
        server.send_signal(signal.SIGINT)
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=20)
        assert server.returncode == 1
        assert "by force" in said
        assert ended(child) in (1, 3)


def test_serve_ends_though_an_agent_blocks_the_loop(env: Env, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with (
        serving(env, "--agents", "cli_agents:make", "--grace", "0") as (url, server),
        terminal(env, "run", "blocks", "-i", json.dumps(str(fifo)), ARCP_URL=url),
    ):
        assert fifo.read_text() == "I block"
        server.send_signal(signal.SIGINT)
        server.send_signal(signal.SIGTERM)
        _, said = server.communicate(timeout=20)
        assert server.returncode == 1
        assert "by force" in said


def test_serve_without_agents_offers_three(env: Env, arcp: Callable[..., Done]) -> None:
    with serving(env) as (url, _):
        done = arcp("run", "echo", "-i", "[1]", ARCP_URL=url)
        assert (done.returncode, done.stdout) == (0, "[1]\n")
        counted = arcp("run", "count", "-i", '{"to": 2, "delay": 0}', ARCP_URL=url)
        assert counted.stdout == '{"counted": 2}\n'
        report = arcp("run", "report", "-i", '{"delay": 0}', ARCP_URL=url)
        assert report.stdout.startswith("# Report\n")
        assert arcp("run", "count", "-i", '{"to": -1}', ARCP_URL=url).returncode == 1


async def test_serve_over_stdio(env: Env) -> None:
    served = StdioConnector([*COMMAND, "serve", "--stdio"], env=env)
    async with Client(served) as client:
        job = await client.submit("echo", [1])
        assert (await job.result()).value == [1]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "without a token, every client that reaches 0.0.0.0 could run"),
        (["--agents", "cli_agents:runtime", "--host", "0.0.0.0"], "without a token, every client"),
        (["--agents", "nowhere"], "names no attribute"),
        (["--agents", "agents.py:x"], "write the module's name: agents:x"),
        (["--agents", "no_such_module:x"], "the module 'no_such_module' is neither installed"),
        (["--agents", "cli_agents:nothing"], "the module has no 'nothing'"),
        (["--agents", "cli_agents:number"], "is int, not a Runtime"),
        (["--agents", "cli_agents:bad"], "ValueError: no configuration"),
        (["--port", "99999"], "65535"),
        (["--token-file", "/nowhere"], "the token file /nowhere cannot be read"),
    ],
)
def test_serve_refuses(env: Env, options: list[str], said: str) -> None:
    done = run(env, "serve", *options, cwd=HERE)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_token_that_is_not_asked_for_opens_nothing(env: Env) -> None:
    words = ("serve", "--agents", "cli_agents:runtime", "--host", "0.0.0.0")
    done = run({**env, "ARCP_TOKEN": "sesame"}, *words, cwd=HERE)
    assert done.returncode == 2
    assert "sesame" not in done.stderr


def test_a_port_in_use_is_said(env: Env, url: str) -> None:
    port = re.search(r":(\d+)/", url)
    assert port
    done = run(env, "serve", "--port", port[1])
    assert done.returncode == 3
    assert "--port 0" in done.stderr


# ---------------------------------------------------------------------- retries


def test_run_begins_a_job_again_and_shows_each_attempt(arcp: Callable[..., Done]) -> None:
    done = arcp("run", "flaky", "--input", "1", "--retries", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "done in try 2"
    assert "try 1" in done.stderr
    assert "try 2" in done.stderr
    assert len(set(re.findall(r"job_[0-9A-Z]+", done.stderr))) == 2


def test_run_fails_with_the_error_of_the_last_attempt(arcp: Callable[..., Done]) -> None:
    done = arcp("run", "flaky", "--input", "9", "--retries", "1", "--output", "jsonl")
    assert done.returncode == 1
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(line.get("event", line).get("kind") == "error" for line in lines) <= 2
    assert len({line["job_id"] for line in lines if "job_id" in line}) == 2
    assert "the disk is busy" in done.stderr


def test_detached_runs_have_no_retries(arcp: Callable[..., Done]) -> None:
    done = arcp("run", "flaky", "--retries", "1", "--detach")
    assert done.returncode == 2
    assert "--retries" in done.stderr
