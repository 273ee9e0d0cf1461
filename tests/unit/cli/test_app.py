"""Help, version, logging and links of the command, as a person at 80 columns has them."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import arcp_client
from arcp_client import ArcpError, Connecting, errors
from arcp_client.cli import commands, exit_codes
from arcp_client.cli.app import COMMANDS as FUNCTIONS
from arcp_client.cli.app import CONFIG_COMMANDS, parser
from arcp_client.cli.connection import Place
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.options import StatusName
from arcp_client.cli.output_format import Output
from arcp_client.cli.view import terminal
from arcp_client.cli.view.render import count, state_text
from arcp_client.models import JobStatus

ROOT = Path(__file__).parents[3]
COMMANDS = sorted(get_command(parser()).commands)  # type: ignore[attr-defined]


def help_of(*words: str) -> str:
    done = CliRunner().invoke(
        parser(), [*words, "--help"], prog_name="arcp-client", env={"COLUMNS": "80"}
    )
    assert done.exit_code == 0, done.output
    return done.output


def test_the_summary_of_each_command_fits_on_its_line() -> None:
    text = help_of()
    for command in COMMANDS:
        assert f"\n  {command} " in text
    assert not re.search(r"\w\.\.\.$", text, re.MULTILINE)
    assert max(map(len, text.splitlines())) <= 80


@pytest.mark.parametrize("command", [[], *([each] for each in COMMANDS), ["config", "show"]])
def test_help_shows_no_marks_and_no_types_of_python(command: list[str]) -> None:
    text = help_of(*command)
    assert "`" not in text
    assert not re.search(r"<[a-z\[\] |]+>", text)
    assert "list[" not in text
    assert max(map(len, text.splitlines())) <= 80


def python(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, timeout=60, check=False
    )


def test_every_module_of_commands_is_registered() -> None:
    folder = Path(commands.__file__).parent
    modules = {f"{commands.__name__}.{file.stem}" for file in folder.glob("[a-z]*.py")}
    assert {each.__module__ for each in (*FUNCTIONS, *CONFIG_COMMANDS)} == modules


def test_a_group_of_options_is_spread_and_handed_over_as_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[Place] = []
    monkeypatch.setattr("arcp_client.cli.actions.ping.ping", lambda where: asked.append(where) or 0)
    words = ["ping", "--url", "ws://a/b", "--connect-timeout", "2", "--output", "jsonl"]
    assert CliRunner().invoke(parser(), words).exit_code == 0
    [where] = asked
    assert (where.url, where.connect_timeout, where.output) == ("ws://a/b", 2.0, Output.JSONL)


def test_doctor_takes_one_url(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(
        "arcp_client.cli.actions.doctor.doctor", lambda where: asked.append(where.url) or 0
    )
    for words in (["ws://a/b"], ["--url", "ws://a/b"]):
        assert CliRunner().invoke(parser(), ["doctor", *words]).exit_code == 0
    assert asked == ["ws://a/b"] * 2
    done = CliRunner().invoke(parser(), ["doctor", "ws://a/b", "--url", "ws://c/d"])
    assert done.exit_code == Exit.USAGE
    assert len(asked) == 2


def test_options_of_an_agent_of_acp_are_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(
        "arcp_client.cli.actions.acp.acp", lambda command, **_: started.append(command) or 0
    )
    assert CliRunner().invoke(parser(), ["acp", "agent", "-v", "--deep"]).exit_code == 0
    assert started == [["agent", "-v", "--deep"]]


def test_the_package_runs_as_the_command() -> None:
    done = python("-m", "arcp_client", "--version")
    assert (done.returncode, done.stdout) == (0, f"arcp-client {arcp_client.__version__}\n")
    wrong = python("-m", "arcp_client", "nope")
    assert wrong.returncode == 2
    assert "Usage: arcp-client " in wrong.stderr


def test_the_statuses_are_those_of_the_api() -> None:
    assert tuple(StatusName) == JobStatus.__args__  # type: ignore[attr-defined]


def test_a_misspelt_status_is_said_with_those_there_are() -> None:
    done = CliRunner().invoke(parser(), ["jobs", "--status", "running", "--status", "runnning"])
    assert done.exit_code == Exit.USAGE
    said = " ".join(done.output.replace("│", " ").split())
    assert "'runnning' is not a status, use one of pending, running, success" in said


# ------------------------------------------------------------------------- logging


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    logger = logging.getLogger("arcp_client")
    before = logger.level, logger.propagate, list(logger.handlers)
    yield logger
    logger.setLevel(before[0])
    logger.propagate, logger.handlers = before[1], before[2]


@pytest.mark.parametrize(
    ("words", "level"),
    [
        (["version"], logging.NOTSET),
        (["-v", "ping"], logging.INFO),
        (["ping", "-v"], logging.INFO),
        (["ping", "--verbose"], logging.INFO),
        (["ping", "-vv"], logging.DEBUG),
        (["-vv", "ping", "-v"], logging.DEBUG),
        (["-v", "ping", "-vv"], logging.DEBUG),
    ],
)
def test_verbose_sets_what_is_logged(
    logger: logging.Logger, words: list[str], level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client.cli.app._exit_code", lambda command: 0)
    logger.setLevel(logging.NOTSET)
    CliRunner().invoke(parser(), words)
    assert logger.level == level


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        (logging.NOTSET, "warning: w\n"),
        (logging.INFO, "info: arcp_client.link: i\nwarning: w\n"),
        (logging.DEBUG, "debug: arcp_client.link: d\ninfo: arcp_client.link: i\nwarning: w\n"),
    ],
)
def test_what_is_logged_is_on_stderr(
    logger: logging.Logger, level: int, shown: str, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.err.cache_clear()
    logger.handlers = []
    logger.setLevel(level)
    terminal.log_to_stderr()
    log = logging.getLogger("arcp_client.link")
    log.debug("d")
    log.info("i")
    log.warning("w")
    terminal.err.cache_clear()
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", shown)


# ------------------------------------------------------------------------- messages


@pytest.mark.parametrize("code", list(Exit))
def test_one_short_link_stands_under_an_error(
    code: Exit, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.err.cache_clear()
    terminal.print_error(CommandError(code, "it happened", "do this"))
    terminal.err.cache_clear()
    first, second, link = capsys.readouterr().err.splitlines()
    assert (first, second) == ("error: it happened", "  do this")
    assert link.endswith(f"/e.html#{int(code)}")
    assert len(link) < 80


def test_every_short_link_leads_to_the_section_that_the_long_one_leads_to() -> None:
    page = (ROOT / "docs/e.md").read_text(encoding="utf-8")
    classes = [each for each in vars(errors).values() if isinstance(each, type)]
    urls = [each("m").help_url for each in classes if issubclass(each, ArcpError)]
    urls += [exit_codes.page_of(code) for code in Exit]
    assert len(urls) >= 50
    for url in urls:
        anchor = exit_codes.short_link(url).rpartition("#")[2]
        target = url.removeprefix(exit_codes.DOCS_URL).replace(".html", ".md")
        assert re.search(rf'<a id="{anchor}"></a>\[[^\]]+\]\({re.escape(target)}\)', page), url
        assert len(exit_codes.short_link(url)) < 78


def test_another_link_is_left_alone() -> None:
    assert exit_codes.short_link("https://example.org/x#exit-3") == "https://example.org/x#exit-3"


def test_one_is_singular() -> None:
    assert [count(n, "job") for n in (0, 1, 2, 1000)] == ["0 jobs", "1 job", "2 jobs", "1,000 jobs"]


def test_an_attempt_that_failed_is_told_with_its_reason() -> None:
    assert state_text(Connecting(1)) is None
    said = state_text(Connecting(2, OSError("Connection refused")))
    assert said is not None
    assert said.plain == "no connection yet, attempt 2: Connection refused"
