"""``run`` is killed, and ``run --resume`` goes on: nothing is missing, and what repeats says so."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.shell import (
    COMMAND,
    Env,
    ended,
    free_port,
    fresh,
    job_of,
    run,
    screen,
    serving,
    terminal,
)
from tests.forks import Process

Done = subprocess.CompletedProcess[str]
MOST = 16
"""Events that may come again after a crash."""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(fresh(tmp_path_factory.mktemp("runtime")), "--agents", "cli_agents:make") as (
        url,
        _,
    ):
        yield url


@pytest.fixture
def env(tmp_path: Path, served: str) -> Env:
    """Each test has a home of its own, so it finds its own runs only."""
    return {**fresh(tmp_path), "ARCP_URL": served}


@pytest.fixture
def arcp(env: Env, tmp_path: Path) -> Callable[..., Done]:
    def call(*words: str, **more: str) -> Done:
        return run({**env, **more}, *words, cwd=tmp_path)

    return call


def steps(shown: str) -> list[tuple[int, bool]]:
    """The steps that were shown, each with whether it was marked as one that may come again."""
    return [(int(n), bool(mark)) for mark, n in re.findall(r"(↻ )?step (\d+)", shown)]


def asked(to: int, until: Path) -> str:
    return json.dumps({"to": to, "delay": 0.01, "until": str(until)})


def kept(home: Path) -> list[Path]:
    return list((home / ".local/state/arcp-client/runs").glob("*"))


@contextmanager
def piped(env: Env, *words: str) -> Iterator[Iterator[str]]:
    """A command without a terminal; the lines that it writes, as they come."""
    with Process(
        [*COMMAND, *words],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env=env,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.stdout
        finally:
            process.kill()


def check(lives: list[list[tuple[int, bool]]], to: int) -> None:
    """Over all lives every step was shown in order, and none twice without a mark."""
    done: set[int] = set()
    for life in lives:
        numbers = [n for n, _ in life]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert {n for n, mark in life if not mark}.isdisjoint(done)
        assert len(done.intersection(numbers)) <= MOST
        done.update(numbers)
    assert done == set(range(1, to + 1))


def test_after_kill_9_it_goes_on_where_it_was(env: Env, tmp_path: Path) -> None:
    go = tmp_path / "go"
    lives = []
    with screen(env, "run", "steps", "-i", asked(80, go)) as seen:
        seen.until("step 0040")
        seen.child.kill(signal.SIGKILL)
        lives.append(steps(seen.to_the_end()))
        assert seen.cursor_is_shown
    assert len(kept(tmp_path)) == 1
    with screen(env, "run", "--resume") as seen:
        seen.until("continuing job_")
        go.touch()
        seen.until("step 0060")
        seen.child.kill(signal.SIGKILL)
        lives.append(steps(seen.to_the_end()))
    with terminal(env, "run", "--resume", TERM="dumb") as child:
        child.expect(r'\{"steps": 80\}')
        lives.append(steps(child.before))
        assert ended(child) == 0
    check(lives, 80)
    assert kept(tmp_path) == []


def test_the_runtime_may_be_restarted_meanwhile(tmp_path: Path) -> None:
    env, go, port = fresh(tmp_path), tmp_path / "go", free_port()
    options = ["--agents", "cli_agents:make", "--db", str(tmp_path / "runtime.db")]
    with serving(env, *options, port=port) as (url, _):
        env["ARCP_URL"] = url
        with screen(env, "run", "steps", "-i", asked(60, go)) as seen:
            seen.until("step 0030")
            seen.child.kill(signal.SIGKILL)
            lives = [steps(seen.to_the_end())]
        go.touch()
        with screen(env, "jobs", "--watch", "--every", "0.2") as listed:
            listed.until("success +steps")
    with serving(env, *options, port=port), screen(env, "run", "--resume") as seen:
        shown = seen.to_the_end()
        lives.append(steps(shown))
    check(lives, 60)
    assert shown.rstrip().endswith('{"steps": 60}')


def test_an_interrupt_detaches_and_nothing_is_missing_later(env: Env, tmp_path: Path) -> None:
    go = tmp_path / "go"
    with screen(env, "run", "steps", "-i", asked(60, go)) as seen:
        seen.until("step 0030")
        seen.child.sendintr()
        seen.until("again now")
        go.touch()  # what comes while it waits for another interrupt is not lost either
        shown = seen.to_the_end()
    assert "warning" not in shown
    assert "● steps" not in shown, "the view is gone, and no ^C is left of it"
    job = job_of(shown)
    with screen(env, "run", "--resume", job) as again:
        check([steps(shown), steps(again.to_the_end())], 60)


def test_what_was_only_submitted_is_shown_from_the_first_event_on(
    arcp: Callable[..., Done], tmp_path: Path
) -> None:
    job = arcp("run", "steps", "-i", '{"to": 5}', "-o", "out.json", "--detach").stdout.strip()
    done = arcp("run", "--resume")
    assert done.returncode == 0, done.stderr
    assert f"continuing {job}" in done.stderr
    check([steps(done.stderr)], 5)
    assert (tmp_path / "out.json").read_text() == '{\n  "steps": 5\n}\n'
    assert kept(tmp_path) == []


def test_runs_do_not_wait_for_one_another(
    env: Env, arcp: Callable[..., Done], tmp_path: Path
) -> None:
    with terminal(env, "run", "waits") as child:
        child.expect("waiting")
        assert arcp("run", "steps", "-i", '{"to": 1}').stdout == '{"steps": 1}\n'
        busy = arcp("run", "--resume")
        assert (busy.returncode, "another process follows job_" in busy.stderr) == (2, True)
        child.sendintr()
        child.expect("again now")
        child.sendintr()
        assert ended(child) == 130
    assert kept(tmp_path) == []


@pytest.mark.parametrize("command", ["result", "watch"])
def test_what_another_command_saw_the_end_of_is_no_longer_unfinished(
    arcp: Callable[..., Done], tmp_path: Path, command: str
) -> None:
    job = arcp("run", "echo", "--detach").stdout.strip()
    assert len(kept(tmp_path)) == 1
    assert arcp(command, job).returncode == 0
    assert kept(tmp_path) == []


def test_what_was_never_accepted_is_not_kept(arcp: Callable[..., Done], tmp_path: Path) -> None:
    gone = f"ws://127.0.0.1:{free_port()}/arcp"
    assert arcp("run", "nobody").returncode == 5
    assert arcp("run", "echo", "--url", gone, "--connect-timeout", "0.2").returncode == 3
    assert kept(tmp_path) == []


def test_an_ephemeral_run_leaves_nothing(env: Env, tmp_path: Path) -> None:
    with terminal(env, "run", "waits", "--ephemeral") as child:
        child.expect("waiting")
        assert kept(tmp_path) == []
        child.sendintr()
        child.expect("Come back with:  arcp-client watch job_")
        child.sendintr()
        assert ended(child) == 130


def test_where_nothing_can_be_kept_it_runs_all_the_same(
    arcp: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / ".local").write_text("a file where a directory is to be")
    done = arcp("run", "echo", "-i", '"x"')
    assert (done.returncode, done.stdout) == (0, "x\n")
    assert "it cannot be saved" in done.stderr


def test_the_open_question_is_asked_again_by_whatever_follows_the_job(
    env: Env, arcp: Callable[..., Done], tmp_path: Path
) -> None:
    """Whether its event was shown before, is too old, or is not among the newest."""
    question = r"\? Deploy\? \[1 Deploy now, 2 Not yet\]"
    with screen(env, "run", "asks") as seen:
        seen.until(question)
        seen.child.kill(signal.SIGKILL)
        job = job_of(seen.to_the_end())
    (found,) = json.loads(arcp("inbox", "--json").stdout)["questions"]
    how = f"answer it:  arcp-client answer {job} {found['question_id']} VALUE"
    for words in (["run", "--resume"], ["watch", job, "--no-history"], ["watch", job, "--tail=0"]):
        with screen(env, *words, columns=120) as seen:
            seen.until(question)
            assert how in seen.text
            seen.child.sendline("")  # skip it
            seen.until("waiting for you: Deploy")
            seen.child.sendintr()
            assert seen.to_the_end().count("? Deploy? [1") == 1
    with terminal(env, "run", "--resume") as child:
        child.expect(question)
        child.sendline("2")
        child.expect('answered "wait"')
        assert ended(child) == 0
    assert kept(tmp_path) == []


def test_without_a_terminal_the_line_that_answers_it_is_printed_again(
    env: Env, arcp: Callable[..., Done]
) -> None:
    with screen(env, "run", "asks") as seen:
        seen.until(r"Enter to skip")
        seen.child.kill(signal.SIGKILL)
        job = job_of(seen.to_the_end())
    (found,) = json.loads(arcp("inbox", "--json").stdout)["questions"]
    words = ["answer", job, found["question_id"]]
    for output, shown in (("text", " ".join(words)), ("jsonl", '"text":"Deploy?"')):
        with piped(env, "watch", job, "--no-history", "--output", output) as lines:
            assert any(shown in line.replace('": "', '":"') for line in lines)
    with piped(env, "run", "--resume", "--output", "text") as lines:
        assert any(" ".join(words) in line for line in lines)
        assert arcp(*words, "1").returncode == 0
        assert any('answered "go"' in line for line in lines)


def test_a_question_that_is_settled_while_it_is_asked_again_goes_away(
    env: Env, arcp: Callable[..., Done]
) -> None:
    with screen(env, "run", "asks") as seen:
        seen.until(r"Enter to skip")
        seen.child.kill(signal.SIGKILL)
        job = job_of(seen.to_the_end())
    with terminal(env, "run", "--resume") as child:
        child.expect(r"Deploy\? \[1")
        (found,) = json.loads(arcp("inbox", "--json").stdout)["questions"]
        assert arcp("answer", job, found["question_id"], "1").returncode == 0
        child.expect('answered "go"')
        assert ended(child) == 0
