"""Questions where people answer them: on terminals, by commands, in scripts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.shell import Env, ended, fresh, job_of, run, serving, terminal


@pytest.fixture(scope="module")
def env(tmp_path_factory: pytest.TempPathFactory) -> Env:
    return fresh(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def here(env: Env) -> Iterator[Env]:
    with serving(env, "--agents", "cli_agents:make") as (url, _):
        yield {**env, "ARCP_URL": url}


def test_run_asks_on_the_terminal_and_takes_a_number(here: Env) -> None:
    with terminal(here, "run", "asks") as child:
        child.expect(r"Deploy\? \[1 Deploy now, 2 Not yet\]")
        child.sendline("7")
        child.expect("answer with 1 Deploy now, 2 Not yet")
        child.sendline("2")
        child.expect('answered "wait"')
        assert ended(child) == 0


def test_a_question_that_is_answered_elsewhere_is_no_longer_asked(here: Env) -> None:
    with terminal(here, "run", "asks") as child:
        child.expect(r"Deploy\? \[1 Deploy now, 2 Not yet\]")
        found = json.loads(run(here, "inbox", "--json").stdout)["questions"]
        (question,) = [each for each in found if each["waiting"]]
        assert [option["label"] for option in question["options"]] == ["Deploy now", "Not yet"]
        done = run(here, "answer", question["job_id"], question["question_id"], "deploy", "--json")
        assert json.loads(done.stdout)["value"] == "go"
        child.expect('answered "go"')
        assert ended(child) == 0
        late = run(here, "answer", question["job_id"], question["question_id"], "wait")
        assert late.returncode == 1
        assert "anonymous answered at" in late.stderr
        assert ': "go"\n' in late.stderr


def test_a_pipe_gets_the_question_as_json_and_the_command_that_answers_it(
    here: Env, tmp_path: Path
) -> None:
    started = run(here, "run", "asks", "--detach")
    job_id = job_of(started.stdout)
    (line,) = run(here, "inbox").stdout.splitlines()
    asked_by, question_id, agent, text = line.split("\t")
    assert (asked_by, agent, text) == (job_id, "asks", "Deploy?")
    (listed,) = json.loads(run(here, "inbox", "--json").stdout)["questions"]
    assert listed["schema"] == {"enum": ["go", "wait"]}
    line = json.loads(run(here, "inbox", "--output", "jsonl").stdout)
    assert line == {"schema": "arcp-client.inbox/1", "type": "question", "question": listed}
    wrong = run(here, "answer", job_id, question_id, "perhaps")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "answer with 1 Deploy now, 2 Not yet" in wrong.stderr
    assert run(here, "answer", job_id, question_id, "1").returncode == 0
    watched = run(here, "watch", job_id, "--output", "jsonl").stdout.splitlines()
    kinds = [json.loads(each).get("event", {}).get("kind") for each in watched]
    assert "x-vendor.arcp-client.question" in kinds
    assert "x-vendor.arcp-client.answered" in kinds
    unknown = run(here, "answer", job_id, "q_made_up", "1")
    assert unknown.returncode == 5


def test_the_inbox_asks_each_question(here: Env) -> None:
    jobs = [job_of(run(here, "run", "asks", "--detach").stdout) for _ in range(2)]
    with terminal(here, "inbox", "--answer") as child:
        for _ in jobs:
            child.expect(r"Deploy\? \[1 Deploy now, 2 Not yet\]")
            child.sendline("1")
        assert ended(child) == 0
    assert [run(here, "result", job).stdout.strip() for job in jobs] == ["go", "go"]
    refused = run(here, "inbox", "--answer")
    assert refused.returncode == 2
