"""`arcp-client top` in a pseudo-terminal: a full screen that fits, keys, and lines of words."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shell import COMMAND, Env, ended, fresh, job_of, run, screen, serving
from tests.forks import Process

pytest.importorskip("textual")


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Env]:
    env = fresh(tmp_path_factory.mktemp("home"))
    with serving(env, "--agents", "cli_agents:make") as (url, _):
        yield {**env, "ARCP_URL": url}


@pytest.fixture(scope="module")
def waiting(here: Env) -> str:
    """A job that runs, beside one that has ended."""
    run(here, "run", "echo", "--input", '"hello"')
    return job_of(run(here, "run", "waits", "--detach").stdout)


@pytest.mark.parametrize(("rows", "columns"), [(24, 80), (50, 200)])
def test_the_screen_fits_the_terminal(here: Env, waiting: str, rows: int, columns: int) -> None:
    with screen(here, "top", rows=rows, columns=columns) as seen:
        text = seen.until(lambda text: "▶ running" in text and "✓ success" in text)
        lines = seen.lines
        assert lines[0].startswith("arcp-client top · cli-tests")
        assert lines[0].endswith("live")
        assert "2 jobs · 1 running" in lines[1]
        assert "waiting" in lines[3], text
        assert "q quit" in lines[-1]
        assert "AGENT" not in lines[2] or columns > 80
        seen.resize(30, 100)
        seen.until(lambda _: "q quit" in seen.lines[29])
        seen.child.send("q")
        seen.to_the_end()
        assert ended(seen.child) == 0


def test_keys_filter_open_and_come_back(here: Env, waiting: str) -> None:
    with screen(here, "top") as seen:
        seen.until("▶ running")
        seen.child.send("/")
        seen.until("filter;")
        seen.child.send("echo\r")
        seen.until(lambda text: "filter: echo" in text and "▶ running" not in text)
        seen.child.send("\r")
        seen.until(lambda text: "echoing" in text and "esc back" in text)
        seen.child.send("\x1b")
        seen.until("filter: echo")
        seen.child.send("\x1b")
        seen.until("▶ running")
        seen.child.send("q")
        seen.to_the_end()
        assert ended(seen.child) == 0


def test_a_job_is_cancelled_only_after_a_yes(here: Env) -> None:
    job = job_of(run(here, "run", "waits", "--detach").stdout)
    with screen(here, "top") as seen:
        seen.until("▶ running")
        seen.child.send("c")
        seen.until("y: cancel it")
        seen.child.send("n")
        seen.until(lambda text: "y: cancel it" not in text)
        assert "running" in run(here, "status", job).stdout
        seen.child.send("c")
        seen.until("y: cancel it")
        seen.child.send("y")
        seen.until("■ cancelled")
        seen.child.send("q")
        seen.to_the_end()
    assert "cancelled" in run(here, "status", job).stdout


def test_without_colours_nothing_is_coloured(here: Env, waiting: str) -> None:
    with screen({**here, "NO_COLOR": "1"}, "top") as seen:
        seen.until("▶ running")
        colours = {cell.fg for row in range(24) for cell in seen.cells(row)}
        assert len(colours) <= 3, colours  # shades of grey at most
        seen.child.send("q")
        seen.to_the_end()


def test_lines_say_in_words_what_changes(here: Env, tmp_path: Path) -> None:
    job = job_of(run(here, "run", "waits", "--detach").stdout)
    command = [*COMMAND, "top", "--lines", "--agent", "waits"]
    with Process(command, stdout=subprocess.PIPE, text=True, env=here) as process:
        assert process.stdout is not None
        try:
            while job[-8:] not in (line := process.stdout.readline()):
                assert line, "it ended"
            assert ", waits, running" in line
            run(here, "cancel", job)
            while "cancelled" not in (line := process.stdout.readline()) or job[-8:] not in line:
                assert line, "it ended"
            assert "\x1b" not in line
        finally:
            process.terminate()
            process.communicate(timeout=20)
