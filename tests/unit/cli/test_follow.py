"""Arguments of ``run``, and how a followed job ends, with jobs that are made up."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Result, events
from arcp_client.cli import ledger
from arcp_client.cli.exits import Complaint, Exit
from arcp_client.cli.follow import follow, read_input, read_lease
from arcp_client.cli.options import Output
from arcp_client.cli.output import reporter, write_result
from arcp_client.cli.running import Interrupts


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "arcp-client" / "jobs"


def test_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert read_input('{"a": [1, "x"]}') == {"a": [1, "x"]}
    assert read_input("null") is None
    (tmp_path / "in.json").write_text("[1]")
    assert read_input(f"@{tmp_path / 'in.json'}") == [1]
    monkeypatch.setattr(sys, "stdin", io.StringIO('"piped"'))
    assert read_input("-") == "piped"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "--input is not JSON"),
        ("hello", "--input is not JSON"),
        ("NaN", "NaN is no JSON value"),
        ("[" * 100_000, "--input is not JSON"),
        ("@/nowhere/at.all", "/nowhere/at.all cannot be read"),
    ],
)
def test_inputs_that_are_none(text: str, said: str) -> None:
    with pytest.raises(Complaint, match=said) as refused:
        read_input(text)
    assert refused.value.code is Exit.USAGE


def test_leases() -> None:
    assert read_lease([]) is None
    assert read_lease(["fs.read=/a/**", "fs.read=/b", "x=y=z"]) == {
        "fs.read": ["/a/**", "/b"],
        "x": ["y=z"],
    }
    for wrong in ("fs.read", "=x", "fs.read="):
        with pytest.raises(Complaint, match="is not NAME=PATTERN"):
            read_lease([wrong])


class MadeUpJob:
    """Yields what it is given, and has the result that it is given."""

    id = "job_1"
    agent = "a"
    status = "success"

    def __init__(self, *stream: events.Event, value: Any = "done") -> None:
        self._stream = stream
        self._value = value

    async def __aiter__(self) -> AsyncIterator[events.Event]:
        for event in self._stream:
            yield event

    async def result(self) -> Result:
        return Result(value=self._value)


async def test_a_success_with_a_hole_is_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    job: Any = MadeUpJob(events.Gap(first=3, last=5), events.Completed())
    with pytest.raises(Complaint, match=r"events are missing: 3–5 \(lost\)") as holed:
        await follow(job, Interrupts(), reporter(Output.TEXT), save=None)
    assert holed.value.code is Exit.GAP
    shown = capsys.readouterr()
    assert shown.out == "done\n"
    assert "gap: events 3–5" in shown.err


async def test_what_an_iterator_no_longer_has_is_no_hole() -> None:
    job: Any = MadeUpJob(events.Gap(first=1, last=2, reason="not_retained"), events.Completed())
    code = await follow(job, Interrupts(), reporter(Output.JSON), save=None)
    assert code is Exit.SUCCESS


async def test_json_lines_have_a_schema_each(capsys: pytest.CaptureFixture[str]) -> None:
    job: Any = MadeUpJob(events.Log(seq=1, message="hü\ud800"), events.Completed(), value=b"\xff")
    await follow(job, Interrupts(), reporter(Output.JSONL), save=None)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["type"] for line in lines] == ["job", "event", "event", "outcome"]
    assert {line["schema"] for line in lines} == {"arcp-client.job/1"}
    assert lines[1]["event"]["message"] == "hü\ud800"
    assert lines[-1]["result"] == {"encoding": "base64", "data": "/w=="}
    assert lines[-1]["status"] == "success"


def test_results_as_data(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for value in ("text\n", "text", {"a": 1}, b"\x00\xff", None):
        write_result(value)
    assert capsysbinary.readouterr().out == b'text\ntext\n{"a": 1}\n\x00\xffnull\n'


def test_the_ledger_keeps_what_was_submitted_for_the_user_alone(state: Path) -> None:
    assert ledger.recall("job_1") is None
    ledger.remember("job_1", {"agent": "a", "input": {"secret": 1}})
    assert ledger.recall("job_1") == {"agent": "a", "input": {"secret": 1}}
    assert (state / "job_1.json").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    ledger.forget("job_1")
    ledger.forget("job_1")
    assert ledger.recall("job_1") is None


@pytest.mark.parametrize("job_id", ["../../etc/passwd", "a/b", "", "x" * 200, "a\0b"])
def test_a_runtimes_job_id_leads_nowhere(job_id: str, state: Path) -> None:
    ledger.remember(job_id, {"agent": "a"})
    assert ledger.recall(job_id) is None
    ledger.forget(job_id)
    assert not list(state.parent.rglob("*.json")) if state.parent.exists() else True
