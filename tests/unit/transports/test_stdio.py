"""What a child process may do at the other end of its pipes, and how it is ended."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from arcp_client.errors import ConnectFailed, LinkLost, LocalProtocolError, RemoteProtocolError
from arcp_client.transports import Connector, StdioConnector, StdioTransport
from tests.loops import LOOP
from tests.unit.transports.kit import nothing_left

Start = Callable[..., "asyncio.Future[StdioTransport]"]


@pytest.fixture(autouse=True)
async def check_that_nothing_is_left() -> AsyncIterator[None]:
    with nothing_left():
        yield


def python(code: str, **options: object) -> StdioConnector:
    """A child that runs this code, unbuffered and with ``write`` for bytes on stdout."""
    prelude = "import os, signal, sys, time\ndef write(data): os.write(1, data)\n"
    return StdioConnector([sys.executable, "-S", "-E", "-c", prelude + code], **options)  # type: ignore[arg-type]


async def end_of(link: StdioTransport) -> LinkLost:
    try:
        while True:
            await link.receive()
    except LinkLost as lost:
        return lost
    finally:
        await link.close()


async def dead(pid: int) -> None:
    """Wait for the end of a process that is no child of this one, of which no event tells."""
    while alive(pid):
        await asyncio.sleep(0.001)


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet reaped by its parent does not."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


# ------------------------------------------------------------------ frames


async def test_a_line_of_five_megabytes_that_arrives_in_pieces_is_one_frame() -> None:
    link = await python(
        "for _ in range(5): write(b'x' * 1_000_000); time.sleep(0)\nwrite(b'\\n{}\\n')"
    ).connect()
    assert await link.receive() == b"x" * 5_000_000
    assert await link.receive() == b"{}"
    await end_of(link)


async def test_a_line_over_the_limit_is_reported_and_its_tail_is_not_read_as_a_frame() -> None:
    code = "write(b'y' * 200_000); write(b'{\"tail\":1}\\n'); write(b'{\"next\":1}\\n')"
    link = await python(code, max_line=65_536).connect()
    with pytest.raises(RemoteProtocolError) as caught:
        await link.receive()
    assert caught.value.size == 200_010
    assert await link.receive() == b'{"next":1}'
    await end_of(link)


async def test_a_line_that_is_no_utf8_is_reported_and_the_link_lives_on() -> None:
    link = await python("write(b'\\xff\\xfe\\n{}\\n')").connect()
    with pytest.raises(RemoteProtocolError, match="not UTF-8"):
        await link.receive()
    assert await link.receive() == b"{}"
    await end_of(link)


async def test_noise_on_stdout_arrives_as_lines_of_its_own() -> None:
    link = await python("write(b'Loaded cached credentials.\\n{}\\n')").connect()
    assert [await link.receive(), await link.receive()] == [b"Loaded cached credentials.", b"{}"]
    await end_of(link)


async def test_a_last_line_without_a_newline_is_received_before_the_end() -> None:
    link = await python('write(b\'{"a":1}\\n{"b":2}\')').connect()
    assert [await link.receive(), await link.receive()] == [b'{"a":1}', b'{"b":2}']
    assert (await end_of(link)).exit_code == 0


async def test_a_frame_that_is_not_one_line_is_refused_before_it_is_written() -> None:
    link = await python("write(sys.stdin.buffer.readline())").connect()
    with pytest.raises(LocalProtocolError, match="line end"):
        await link.send(b'{"a":\n1}')
    await link.send(b'{"a":1}')
    assert await link.receive() == b'{"a":1}'
    await end_of(link)


async def test_the_child_gets_its_directory_and_exactly_the_given_environment(
    tmp_path: Path,
) -> None:
    code = "write(f'{os.getcwd()} {sorted(os.environ)} {os.environ[\"A\"]}\\n'.encode())"
    link = await python(code, cwd=tmp_path, env={"A": "b", "LC_CTYPE": "C"}).connect()
    assert (await link.receive()).decode() == f"{tmp_path} ['A', 'LC_CTYPE'] b"
    await end_of(link)


# ------------------------------------------------------------------ the child's end


@pytest.mark.parametrize(
    ("code", "exit_code", "text"),
    [
        ("sys.exit(0)", 0, "exited with code 0"),
        ("sys.exit(1)", 1, "exited with code 1"),
        ("os.kill(os.getpid(), signal.SIGKILL)", -9, "was killed by SIGKILL"),
        ("os.kill(os.getpid(), signal.SIGSEGV)", -11, "was killed by SIGSEGV"),
    ],
)
async def test_the_childs_end_is_told_with_its_exit_code(
    code: str, exit_code: int, text: str
) -> None:
    link = await python(f"write(b'{{}}\\n'); {code}").connect()
    assert await link.receive() == b"{}"
    call = asyncio.create_task(link.receive())
    with pytest.raises(LinkLost, match=text):
        await call
    with pytest.raises(LinkLost, match=text):
        await link.send(b"{}")
    assert (await end_of(link)).exit_code == exit_code


async def test_stderr_never_blocks_the_child_and_its_tail_is_in_the_error() -> None:
    code = (
        "for n in range(5_000): os.write(2, b'%06d' % n + b'e' * 1000 + b'\\n')\n"
        "os.write(2, b'out of cheese\\n'); write(b'{}\\n'); sys.exit(3)"
    )
    link = await python(code, stderr_tail=2000).connect()
    assert await link.receive() == b"{}"
    lost = await end_of(link)
    assert lost.exit_code == 3
    assert lost.stderr.endswith("e\nout of cheese\n")
    assert "004999" in lost.stderr
    assert len(lost.stderr) == 2000


async def test_what_a_child_says_on_stderr_is_at_hand_while_it_runs() -> None:
    link = await python("os.write(2, b'log in first'); sys.stdin.read()").connect()
    async with asyncio.timeout(10.0):
        while link.stderr != "log in first":
            await asyncio.sleep(0)
    await link.close()


async def test_stderr_is_logged_line_by_line_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="arcp_client.stdio")
    await end_of(await python("os.write(2, b'one\\ntwo\\n')").connect())
    messages = [record.getMessage().split(": ", 1)[1] for record in caplog.records]
    assert messages == ["one", "two"]


async def test_a_grandchild_that_holds_the_pipes_open_does_not_hide_the_childs_death() -> None:
    with nothing_left():
        code = (
            "if os.fork() == 0:\n"
            "    while True: time.sleep(3600)\n"
            "os.write(2, b'last words'); write(b'x' * 300_000 + b'\\n{}'); os._exit(7)"
        )
        link = await python(code).connect()
        assert len(await link.receive()) == 300_000
        assert await link.receive() == b"{}"
        with pytest.raises(LinkLost) as caught:
            await link.receive()
        assert (caught.value.exit_code, caught.value.stderr) == (7, "last words")
        await link.close(timeout=0.2)


@pytest.mark.skipif(LOOP == "uvloop", reason="its children keep a copy of each pipe open")
async def test_a_child_that_closes_its_output_and_lives_on_is_lost_too() -> None:
    link = await python("os.close(1); time.sleep(3600)").connect()
    with pytest.raises(LinkLost, match="closed its output and keeps running") as caught:
        await link.receive()
    assert caught.value.exit_code is None
    await link.close(timeout=0.2)


async def test_a_child_that_closes_its_input_cannot_be_sent_to_and_can_still_be_heard() -> None:
    link = await python(
        "os.close(0); write(b'closed\\n'); time.sleep(0.2); write(b'{}\\n')"
    ).connect()
    assert await link.receive() == b"closed"
    with contextlib.suppress(LinkLost):
        while True:
            await link.send(b"{}")
            await asyncio.sleep(0)
    assert await link.receive() == b"{}"
    await end_of(link)


async def test_of_two_children_one_may_end_without_the_other() -> None:
    one = await python("sys.exit(0)").connect()
    two = await python("write(sys.stdin.buffer.readline())").connect()
    assert (await end_of(one)).exit_code == 0
    await two.send(b"{}")
    assert await two.receive() == b"{}"
    await end_of(two)


# ------------------------------------------------------------------ closing


async def test_closing_asks_the_child_to_go_by_the_end_of_its_input(tmp_path: Path) -> None:
    code = f"sys.stdin.buffer.read(); open({str(tmp_path / 'bye')!r}, 'w').write('by itself')"
    link = await python(code).connect()
    await link.send(b"{}")
    await link.close()
    assert (tmp_path / "bye").read_text() == "by itself"


async def test_what_was_sent_before_the_close_is_read_by_the_child(tmp_path: Path) -> None:
    code = f"open({str(tmp_path / 'all')!r}, 'wb').write(sys.stdin.buffer.read())"
    link = await python(code).connect()
    for n in range(1000):
        await link.send(b"%d" % n)
    await link.close()
    assert (tmp_path / "all").read_bytes().split() == [b"%d" % n for n in range(1000)]


async def test_a_child_that_writes_on_while_it_is_closed_is_not_blocked_by_its_full_pipe(
    tmp_path: Path,
) -> None:
    code = (
        "for _ in range(100): write(b'x' * 99_999 + b'\\n')\n"
        f"sys.stdin.buffer.read(); open({str(tmp_path / 'bye')!r}, 'w').write('done')"
    )
    link = await python(code).connect()
    await link.close()
    assert (tmp_path / "bye").read_text() == "done"


async def test_a_child_that_ignores_the_end_of_its_input_is_terminated(tmp_path: Path) -> None:
    code = (
        f"def bye(*_): open({str(tmp_path / 'bye')!r}, 'w').write('terminated'); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, bye); write(b'ready\\n'); time.sleep(3600)"
    )
    link = await python(code).connect()
    await link.receive()
    await link.close(timeout=0.5)
    assert (tmp_path / "bye").read_text() == "terminated"


async def test_a_child_that_ignores_everything_is_killed() -> None:
    code = (
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "write(b'%d\\n' % os.getpid())\nwhile True: time.sleep(3600)"
    )
    link = await python(code).connect()
    pid = int(await link.receive())
    await link.close(timeout=0.3)
    await dead(pid)


WRAPPER = (
    "child = os.fork()\n"
    "if child == 0:\n"
    "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "    while True: time.sleep(3600)\n"
    "write(b'%d\\n' % child)\n"
)


async def test_what_a_wrapper_started_is_ended_with_it() -> None:
    link = await python(WRAPPER + "os.waitpid(child, 0)").connect()
    grandchild = int(await link.receive())
    assert alive(grandchild)
    await link.close(timeout=0.3)
    await dead(grandchild)


async def test_what_a_wrapper_left_behind_is_ended_though_the_wrapper_has_gone() -> None:
    link = await python(WRAPPER + "os._exit(0)").connect()
    grandchild = int(await link.receive())
    with pytest.raises(LinkLost, match="exited with code 0"):
        await link.receive()
    assert alive(grandchild)
    await link.close(timeout=0.3)
    await dead(grandchild)


async def test_a_cancelled_close_kills_at_once() -> None:
    link = await python(WRAPPER + "os.waitpid(child, 0)").connect()
    grandchild = int(await link.receive())
    closing = asyncio.create_task(link.close(timeout=3600))
    await asyncio.sleep(0)
    closing.cancel()
    await asyncio.wait({closing})
    assert closing.cancelled()
    await dead(grandchild)


async def test_a_cancelled_connect_leaves_no_process_at_whatever_step() -> None:
    connector = python("time.sleep(3600)")
    for steps in range(12):
        connecting = asyncio.create_task(connector.connect())
        for _ in range(steps):
            await asyncio.sleep(0)
        connecting.cancel()
        await asyncio.wait({connecting})
        if not connecting.cancelled():
            await connecting.result().close(timeout=0)


# ------------------------------------------------------------------ commands that do not start


async def failure(connector: StdioConnector) -> ConnectFailed:
    with pytest.raises(ConnectFailed) as caught:
        await connector.connect()
    return caught.value


async def test_a_program_that_is_not_there_is_a_permanent_failure() -> None:
    error = await failure(StdioConnector(["no-such-agent", "--token", "canary"]))
    assert error.permanent
    assert str(error) == (
        "cannot start no-such-agent: the program was not found; is it installed, and on PATH?"
    )


async def test_a_directory_that_is_not_there_is_a_permanent_failure() -> None:
    error = await failure(StdioConnector([sys.executable], cwd="/no/such/directory"))
    assert error.permanent
    assert "the directory /no/such/directory does not exist" in str(error)


async def test_a_file_that_is_not_executable_is_a_permanent_failure(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text("no program")
    error = await failure(StdioConnector([program]))
    assert error.permanent
    assert "is it executable?" in str(error)
    program.chmod(0o755)
    if LOOP != "uvloop":  # it has the shell run a file that is no program
        assert (await failure(StdioConnector([program]))).permanent


async def test_an_argument_that_no_program_can_be_given_is_a_permanent_failure() -> None:
    assert (await failure(StdioConnector([sys.executable, "a\0b"]))).permanent


async def test_a_system_without_room_for_a_process_is_worth_another_try(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(asyncio.get_running_loop(), "subprocess_exec", refuse)
    assert not (await failure(StdioConnector(["true"]))).permanent


def test_one_string_is_no_command() -> None:
    with pytest.raises(TypeError, match="sequence of arguments"):
        StdioConnector("agent --flag")
    with pytest.raises(ValueError, match="name a program"):
        StdioConnector([])


def test_the_target_tells_commands_apart_and_shows_no_arguments() -> None:
    a = StdioConnector(["/opt/agent", "--token", "canary"])
    b = StdioConnector(["/opt/agent", "--token", "other"])
    assert a.target.startswith("stdio:agent#")
    assert a.target == StdioConnector(["/opt/agent", "--token", "canary"]).target
    assert a.target != b.target
    assert a.target != StdioConnector(["/opt/agent", "--token", "canary"], cwd="/").target
    assert "canary" not in a.target + repr(a)


def test_the_connector_is_what_the_seam_asks_for() -> None:
    assert isinstance(StdioConnector(["agent"]), Connector)
