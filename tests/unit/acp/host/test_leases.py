"""Commands of a hosted agent: the lease names programs, and only those run."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, Lease, Runtime
from arcp_client.acp import LocalTerminals, Refusal, host, schema
from arcp_client.acp.limits import AcpLimits
from tests.unit.acp.host.test_jobs import Served, hosted
from tests.unit.acp.kit import chunk


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on PATH with a program ``git``; another ``git`` is elsewhere, and in ``work``."""
    for name in ("bin", "elsewhere", "work"):
        program = tmp_path / name / "git"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho {name}\n")
        program.chmod(0o755)
    (tmp_path / "elsewhere" / "link").symlink_to(tmp_path / "bin" / "git")
    (tmp_path / "bin" / "alias").symlink_to(tmp_path / "elsewhere" / "git")
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:/usr/bin:/bin")
    return tmp_path


async def ran(path: Path, lease: list[str], request: dict[str, Any], **options: Any) -> str:
    """What a command printed, or why it was refused."""
    said: list[str] = []

    async def turn(agent: Served) -> None:
        async def ask(method: str, **params: Any) -> Any:
            asking = agent.request(method, sessionId="s1", **params)
            await agent.send(asking)
            return await agent.reply_to(asking)

        reply = await ask("terminal/create", **request)
        if "error" in reply:
            said.append(reply["error"]["message"])
        else:
            terminal = reply["result"]["terminalId"]
            await ask("terminal/wait_for_exit", terminalId=terminal)
            output = await ask("terminal/output", terminalId=terminal)
            said.append(output["result"]["output"].strip())
        await agent.send(chunk("done"))
        await agent.end()

    async with hosted(turn, cwd=path / "work", **options) as (client, _):
        job = await client.submit("acp", "try", lease=Lease({"tool.call": lease}))
        await job.result()
    return said[0]


async def test_a_name_is_the_program_that_path_leads_to(path: Path) -> None:
    """Rule A8."""
    assert await ran(path, ["git"], {"command": "git"}) == "bin"
    assert await ran(path, ["git"], {"command": f"{path}/bin/git"}) == "bin"


@pytest.mark.parametrize(
    "request_",
    [
        {"command": "{}/elsewhere/git"},
        {"command": "./git", "cwd": "{}/elsewhere"},
        {"command": "../elsewhere/git", "cwd": "{}/bin"},
        {"command": "./git"},
        {"command": "bin/../elsewhere/git", "cwd": "{}"},
        {"command": "alias"},
        {"command": "{}/bin/alias"},
        {"command": "sh", "args": ["-c", "git"]},
    ],
    ids=str,
)
async def test_no_other_program_runs_under_its_name(path: Path, request_: dict[str, Any]) -> None:
    """Rule A8."""
    filled = json.loads(json.dumps(request_).replace("{}", str(path)))
    assert "the lease does not cover" in await ran(path, ["git", "alia", "link"], filled)


@pytest.mark.parametrize(
    "name",
    [
        *("PATH", "LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES"),
        *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "BASH_ENV", "ENV", "BASH_FUNC_git%%"),
        *("NODE_OPTIONS", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "GIT_SSH_COMMAND"),
        *("GIT_EXEC_PATH", "HOME", "GCONV_PATH", "GLIBC_TUNABLES", "PAGER", "IFS"),
    ],
)
async def test_the_agent_sets_nothing_that_decides_what_is_run(path: Path, name: str) -> None:
    """Rule A8."""
    env = [{"name": name, "value": f"{path}/elsewhere"}]
    said = await ran(path, ["*"], {"command": "git", "env": env})
    assert said == f"{name} must not be set here: it selects the executed code"


@pytest.mark.parametrize("name", ["WORD", "GIT_AUTHOR_NAME", "PYTHONUNBUFFERED", "LANG"])
async def test_the_agent_sets_everything_else(path: Path, name: str) -> None:
    env = [{"name": name, "value": "x"}]
    request_ = {"command": "sh", "args": ["-c", f"echo ${name}"], "env": env}
    assert await ran(path, ["sh"], request_) == "x"


async def test_other_programs_are_named_by_their_paths(path: Path) -> None:
    """Rule A8."""
    lease = [f"{path.resolve()}/elsewhere/git"]
    assert await ran(path, lease, {"command": f"{path}/elsewhere/git"}) == "elsewhere"
    assert await ran(path, lease, {"command": "./git", "cwd": f"{path}/elsewhere"}) == "elsewhere"
    assert await ran(path, lease, {"command": "alias"}) == "elsewhere"
    assert "does not cover" in await ran(path, lease, {"command": "git"})


@pytest.mark.parametrize("entry", ["", ".", "elsewhere"])
async def test_what_is_relative_in_path_is_passed_over(path: Path, entry: str) -> None:
    env = {"PATH": f"{entry}:{path}/bin"}
    request_ = {"command": "git", "cwd": f"{path}/elsewhere"}
    assert await ran(path, ["git"], request_, env=env) == "bin"


@pytest.mark.parametrize("command", ["none", "/no/such", "", "/", ".", "a\0b", "/bin/a\0b"])
async def test_what_is_no_program_is_refused(path: Path, command: str) -> None:
    assert "is not a program" in await ran(path, ["*"], {"command": command})


ASKS = """
import json, os, sys
def call(): return json.loads(sys.stdin.readline())
def send(**message): print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
send(id=call()["id"], result={"protocolVersion": 1})
send(id=call()["id"], result={"sessionId": "s1"})
prompt = call()
ask = {"sessionId": "s1", "command": "sh", "args": ["-c", "echo $MARK $SECRET $(pwd)"]}
send(id="a", method="terminal/create", params=ask)
terminal = {"sessionId": "s1", "terminalId": call()["result"]["terminalId"]}
send(id="b", method="terminal/wait_for_exit", params=terminal); call()
send(id="c", method="terminal/output", params=terminal)
text = call()["result"]["output"].strip() + " " + os.environ.get("MARK", "") + " "
text += os.environ.get("SECRET", "none")
update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
send(method="session/update", params={"sessionId": "s1", "update": update})
send(id=prompt["id"], result={"stopReason": "end_turn"})
sys.stdin.read()
"""


async def test_agent_and_terminals_have_one_environment_and_one_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rule A9."""
    monkeypatch.setenv("SECRET", "of the runtime")
    env = {"PATH": os.environ["PATH"], "MARK": "given"}
    agent = host([sys.executable, "-c", ASKS], cwd=tmp_path, env=env, limits=AcpLimits(close=2))
    async with Runtime() as runtime:
        runtime.agent("acp")(agent)
        async with Client(runtime) as client:
            job = await client.submit("acp", "go", lease=Lease({"tool.call": ["sh"]}))
            said = (await job.result()).value
    assert said == f"given {tmp_path.resolve()} given none"


# ----------------------------------------------------------------------------- terminals


def create(*argv: str, **more: Any) -> schema.CreateTerminalRequest:
    return schema.CreateTerminalRequest(session_id="s1", command=argv[0], args=[*argv[1:]], **more)


async def test_terminals_that_are_created_at_once_are_counted_before_they_start() -> None:
    terminals = LocalTerminals(max_open=4)
    for _ in range(2):
        results = await asyncio.gather(
            *(terminals.create(create("sleep", "1000")) for _ in range(60)), return_exceptions=True
        )
        opened = [result for result in results if isinstance(result, str)]
        assert len(opened) == 4
        for terminal in opened:
            await terminals.release("s1", terminal)
    await terminals.close()


async def test_a_command_that_does_not_start_leaves_nothing_open_and_gives_its_place_back() -> None:
    terminals = LocalTerminals(max_open=1)
    before = descriptors()
    for _ in range(20):
        with pytest.raises(Refusal, match="cannot be started"):
            await terminals.create(create("/no/such/program"))
        terminal = await terminals.create(create("true"))
        await terminals.wait_for_exit("s1", terminal)
        await terminals.release("s1", terminal)
    assert descriptors() <= before + 1
    await terminals.close()


async def test_output_that_a_child_left_behind_holds_open_is_closed_here() -> None:
    terminals = LocalTerminals()
    await terminals.release("s1", await terminals.create(create("true")))
    before = descriptors()
    for _ in range(3):
        terminal = await terminals.create(create("sh", "-c", "setsid sleep 5 &"))
        await terminals.wait_for_exit("s1", terminal)
        await terminals.release("s1", terminal)
    assert descriptors() <= before
    await terminals.close()


def descriptors() -> int:
    return len([*Path("/proc/self/fd").iterdir()])
