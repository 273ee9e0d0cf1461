"""``record``, ``run --record`` and ``replay``: what was seen is seen again, and never a secret."""

from __future__ import annotations

import json
import re
import signal
import stat
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from arcp_client.transcripts import EndLine, EventLine, OutcomeLine, read
from tests.e2e.shell import (
    COMMAND,
    PATIENCE,
    Env,
    ended,
    fresh,
    job_of,
    run,
    screen,
    serving,
    terminal,
)
from tests.forks import Process

Done = subprocess.CompletedProcess[str]
Call = Callable[..., Done]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Env:
    return fresh(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def url(env: Env) -> Iterator[str]:
    with serving(env, "--agents", "cli_agents:make") as (url, _):
        yield url


@pytest.fixture
def arcp(env: Env, url: str, tmp_path: Path) -> Call:
    def call(*words: str, **more: str) -> Done:
        return run({**env, "ARCP_URL": url, **more}, *words, cwd=tmp_path)

    return call


def told(text: str) -> list[dict[str, object]]:
    """JSON lines, without the moments and ids that each run has anew."""
    return [json.loads(line) for line in text.splitlines()]


# ------------------------------------------------------------------------- the same again


@pytest.mark.parametrize(
    ("words", "output", "code"),
    [
        (["echo", "--input", '{"a": [1]}'], "text", 0),
        (["denied", "--lease", "tool.call=*"], "json", 6),
        (["waits", "--max-runtime", "0.1"], "jsonl", 124),
    ],
    ids=["text", "json", "jsonl"],
)
def test_a_replay_says_and_ends_as_the_run_did(
    arcp: Call, words: list[str], output: str, code: int
) -> None:
    run = arcp("run", *words, "--record", "t.jsonl", "--output", output)
    again = arcp("replay", "t.jsonl", "--speed", "max", "--output", output)
    assert run.returncode == again.returncode == code, run.stderr + again.stderr
    assert again.stdout == run.stdout
    if output == "text":
        assert again.stderr == run.stderr


def test_watch_and_record_see_the_same(arcp: Call) -> None:
    job_id = arcp("run", "echo", "--detach").stdout.strip()
    done = arcp("record", job_id, "-o", "t.jsonl")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert job_id in done.stderr
    watched = arcp("watch", job_id, "--output", "jsonl")
    again = arcp("replay", "t.jsonl", "--speed", "max", "--output", "jsonl")
    first, second = ([line.get("event") for line in told(each.stdout)] for each in (watched, again))
    for each in (*first, *second):
        if isinstance(each, dict):
            del each["seq"], each["session_id"]  # each session has its own
    assert second == first


def test_a_recording_can_be_piped(arcp: Call) -> None:
    job_id = arcp("run", "echo", "--detach").stdout.strip()
    done = arcp("record", job_id, "-o", "-")
    kinds = [line["type"] for line in told(done.stdout)]
    assert kinds[:2] == ["header", "job"]
    assert kinds[-2:] == ["outcome", "end"]


def test_a_replay_has_the_live_view(arcp: Call, env: Env, tmp_path: Path) -> None:
    arcp("run", "busy", "--record", "t.jsonl", "--max-runtime", "0.4")
    with screen(env, "replay", str(tmp_path / "t.jsonl"), rows=40, columns=100) as shown:
        shown.until("3/4 files")
        text = shown.to_the_end()
        assert "helper" in text
        assert ended(shown.child) == 124


# ------------------------------------------------------------------------- files


def test_a_file_that_is_there_is_not_replaced_unless_asked(arcp: Call, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text("mine")
    job_id = arcp("run", "echo", "--detach").stdout.strip()
    for words in (["record", job_id, "-o"], ["run", "echo", "--record"]):
        done = arcp(*words, "t.jsonl")
        assert done.returncode == 2
        assert "already exists" in done.stderr
        assert (tmp_path / "t.jsonl").read_text() == "mine"
    assert arcp("record", job_id, "-o", "t.jsonl", "--force").returncode == 0
    assert stat.S_IMODE((tmp_path / "t.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["record", "-o", "t"], 2, "--all"),
        (["record", "job_x"], 2, "--out"),
        (["record", "job_unknown", "-o", "t"], 5, "job_unknown"),
        (["run", "echo", "--record", "no/such/dir/t"], 2, "cannot be written"),
        (["run", "echo", "--detach", "--record", "t"], 2, "--detach"),
        (["replay", "none.jsonl"], 2, "No such file"),
        (["replay", "/dev/null"], 2, "not a transcript"),
        (["replay", "/dev/null", "--speed", "fast"], 2, "--speed fast"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_done_is_said(
    arcp: Call, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    done = arcp(*words)
    assert done.returncode == code, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_killed_recorder_leaves_what_it_saw(
    arcp: Call, env: Env, url: str, tmp_path: Path
) -> None:
    job_id = arcp("run", "waits", "--detach").stdout.strip()
    path = tmp_path / "t.jsonl"
    process = Process(
        [*COMMAND, "record", job_id, "-o", str(path)],
        env={**env, "ARCP_URL": url}, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert job_id in process.stderr.readline()
        until(lambda: path.exists() and b"waiting" in path.read_bytes())
    finally:
        process.kill()
        process.communicate(timeout=10)
    with read(path) as reader:
        (event,) = (line for line in reader if isinstance(line, EventLine))
        assert event.event.kind == "status"
        assert not reader.complete
    assert arcp("replay", "t.jsonl", "--speed", "max").returncode == 7


def until(true: Callable[[], bool]) -> None:
    """Look again and again."""
    import time

    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_an_interrupt_ends_the_recording_and_not_the_job(
    arcp: Call, env: Env, url: str, tmp_path: Path
) -> None:
    job_id = arcp("run", "waits", "--detach").stdout.strip()
    path = tmp_path / "t.jsonl"
    with terminal(env, "record", job_id, "-o", str(path), ARCP_URL=url) as child:
        until(lambda: path.exists() and b"waiting" in path.read_bytes())
        child.sendintr()
        assert ended(child) == 130
    with read(path) as reader:
        *_, outcome, end = reader
    assert isinstance(outcome, OutcomeLine)
    assert outcome.status == "running"
    assert isinstance(end, EndLine)
    assert end.reason == "interrupted"
    assert "running" in arcp("status", job_id).stdout


def test_an_interrupt_of_a_replay_is_130(arcp: Call, env: Env, tmp_path: Path) -> None:
    arcp("run", "ticks", "--record", "t.jsonl", "--max-runtime", "0.3")
    with terminal(env, "replay", str(tmp_path / "t.jsonl"), "--speed", "0.001") as child:
        child.expect("tick")
        child.sendintr()
        assert ended(child) == 130


# ------------------------------------------------------------------------- as a runtime


def test_a_recording_is_served_to_any_client(arcp: Call, env: Env, tmp_path: Path) -> None:
    recorded = arcp("run", "steps", "--input", '{"to": 5, "until": "/"}', "--record", "t.jsonl")
    process = Process(
        [*COMMAND, "replay", "t.jsonl", "--serve", "--port", "0", "--allow-host", "a.example"],
        env=env, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        where = re.search(r"ws://\S+", process.stderr.readline())
        assert where is not None
        played = job_of(process.stderr.readline())
        watched = arcp("watch", played, ARCP_URL=where[0])
        assert (watched.returncode, watched.stdout) == (0, recorded.stdout)
        assert re.findall(r"step \d+", watched.stderr) == re.findall(r"step \d+", recorded.stderr)
        again = arcp("run", "steps", ARCP_URL=where[0])
        assert again.stdout == recorded.stdout
        for host, status in (("a.example", 400), ("b.example", 403)):  # 400: no WebSocket
            asked = Request(where[0].replace("ws:", "http:"), headers={"Host": host})
            with pytest.raises(HTTPError) as refused:
                urlopen(asked, timeout=PATIENCE)
            assert refused.value.code == status
            refused.value.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.communicate(timeout=10)


def test_serving_a_recording_that_was_cut_is_no_success(
    arcp: Call, env: Env, tmp_path: Path
) -> None:
    arcp("run", "echo", "--record", "t.jsonl")
    path = tmp_path / "t.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    process = Process(
        [*COMMAND, "replay", "t.jsonl", "--serve", "--port", "0"],
        env=env, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert "ws://" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 7
    finally:
        process.kill()
        process.communicate(timeout=10)


# ------------------------------------------------------------------------- secrets


def test_no_secret_is_in_a_recording(env: Env, tmp_path: Path) -> None:
    token = "canary-t0ken-value"
    served = {**env, "ARCP_TOKEN": token}
    with serving(served, "--agents", "token_agents:make") as (url, _):
        asked = {**served, "ARCP_URL": url}
        for words in (["run", "leaks", "--record", "a"], ["run", "leaks", "--detach"]):
            done = run(asked, *words, cwd=tmp_path)
            assert done.returncode == 0, done.stderr
        last = run(asked, "record", done.stdout.strip(), "-o", "b", cwd=tmp_path)
        assert last.returncode == 0, last.stderr
    for name in ("a", "b"):
        text = (tmp_path / name).read_text()
        assert "canary" not in text
        assert "I know **********" in text
        assert '"plain":"data"' in text
