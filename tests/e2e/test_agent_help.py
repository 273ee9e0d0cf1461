"""What the command line shows of the input that an agent declares, and of a wrong input."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.shell import Env, fresh, run, serving


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Env:
    return fresh(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def url(env: Env) -> Iterator[str]:
    with serving(env, "--agents", "cli_agents:make") as (url, _):
        yield url


def test_the_help_for_an_agent_shows_its_description_and_its_input(url: str, env: Env) -> None:
    shown = run(env, "run", "report", "--url", url, "--help")
    assert shown.returncode == 0
    assert "--max-runtime" in shown.stdout
    assert (
        f"""
Agent report, at {url}:
  Writes a report.
  Versions: 2, by default 2.
  Input:
    title    string, at least 3 characters, required. The first line.
    pages    integer, at least 1, default 1
    kind     one of "draft", "final" or null, default null
    authors  list of object with name, default []
"""
        in shown.stdout
    )


def test_an_agent_that_declares_nothing_takes_any_json(url: str, env: Env) -> None:
    shown = run(env, "run", "--help", "echo", "--url", url)
    assert "It does not declare its input: any JSON value is accepted." in shown.stdout


def test_the_help_names_an_agent_that_the_runtime_does_not_have(url: str, env: Env) -> None:
    for agent in ("nothing", "report@3"):
        shown = run(env, "run", agent, "-h", "--url", url)
        assert (shown.returncode, shown.stderr) == (0, "")
        assert f"{url} has no agent {agent}." in shown.stdout


def test_the_help_is_shown_without_a_runtime_too(env: Env) -> None:
    shown = run(
        env, "run", "report", "--help", "--url", "ws://127.0.0.1:9/arcp", "--connect-timeout", "0.5"
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "The input of report is not known: ws://127.0.0.1:9/arcp: " in shown.stdout


def test_the_help_without_an_agent_asks_no_runtime(env: Env) -> None:
    shown = run(env, "run", "--help", "--url", "nonsense")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "not known" not in shown.stdout


def test_a_wrong_input_is_refused_with_the_name_of_the_field(url: str, env: Env) -> None:
    refused = run(env, "run", "report", "-i", '{"title": "May", "pages": 0}', "--url", url)
    assert refused.returncode == 2
    assert "input.pages: Input should be greater than or equal to 1" in refused.stderr
    done = run(env, "run", "report", "-i", '{"title": "May", "pages": 2}', "--url", url)
    assert (done.returncode, done.stdout) == (0, "May: 2 pages\n")
