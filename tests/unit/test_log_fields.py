"""Log records name their session, job and event in fields, and every logger is documented."""

from __future__ import annotations

import ast
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from arcp_client import Client, events
from arcp_client._log_fields import log_fields
from arcp_client.runtime import JobContext, Runtime

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "arcp_client").rglob("*.py"))
LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
NAMES_ONE = re.compile(r"\b(?:job|session|for job|of job) %[.\d]*[sr]")


def calls() -> Iterator[tuple[Path, ast.Call]]:
    """Every call of a logger in the package."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            of = node.func.value
            if node.func.attr in LEVELS and isinstance(of, ast.Name) and "log" in of.id.lower():
                yield path, node


def test_a_message_that_names_a_job_or_a_session_has_it_as_a_field() -> None:
    found = list(calls())
    assert len(found) > 60
    bare = [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path, call in found
        if isinstance(call.args[0], ast.Constant)
        and NAMES_ONE.search(str(call.args[0].value))
        and all(keyword.arg != "extra" for keyword in call.keywords)
    ]
    assert not bare


def test_every_logger_of_the_package_is_documented() -> None:
    page = (ROOT / "docs" / "howto" / "logging.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"`(arcp_client[.\w]*)`", page))
    named = {
        name
        for path in SOURCES
        for name in re.findall(r'getLogger\("([.\w]+)"', path.read_text(encoding="utf-8"))
    }
    assert named
    assert not named - documented
    assert not {name for name in documented if name.count(".") and name not in named}


def test_ids_that_peers_choose_are_cut() -> None:
    assert log_fields(session="s" * 1000, job="j") == {"session": "s" * 128, "job": "j"}
    assert log_fields(session=None, job="", seq=0) == {"seq": 0}


async def test_a_failing_handler_is_logged_with_session_job_and_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, logger="arcp_client")
    runtime = Runtime()

    @runtime.agent("talk")
    async def talk(_: object, job: JobContext) -> None:
        await job.log("one")

    async with runtime, Client(runtime) as client:

        @client.on(events.Log)
        def broken(event: events.Log) -> None:
            raise ValueError(event.message)

        job = await client.submit("talk")
        await job.result()
        session = client.session.id
    [failure] = [r for r in caplog.records if r.name == "arcp_client.dispatch"]
    assert (failure.session, failure.job, failure.seq) == (session, job.id, 1)  # type: ignore[attr-defined]
    submitted, ended = [
        r for r in caplog.records if r.name == "arcp_client.client" and hasattr(r, "job")
    ]
    assert submitted.getMessage() == f"job {job.id} (talk) submitted"
    assert ended.getMessage() == f"job {job.id} (talk): success"
    theirs = [r for r in caplog.records if r.name == "arcp_client.runtime" and hasattr(r, "job")]
    assert {(r.session, r.job) for r in theirs} == {(session, job.id)}  # type: ignore[attr-defined]
    start = f"session {session} opened:"
    [opened] = [r for r in caplog.records if r.getMessage().startswith(start)]
    assert opened.session == session  # type: ignore[attr-defined]
