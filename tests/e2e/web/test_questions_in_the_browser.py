"""A hosted ACP agent asks; a person in a browser answers, and another one's terminal shows it."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.async_api import expect

from tests.e2e.shell import COMMAND, Env, ended, fresh, job_of, run, serving, terminal
from tests.e2e.web.conftest import MakeContext
from tests.forks import Process

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(240)]

LOGIN = "login-of-machine-b"


@contextmanager
def dashboard(env: Env, url: str) -> Iterator[str]:
    """``arcp-client web`` as a process; its address."""
    with Process(
        [*COMMAND, "web", "--url", url, "--port", "0", "--allow-control"],
        stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**env, "ARCP_WEB_TOKEN": LOGIN},
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            line = process.stderr.readline()
            found = re.search(r"http://\S+", line)
            assert found, line
            yield found[0]
        finally:
            process.terminate()
            process.communicate(timeout=20)


async def test_a_permission_is_answered_in_a_browser_while_a_terminal_shows_it(
    tmp_path: Path, new_page: MakeContext, complaints: list[str]
) -> None:
    wire = tmp_path / "wire.jsonl"
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    a, b = fresh(tmp_path / "a"), fresh(tmp_path / "b")
    hosting = {**a, "ASKING_ACP_AGENT_LINES": str(wire)}
    with (
        serving(hosting, "--agents", "asking_acp_host:make") as (url, _),
        dashboard(b, url) as site,
    ):
        started = await asyncio.to_thread(
            run, {**a, "ARCP_URL": url}, "run", "hosted", "--detach",
            "--input", '"deploy it"', "--lease", "tool.call=make",
        )  # fmt: skip
        assert started.returncode == 0, started.stderr
        job = job_of(started.stdout)
        with terminal({**a, "ARCP_URL": url}, "watch", job) as child:
            await asyncio.to_thread(child.expect, r"Run make deploy \[1 Allow, 2 Reject\]")
            page = await new_page()
            await page.goto(f"{site}#/inbox")
            await page.get_by_label("Token").fill(LOGIN)
            await page.keyboard.press("Enter")
            question = page.locator(".question")
            await expect(question).to_contain_text("Run make deploy")
            await expect(page).to_have_title(re.compile(r"^\(1\) "))
            await question.get_by_role("button", name="Allow").click()
            await expect(question).to_contain_text("Answered by anonymous with arcp-client-web")
            await asyncio.to_thread(
                child.expect, r'anonymous answered "allow", with arcp-client-web'
            )
            assert await asyncio.to_thread(ended, child) == 0
            await page.close()
            complaints.clear()  # of requests before the login
        result = await asyncio.to_thread(run, {**a, "ARCP_URL": url}, "result", job)
        assert result.stdout.strip() == "was told: allow"
        late = await asyncio.to_thread(run, {**a, "ARCP_URL": url}, "inbox", "--json")
        assert json.loads(late.stdout)["questions"] == []
    received = [json.loads(line) for line in wire.read_text().splitlines()]
    replies = [message for message in received if message.get("id") == "permission"]
    assert len(replies) == 1
    assert replies[0]["result"]["outcome"] == {"outcome": "selected", "optionId": "allow"}
