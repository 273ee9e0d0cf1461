"""Files, terminals and permission policies: what an agent may do here, and no more."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.acp import LocalFiles, LocalTerminals, Refusal, allow_list, deny, schema
from arcp_client.acp.services.permissions import PermissionRequest, decide
from arcp_client.acp.services.terminals import _Terminal
from tests.unit.acp.kit import connected, opened


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    (tmp_path / "secret").write_text("secret")
    return tmp_path / "root"


async def test_files_are_read_and_written(root: Path) -> None:
    files = LocalFiles(root)
    path = str(root / "a" / "b.txt")
    await files.write_text_file(path, "one\ntwo\nthree\n")
    assert await files.read_text_file(path) == "one\ntwo\nthree\n"
    assert await files.read_text_file(path, line=2) == "two\nthree\n"
    assert await files.read_text_file(path, line=2, limit=1) == "two\n"
    assert await files.read_text_file(path, limit=2) == "one\ntwo\n"
    assert await files.read_text_file(path, line=9) == ""
    assert await files.read_text_file(path, line=0, limit=1) == "one\n"
    Path(path).chmod(0o750)
    await files.write_text_file(path, "x")
    assert Path(path).stat().st_mode & 0o777 == 0o750
    assert await files.read_text_file(path, line=1, limit=1) == "x"
    assert [found.name for found in (root / "a").iterdir()] == ["b.txt"]


OUTSIDE = [
    "../secret",
    "/etc/passwd",
    "link",
    "dirlink/secret",
    "a/../../secret",
    "rootlink/secret",
]


@pytest.mark.parametrize("name", OUTSIDE)
async def test_nothing_outside_of_the_root_is_touched(root: Path, name: str) -> None:
    (root / "a").mkdir()
    (root / "link").symlink_to(root.parent / "secret")
    (root / "dirlink").symlink_to(root.parent)
    (root / "rootlink").symlink_to("..")
    files = LocalFiles(root)
    path = name if name.startswith("/") else f"{root}/{name}"
    for attempt in (files.read_text_file(path), files.write_text_file(path, "evil")):
        with pytest.raises(Refusal, match="outside the workspace"):
            await attempt
    assert (root.parent / "secret").read_text() == "secret"


async def test_a_link_that_is_put_there_after_the_check_is_not_followed(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = LocalFiles(root)
    (root / "dir").mkdir()
    parts = files._parts(str(root / "dir" / "file"))
    (root / "dir").rmdir()
    (root / "dir").symlink_to(root.parent)
    (root / "file").symlink_to(root.parent / "secret")
    monkeypatch.setattr(LocalFiles, "_parts", lambda *_: parts)
    for attempt in (files.read_text_file("x"), files.write_text_file("x", "evil")):
        with pytest.raises(Refusal):
            await attempt
    monkeypatch.setattr(LocalFiles, "_parts", lambda *_: ("file",))
    for attempt in (files.read_text_file("x"), files.write_text_file("x", "evil")):
        with pytest.raises(Refusal):
            await attempt
    assert (root.parent / "secret").read_text() == "secret"


async def test_links_that_stay_inside_work(root: Path) -> None:
    (root / "real").mkdir()
    (root / "link").symlink_to("real")
    files = LocalFiles(root)
    await files.write_text_file(str(root / "link" / "x"), "inside")
    assert (root / "real" / "x").read_text() == "inside"
    outer = root.parent / "to root"
    outer.symlink_to(root)
    assert await LocalFiles(outer).read_text_file(str(outer / "real" / "x")) == "inside"


async def test_what_is_no_text_file_is_refused(root: Path) -> None:
    files = LocalFiles(root, max_bytes=10)
    (root / "big").write_text("x" * 11)
    (root / "binary").write_bytes(b"\xff\xfe")
    (root / "dir").mkdir()
    os.mkfifo(root / "pipe")
    for name, why in [
        ("big", "more than 10 bytes"),
        ("binary", "not UTF-8"),
        ("dir", "directory"),
        ("pipe", "not a regular file"),
        ("none", "does not exist"),
        ("big/x", "ot a directory"),
        (".", "is a directory"),
    ]:
        with pytest.raises(Refusal, match=why):
            await files.read_text_file(f"{root}/{name}")
    for name in ("dir", "pipe"):
        with pytest.raises(Refusal, match="not a regular file"):
            await files.write_text_file(f"{root}/{name}", "x")
    with pytest.raises(Refusal, match="more than 10"):
        await files.write_text_file(f"{root}/new", "x" * 11)
    with pytest.raises(Refusal, match="not an absolute path"):
        await files.read_text_file("relative")
    with pytest.raises(Refusal, match="writing is not allowed here"):
        await LocalFiles(root, writable=False).write_text_file(f"{root}/x", "")
    with pytest.raises(NotADirectoryError):
        LocalFiles(root / "big")


async def test_files_over_the_wire(root: Path) -> None:
    async with connected(fs=LocalFiles(root)) as (agent, client):
        await opened(agent, client)
        for method, more, expected in [
            ("fs/write_text_file", {"content": "hi"}, {"result": {}}),
            ("fs/read_text_file", {}, {"result": {"content": "hi"}}),
        ]:
            request = agent.request(method, sessionId="s1", path=f"{root}/f", **more)
            await agent.send(request)
            reply = await agent.reply_to(request)
            assert reply == {"jsonrpc": "2.0", "id": request["id"], **expected}
        request = agent.request("fs/read_text_file", sessionId="s1", path=f"{root}/none")
        await agent.send(request)
        assert (await agent.reply_to(request))["error"]["code"] == -32002


# ----------------------------------------------------------------------- terminals


def create(code: str, **more: Any) -> schema.CreateTerminalRequest:
    return schema.CreateTerminalRequest(
        session_id="s1", command=sys.executable, args=["-c", code], **more
    )


async def test_a_terminal_from_start_to_end() -> None:
    terminals = LocalTerminals()
    env = [schema.EnvVariable(name="WORD", value="hello")]
    code = "import os, sys; print(os.environ['WORD'], flush=True); sys.stderr.write('err'); exit(3)"
    terminal = await terminals.create(create(code, env=env))
    done = await terminals.wait_for_exit("s1", terminal)
    assert (done.exit_code, done.signal) == (3, None)
    output = await terminals.output("s1", terminal)
    assert output.output == "hello\nerr"
    assert output.exit_status is not None
    assert output.exit_status.exit_code == 3
    assert not output.truncated
    await terminals.release("s1", terminal)
    with pytest.raises(Refusal, match="terminal .* does not exist"):
        await terminals.output("s1", terminal)
    await terminals.close()


async def test_kill_is_never_stuck_behind_wait() -> None:
    terminals = LocalTerminals()
    async with connected(terminal=terminals) as (agent, client):
        await opened(agent, client)
        code = "import time; print('up', flush=True); time.sleep(1000)"
        start = agent.request(
            "terminal/create", sessionId="s1", command=sys.executable, args=["-c", code]
        )
        await agent.send(start)
        terminal = (await agent.reply_to(start))["result"]["terminalId"]
        params = {"sessionId": "s1", "terminalId": terminal}
        wait, kill = (agent.request(f"terminal/{m}", **params) for m in ("wait_for_exit", "kill"))
        await agent.send(wait, kill)
        replies = [await agent.next(), await agent.next()]
        by_id = {reply["id"]: reply["result"] for reply in replies}
        assert by_id == {wait["id"]: {"signal": "SIGTERM"}, kill["id"]: {}}
        gone = agent.request("terminal/output", sessionId="other", terminalId=terminal)
        await agent.send(gone)
        assert (await agent.reply_to(gone))["error"]["code"] == -32002


async def test_a_child_left_behind_delays_no_one_and_is_ended_with_its_terminal() -> None:
    terminals = LocalTerminals()
    code = (
        "import subprocess, os; p = subprocess.Popen(['sleep', '1000']); print(p.pid, flush=True);"
        "os._exit(0)"
    )
    terminal = await terminals.create(create(code))
    await terminals.wait_for_exit("s1", terminal)
    pid = int((await terminals.output("s1", terminal)).output)
    assert Path(f"/proc/{pid}").exists()
    await terminals.release("s1", terminal)
    while _runs(pid):
        await asyncio.sleep(0)
    await terminals.close()


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_stubborn_command_is_killed_and_closing_ends_all() -> None:
    terminals = LocalTerminals(grace=0.05)
    code = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('up', flush=True); time.sleep(1000)"
    )
    stubborn = await terminals.create(create(code))
    while not (await terminals.output("s1", stubborn)).output:
        await asyncio.sleep(0)
    await terminals.kill("s1", stubborn)
    assert (await terminals.wait_for_exit("s1", stubborn)).signal == "SIGKILL"
    await terminals.create(create("import time; time.sleep(1000)"))
    await terminals.close()


async def test_what_cannot_be_started_is_refused() -> None:
    terminals = LocalTerminals(max_open=1)
    request = schema.CreateTerminalRequest(session_id="s1", command="/no/such/program")
    with pytest.raises(Refusal, match="cannot be started"):
        await terminals.create(request)
    with pytest.raises(Refusal, match="not an absolute path"):
        await terminals.create(create("", cwd="relative"))
    await terminals.create(create(""))
    with pytest.raises(Refusal, match="too many"):
        await terminals.create(create(""))
    await terminals.close()


async def test_a_command_line_can_be_given_to_a_shell() -> None:
    terminals = LocalTerminals(shell=("sh", "-c"))
    request = schema.CreateTerminalRequest(session_id="s1", command="echo a && echo b")
    terminal = await terminals.create(request)
    await terminals.wait_for_exit("s1", terminal)
    assert (await terminals.output("s1", terminal)).output == "a\nb\n"
    await terminals.close()


@given(
    pieces=st.lists(st.text(alphabet="aé€😀", max_size=8), max_size=10),
    limit=st.integers(0, 20),
)
async def test_the_end_of_the_output_is_kept_at_a_characters_boundary(
    pieces: list[str], limit: int
) -> None:
    terminal = _Terminal("s1", None, limit)  # type: ignore[arg-type]
    for piece in pieces:
        terminal.data_received(piece.encode())
    whole = "".join(pieces)
    kept = bytes(terminal.kept).decode()
    assert whole.endswith(kept)
    assert len(kept.encode()) <= limit
    assert terminal.truncated == (len(whole.encode()) > limit)


# ----------------------------------------------------------------------- permissions

OPTIONS = tuple(
    schema.PermissionOption(option_id=kind, name=kind, kind=kind)
    for kind in ("allow_always", "allow_once", "reject_always", "reject_once")
)


def request(**call: Any) -> PermissionRequest:
    tool_call = schema.ToolCall(tool_call_id="t", title="", **call)
    return PermissionRequest(None, "s1", tool_call, OPTIONS)


async def chosen(policy: Any, asked: PermissionRequest) -> str | None:
    outcome = (await decide(policy, asked)).outcome
    return outcome.option_id if isinstance(outcome, schema.SelectedPermissionOutcome) else None


async def test_policies() -> None:
    reading, running = request(kind="read"), request(kind="execute", name="bash")
    assert await chosen(deny, reading) == "reject_once"
    policy = allow_list(kinds=["read", "search"], tools=["bash"])
    assert await chosen(policy, reading) == "allow_once"
    assert await chosen(policy, running) == "allow_once"
    assert await chosen(policy, request(kind="edit")) == "reject_once"

    async def ask(_: PermissionRequest) -> Any:
        return "allow_always"

    assert await chosen(allow_list(otherwise=ask), running) == "allow_always"
    assert await chosen(lambda r: r.options[2], running) == "reject_always"
    assert await chosen(lambda _: None, running) is None
    assert await chosen(lambda _: True, running) == "allow_once"
    with pytest.raises(ValueError, match="not one of the options"):
        await decide(lambda _: "nonsense", running)


async def test_yes_is_never_for_ever_unless_it_says_so() -> None:
    only_always = PermissionRequest(None, "s1", request().tool_call, OPTIONS[:1])
    assert await chosen(lambda _: True, only_always) is None
    assert await chosen(allow_list(kinds=["read"]), only_always) is None


async def test_a_policy_that_raises_says_no_and_is_reported() -> None:
    def broken(_: PermissionRequest) -> Any:
        raise RuntimeError("bug")

    async with connected(on_permission=broken) as (agent, client):
        await opened(agent, client)
        failures: list[Any] = []
        client.on_error(failures.append)
        options = [{"optionId": "no", "name": "No", "kind": "reject_once"}]
        asking = agent.request(
            "session/request_permission",
            sessionId="s1",
            toolCall={"toolCallId": "t"},
            options=options,
        )
        await agent.send(asking)
        reply = await agent.reply_to(asking)
        assert reply["result"]["outcome"] == {"outcome": "selected", "optionId": "no"}
        assert len(failures) == 1


async def test_one_sessions_open_question_holds_up_no_other() -> None:
    gate = asyncio.Event()

    async def ask(_: Any) -> bool:
        await gate.wait()
        return False

    async with connected(on_permission=ask) as (agent, client):
        await opened(agent, client, "s1")
        second = await opened(agent, client, "s2")
        asking = agent.request(
            "session/request_permission", sessionId="s1", toolCall={"toolCallId": "t"}, options=[]
        )
        await agent.send(asking)
        prompting = asyncio.ensure_future(second.prompt("go"))
        await agent.result(await agent.next("session/prompt"), {"stopReason": "end_turn"})
        await prompting
        gate.set()
        assert "result" in await agent.reply_to(asking)
