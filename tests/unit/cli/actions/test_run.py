"""Which run ``run --resume`` goes on with, and what it says about the others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from arcp_client import Client, Runtime
from arcp_client.cli.actions import run, saved_runs
from arcp_client.cli.actions.run import _chosen
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.interrupts import Interrupts
from arcp_client.cli.output_format import Output


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def left(job_id: str | None, began: float) -> None:
    """A run whose process has ended."""
    held(job_id, began).release()


def held(job_id: str | None, began: float) -> saved_runs.SavedRun:
    """A run that a process follows."""
    run = saved_runs.begin(url="ws://here/arcp", submit={"agent": f"agent-of-{job_id}"})
    run.began = began + saved_runs.time() - 1000
    run.accepted(job_id)  # type: ignore[arg-type]  # which writes it down
    return run


def test_the_newest_one_and_the_others_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    left("job_1", 1)
    left("job_3", 3)
    left("job_2", 2)
    assert _chosen(None).job_id == "job_3"
    said = capsys.readouterr().err
    assert re.search(r"continuing job_3 \(agent-of-job_3, \d\d-\d\d \d\d:\d\d\)", said)
    assert re.search(r"others are job_2 \(.*\); job_1 \(", said)


def test_many_others_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    for n in range(9):
        left(f"job_{n}", n)
    assert _chosen(None).job_id == "job_8"
    assert "; and 5 more" in capsys.readouterr().err


def test_one_that_is_followed_is_left_alone() -> None:
    left("job_1", 1)
    following = held("job_2", 2)
    assert _chosen(None).job_id == "job_1"
    with pytest.raises(CommandError, match="another process follows job_2") as refused:
        _chosen("job_2")
    assert refused.value.code is Exit.USAGE
    following.release()
    assert _chosen("job_2").job_id == "job_2"


def test_the_one_that_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    left("job_1", 1)
    left("job_2", 2)
    assert _chosen("job_1").job_id == "job_1"
    assert "job_2" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("job_id", "said"), [(None, "no unfinished run"), ("job_9", "no saved run of job job_9")]
)
def test_none_at_all(job_id: str | None, said: str) -> None:
    if job_id is not None:
        left("job_1", 1)
    with pytest.raises(CommandError, match=said) as refused:
        _chosen(job_id)
    assert refused.value.code is Exit.NOT_FOUND
    assert "watch JOB" in refused.value.remedy


def test_one_whose_job_was_never_accepted_is_gone_on_with_too(
    capsys: pytest.CaptureFixture[str],
) -> None:
    left(None, 1)
    assert _chosen(None).job_id is None
    assert "continuing a job not accepted yet" in capsys.readouterr().err


async def test_what_was_delivered_is_finished_before_the_session_is_closed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    unfinished: list[tuple[bool, list[saved_runs.SavedRun]]] = []
    close = Client.close

    async def closing(client: Client, **options: float) -> None:
        unfinished.append(("42" in capsys.readouterr().out, saved_runs.unfinished()))
        await close(client, **options)

    async with Runtime() as runtime, runtime.serve() as server:

        @runtime.agent("answer")
        async def answer(input: object, job: object) -> int:
            return 42

        where = Place(server.url, None, Output.TEXT, connect_timeout=5.0, reconnect_for=5.0)
        submit = {"agent": "answer", "input": None, "idempotency_key": "cli-test"}
        kept = saved_runs.begin(url=server.url, submit=submit)
        monkeypatch.setattr(Client, "close", closing)
        code = await run._Running(where, submit, kept, save=None).go(Interrupts())
        monkeypatch.undo()
    assert code is Exit.SUCCESS
    assert unfinished == [(True, [])]
    assert not kept.directory.exists()
