"""W1: numbers pass through the command line with the digits that were typed or sent."""

from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client import Client, JobContext, Runtime
from arcp_client import _digits as exact
from arcp_client._wire.build import to_event
from arcp_client._wire.codec import EventFrame, decode
from arcp_client.acp import _decode, updates
from arcp_client.acp._base import NOWHERE, exact_raw
from arcp_client.cli import connection
from arcp_client.cli.actions import record, replay, result, run, saved_runs, status, watch
from arcp_client.cli.actions.follow import read_input
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError
from arcp_client.cli.interrupts import Interrupts
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal
from arcp_client.cli.view.render import event_text
from arcp_client.errors import JobFailed
from arcp_client.projection import JobProjection
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Emit, Finish
from tests.exact_numbers import MORE_NUMBERS, ExactConnector, digits

NUMBER = r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?"
some_numbers = st.lists(st.from_regex(NUMBER, fullmatch=True), min_size=1, max_size=3)
TEXT = f"[{','.join(MORE_NUMBERS)}]"
SPACED = f"[{', '.join(MORE_NUMBERS)}]"
VALUES = [digits(text) for text in MORE_NUMBERS]


# ------------------------------------------------------------------------- what is typed


def typed_inline(text: str, _: Path) -> str:
    return text


def typed_in_a_file(text: str, directory: Path) -> str:
    path = directory / "input.json"
    path.write_text(text)
    return f"@{path}"


def typed_into_a_pipe(text: str, _: Path) -> str:
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()))
    return "-"


@pytest.fixture
def given_by(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], bytes]:
    """Reads a text by one of the ways to give an input."""
    monkeypatch.setattr(sys, "stdin", sys.stdin)
    return lambda text: bytes(read_input(request.param(text, tmp_path)))


ways = pytest.mark.parametrize(
    "given_by", [typed_inline, typed_in_a_file, typed_into_a_pipe], indirect=True
)


@ways
def test_an_input_has_the_digits_that_were_typed(given_by: Callable[[str], bytes]) -> None:
    @given(some_numbers)
    @example(list(MORE_NUMBERS))
    def reads(numbers: list[str]) -> None:
        listed = ",".join(numbers)
        found = given_by(f'{{"é": [{listed}],\n "n": {numbers[0]}}}')
        assert found == f'{{"\\u00e9":[{listed}],"n":{numbers[0]}}}'.encode()

    reads()


@ways
def test_of_equal_keys_the_last_one_is_sent(given_by: Callable[[str], bytes]) -> None:
    assert given_by('{"a": 1.50, "b": 2, "a": 1e2}') == b'{"a":1e2,"b":2}'


def test_a_saved_run_has_the_digits_of_its_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    submit = {"agent": "a", "input": read_input(TEXT)}
    saved_runs.begin(url="u", submit=submit).release()
    [kept] = saved_runs.unfinished()
    assert bytes(kept.submit["input"]) == TEXT.encode()


# ------------------------------------------------------------------------- what is shown


def event_of(kind: str, body: str) -> Any:
    data = (
        '{"arcp":"1.1","id":"e1","type":"job.event","session_id":"s","job_id":"j","event_seq":1,'
        f'"payload":{{"kind":"{kind}","ts":"2026-01-01T12:15:15.5Z","body":{body}}}}}'
    ).encode()
    frame = decode(data)
    assert isinstance(frame, EventFrame)
    return to_event(frame, data)


@given(some_numbers)
@example(list(MORE_NUMBERS))
def test_a_person_sees_the_digits_that_the_agent_sent(numbers: list[str]) -> None:
    listed = ", ".join(numbers)
    for kind, body in (
        ("tool_call", f'{{"tool":"t","call_id":"c","args":{{"n":[{listed}]}}}}'),
        ("tool_result", f'{{"call_id":"c","result":{{"n":[{listed}]}}}}'),
        ("tool_result", f'{{"call_id":"c","error":{{"n":[{listed}]}}}}'),
        ("x-vendor.note", f'{{"n":[{listed}]}}'),
    ):
        assert f'{{"n": [{listed}]}}' in event_text(event_of(kind, body)).plain
    for number in numbers:
        told = event_of("metric", f'{{"name":"m","value":{number},"unit":"B"}}')
        assert event_text(told).plain.replace(",", "") == f"m = {number} B"


def test_a_metric_has_its_thousands_apart() -> None:
    for number, shown in (
        ("1234567.50", "1,234,567.50"), ("-1234", "-1,234"), ("999", "999"), ("-0", "-0"),
        ("12345e3", "12345e3"), ("0.12345678", "0.12345678"),
    ):  # fmt: skip
        told = event_of("metric", f'{{"name":"m","value":{number}}}')
        assert event_text(told).plain == f"m = {shown}"


def test_the_live_view_of_a_call_has_the_digits_that_were_sent() -> None:
    seen = JobProjection("j")
    seen.apply(event_of("tool_call", f'{{"tool":"t","call_id":"c","args":{TEXT}}}'))
    assert seen.calls[0].args == SPACED
    seen.apply(event_of("tool_result", f'{{"call_id":"c","result":{TEXT}}}'))
    assert seen.calls[0].outcome == SPACED


@pytest.mark.parametrize("deep", [10, 100_000])
def test_masking_and_cutting_stay(deep: int) -> None:
    value: Any = exact.loads('["\\u009b", 1.50]')
    for _ in range(deep):
        value = [value]
    text = terminal.as_json(value, cut=True)
    assert "\x9b" not in text
    assert ("1.50" in text) != ("nested too deeply" in text)


# ------------------------------------------------------------------------- whole commands

SCRIPT = [
    Emit("tool_call", {"tool": "add", "args": {"n": VALUES}, "call_id": "c1"}),
    Emit("tool_result", {"call_id": "c1", "result": {"n": VALUES}}),
    *(Emit("metric", {"name": "size", "value": value, "unit": "B"}) for value in VALUES),
    Emit("progress", {"current": digits("1.50"), "total": digits("1e2"), "units": "files"}),
    Emit("x-vendor.note", {"deep": [{"n": VALUES}]}),
]


async def fails(_: Any, job: JobContext) -> None:
    raise JobFailed("why", code="X", details=msgspec.Raw(f'{{"n":{TEXT}}}'.encode()))


class Commands:
    """Runs commands on a runtime in this process."""

    def __init__(self, connector: ExactConnector, capture: pytest.CaptureFixture[str]) -> None:
        self.connector = connector
        self._capture = capture

    def place(self, output: Output) -> Place:
        return Place("ws://here/arcp", None, output, 5.0, 5.0)

    async def run(self, output: Output, agent: str = "sums", **options: Any) -> tuple[str, str]:
        submit = {"agent": agent, "input": read_input(TEXT), "idempotency_key": "k"}
        command = run._Running(self.place(output), submit, None, **{"save": None, **options})
        return await self.outcome(command.go)

    async def outcome(self, body: Callable[[Interrupts], Any]) -> tuple[str, str]:
        """What a command printed on stdout and stderr."""
        try:
            await body(Interrupts())
        except CommandError as problem:
            terminal.print_error(problem)
        terminal.err.cache_clear()
        shown = self._capture.readouterr()
        return shown.out, shown.err


@pytest.fixture
async def commands(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> AsyncIterator[Commands]:
    runtime: Any = ScriptedRuntime(agents={"sums": [*SCRIPT, Finish({"n": VALUES})]})
    if request.param == "embedded":
        runtime = Runtime()
        runtime.agent("fails")(fails)
    async with runtime:
        connector = ExactConnector(runtime)
        monkeypatch.setattr(connection, "make_client", lambda *_: Client(connector))
        terminal.err.cache_clear()
        yield Commands(connector, capsys)
        terminal.err.cache_clear()


scripted = pytest.mark.parametrize("commands", ["scripted"], indirect=True)
embedded = pytest.mark.parametrize("commands", ["embedded"], indirect=True)


def bodies(monkeypatch: pytest.MonkeyPatch, module: Any) -> list[Callable[[Interrupts], Any]]:
    """Keeps what a command would run in a loop of its own, to run it in this one."""
    kept: list[Callable[[Interrupts], Any]] = []
    monkeypatch.setattr(module, "execute", lambda body, **_: kept.append(body))
    return kept


@scripted
async def test_run_sends_what_was_typed_and_writes_what_was_sent(commands: Commands) -> None:
    lines, _ = await commands.run(Output.JSONL)
    [frame] = [frame for frame in commands.connector.sent if b'"job.submit"' in frame]
    assert f'"input":{TEXT}'.encode() in frame
    assert lines.count(SPACED) == 5  # arguments, what came back, the vendor's, the result twice
    for number in MORE_NUMBERS:
        assert f'"value": {number},' in lines
    assert '"current": 1.50, "total": 1e2' in lines


@scripted
@pytest.mark.parametrize("output", list(Output))
async def test_the_outcome_of_a_run_has_the_digits_that_were_sent(
    commands: Commands, output: Output
) -> None:
    out, err = await commands.run(output)
    assert f'{{"n": {SPACED}}}' in out.splitlines()[-1]
    assert err.count(SPACED) == (3 if output is Output.TEXT else 0)


@scripted
async def test_a_file_has_the_digits_that_were_sent(commands: Commands, tmp_path: Path) -> None:
    await commands.run(Output.TEXT, save=tmp_path / "result")
    assert re.sub(r"\s", "", (tmp_path / "result").read_text()) == f'{{"n":{TEXT}}}'


@scripted
async def test_other_commands_show_a_job_with_the_digits_that_were_sent(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = await commands.run(Output.JSON)
    job_id = json.loads(found)["job_id"]
    for module in (result, status, watch, record, replay):
        setattr(commands, module.__name__.rpartition(".")[2], bodies(monkeypatch, module))
    told: Any = commands

    for output in Output:
        result.result(commands.place(output), job_id, save=None)
        out, _ = await commands.outcome(told.result.pop())
        assert f'{{"n": {SPACED}}}' in out
    result.result(commands.place(Output.TEXT), job_id, save=tmp_path / "result")
    await commands.outcome(told.result.pop())
    assert re.sub(r"\s", "", (tmp_path / "result").read_text()) == f'{{"n":{TEXT}}}'

    status.status(commands.place(Output.JSON), job_id)
    out, _ = await commands.outcome(told.status.pop())
    assert '"current": 1.50, "total": 1e2, "units": "files"' in out

    watch.watch(commands.place(Output.JSONL), job_id, history=True)
    out, _ = await commands.outcome(told.watch.pop())
    assert out.count(SPACED) == 5

    path = tmp_path / "job.arcp"
    record.record(commands.place(Output.TEXT), [job_id], path, everything=False, force=False)
    await commands.outcome(told.record.pop())
    for output in Output:
        replay.replay(path, job_id=None, speed=None, start=1, output=output)
        out, err = await commands.outcome(told.replay.pop())
        assert out.count(SPACED) == {Output.TEXT: 1, Output.JSON: 1, Output.JSONL: 5}[output]
        assert err.count(SPACED) == (3 if output is Output.TEXT else 0)


@embedded
async def test_a_failure_has_its_details_as_they_were_sent(
    commands: Commands, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "job.arcp"
    commands_of = bodies(monkeypatch, record)
    found, _ = await commands.run(Output.JSON, "fails")
    assert f'"details": {{"n": {SPACED}}}' in found
    job_id = json.loads(found)["job_id"]
    record.record(commands.place(Output.TEXT), [job_id], path, everything=False, force=False)
    await commands.outcome(commands_of.pop())
    *_, outcome, _ = path.read_text().splitlines()
    assert f'"details":{{"n":{TEXT}}}' in outcome
    commands_of = bodies(monkeypatch, replay)
    replay.replay(path, job_id=None, speed=None, start=1, output=Output.JSON)
    out, _ = await commands.outcome(commands_of.pop())
    assert f'"details": {{"n": {SPACED}}}' in out


# ------------------------------------------------------------------------- acp


@given(some_numbers)
@example(list(MORE_NUMBERS))
def test_an_update_of_an_acp_agent_is_written_as_it_was_sent(numbers: list[str]) -> None:
    listed = f"[{','.join(numbers)}]"
    line = (
        '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":'
        f'{{"sessionUpdate":"tool_call","toolCallId":"t","title":"t","rawInput":{listed}}}}}}}'
    )
    update = _decode.update_of((line.encode(), NOWHERE))
    assert isinstance(update, updates.ToolCall)
    text = terminal.as_json(exact_raw(update))
    assert f'"rawInput": [{", ".join(numbers)}]' in text
