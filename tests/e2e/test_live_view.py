"""``run`` and ``watch`` on terminals: a live view that fits, and the same facts without one."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shell import COMMAND, ESCAPE, Env, ended, fresh, run, screen, serving, terminal
from tests.forks import Process

LEASE = ["--lease", "tool.call=*", "--lease", "agent.delegate=*", "--lease", "cost.budget=USD:5"]


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Env:
    return fresh(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def here(env: Env) -> Iterator[Env]:
    with serving(env, "--agents", "cli_agents:make") as (url, _):
        yield {**env, "ARCP_URL": url}


@pytest.mark.parametrize(("rows", "columns"), [(24, 80), (50, 200), (10, 40)])
def test_everything_about_a_job_is_seen_at_once_and_fits(
    here: Env, rows: int, columns: int
) -> None:
    with screen(here, "run", "busy", *LEASE, rows=rows, columns=columns) as seen:
        wanted = [r"● busy@1.0.0", r"━+┄* 3/4 files", r"└ helper +━+┄+ 1/2 pages", "3.50 of 5"]
        if rows > 10:
            wanted += [r"→ sleep", r"✓ grep", "bytes", r"left · [\d.,]+/min · .* left"]
        text = seen.until(lambda text: all(re.search(each, text) for each in wanted))
        view = text[text.rindex("● busy") :].splitlines()
        assert len(view) <= max(rows // 3, 4)
        assert all(len(line) < columns for line in view), "a full line may begin another one"
        assert seen.cursor_is_shown
        assert "the end of \x1b" not in text


def test_events_scroll_by_above_the_view_in_order(here: Env) -> None:
    with screen(here, "run", "busy", *LEASE) as seen:
        text = seen.until(
            lambda text: (
                "└ helper I help" in seen.past + text and re.search(r"→ sleep +\d+ s", text)
            )
        )  # what a child says comes whenever the view has found it
        said = ["reading: the sources", "it is quiet here", "delegates to helper", "→ grep",
                "← grep {", "cost.model = 1.5 USD", "→ sleep", "● busy"]  # fmt: skip
        places = [(seen.past + text).find(each) for each in said]
        assert places == sorted(places)
        assert -1 not in places
        assert seen.style("it is quiet here").italics
        assert text.count("● busy") == 1


def test_the_view_follows_the_window(here: Env) -> None:
    with screen(here, "run", "busy", *LEASE, rows=50, columns=200) as seen:
        seen.until("→ sleep")
        seen.resize(24, 80)
        text = seen.until(lambda text: re.search(r"→ sleep +[1-9]\d* s", text))
        assert max(map(len, text.splitlines()[-9:])) <= 80
        assert "3/4 files" in text
        seen.resize(50, 200)
        seen.until(lambda text: len(max(text.splitlines()[-9:], key=len)) > 80)


def test_at_the_end_the_view_is_gone_and_the_result_is_there(here: Env) -> None:
    with screen(here, "run", "steps", "-i", '{"to": 40}') as seen:
        shown = seen.to_the_end()
    assert re.findall(r"step (\d+)", shown) == [f"{n:04}" for n in range(1, 41)]
    assert "● steps" not in shown
    assert "41 events in" in shown
    assert shown.rstrip().endswith('{"steps": 40}')


def test_a_flood_of_events_is_shown_in_full_with_few_redraws(here: Env) -> None:
    with terminal(here, "run", "steps", "-i", '{"to": 3000}') as child:
        child.expect(r'\{"steps": 3000\}')
        shown = child.before
    assert re.findall(r"step (\d+)", shown) == [f"{n:04}" for n in range(1, 3001)]
    assert shown.count("● ") < 1000  # by the clock, so a slow machine draws more; not once an event


def test_hostile_text_stays_text(here: Env) -> None:
    with screen(here, "run", "hostile") as seen:
        shown = seen.to_the_end()
    assert "]0;owned" in shown
    assert "gone" in shown
    assert "result" in shown


@pytest.mark.parametrize("variables", [{"TERM": "dumb"}, {"TERM": "unknown"}])
def test_where_there_is_nothing_to_draw_on_there_are_lines(here: Env, variables: Env) -> None:
    with terminal(here, "run", "steps", "-i", '{"to": 3}', **variables) as child:
        code = ended(child)
        assert code == 0
        assert ESCAPE not in child.before
        assert "step 0003" in child.before
        assert "● " not in child.before


def test_into_a_pipe_there_are_lines_with_all_of_it(here: Env) -> None:
    process = Process(
        [*COMMAND, "run", "busy", *LEASE],
        env=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line)
        if "→ sleep" in line:
            process.send_signal(signal.SIGINT)
    out = process.communicate(timeout=30)[0]
    said = "".join(lines)
    assert (process.returncode, out) == (130, "")
    for each in ("3/4 files", "cost.budget.remaining = 3.5",
                 "← grep", "└ helper"):  # fmt: skip
        assert each in said
    assert ESCAPE not in said


def test_watch_shows_the_children_of_a_job_of_another_session(here: Env) -> None:
    job = run(here, "run", "busy", *LEASE, "--detach").stdout.strip()
    with screen(here, "watch", job) as seen:
        seen.until(r"└ helper +━+┄+ 1/2 pages")
        assert run(here, "cancel", job).returncode == 0
        assert "cancelled" in seen.to_the_end()


def test_jobs_that_are_watched(here: Env, tmp_path: Path) -> None:
    go = tmp_path / "go"
    asked = json.dumps({"to": 2, "until": str(go)})
    with (
        screen(here, "jobs", "--watch", "--every", "0.2", "--agent", "steps") as listed,
        screen(here, "run", "steps", "-i", asked) as seen,
    ):
        seen.until("step 0001")
        text = listed.until(r"(?m)^ *job_\w+ +running +steps")
        assert "Ctrl-C ends it" in text
        assert "busy" not in text
        go.touch()
        seen.to_the_end()
        listed.until(lambda text: not re.search("running +steps", text))
        assert listed.text.count("status") == 1
        listed.child.sendintr()
        listed.to_the_end()


def test_jobs_that_are_watched_by_a_program(here: Env) -> None:
    process = Process(
        [*COMMAND, "jobs", "--watch", "--every", "0.2", "--agent", "echo", "--output", "jsonl"],
        env=here, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert run(here, "run", "echo").returncode == 0
    row = json.loads(process.stdout.readline())
    assert (row["schema"], row["agent"]) == ("arcp-client.jobs/1", "echo")
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=30)
    assert process.returncode == 0
    assert run(here, "jobs", "--watch", "--output", "json").returncode == 2
