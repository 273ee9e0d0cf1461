"""A process that serves frames on its own stdin and stdout, whatever those are."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pty
import subprocess
import sys
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arcp_client.errors import LinkLost, LocalProtocolError, RemoteProtocolError
from arcp_client.transports import StdioConnector, StdioServerTransport
from tests.unit.transports.kit import nothing_left

# Echoes frames, and prints in between as agents' code does.
ECHO = """
import asyncio, os, subprocess, sys
from arcp_client.errors import LinkLost
from arcp_client.transports import StdioServerTransport

async def main():
    transport = StdioServerTransport()
    try:
        while True:
            frame = await transport.receive()
            print("a stray print")
            subprocess.run(["sh", "-c", "cat; echo from a child"])
            await transport.send(frame)
    except LinkLost as lost:
        print(lost)
    await transport.close()
    print("stdout is back")

asyncio.run(main())
"""
FRAMES = [b'{"a":1}', '{"b":"\u2028é"}'.encode(), b'{"c":"' + b"x" * 100_000 + b'"}']


@contextmanager
def pipes() -> Iterator[tuple[int, int, int, int]]:
    """Two pipes: (server's stdin, client's output, client's input, server's stdout)."""
    ends = (*os.pipe(), *os.pipe())
    try:
        yield ends
    finally:
        for end in ends:
            with contextlib.suppress(OSError):
                os.close(end)


async def test_stray_prints_and_children_cannot_break_the_stream() -> None:
    link = await StdioConnector([sys.executable, "-c", ECHO], env=dict(os.environ)).connect()
    for frame in FRAMES:
        await link.send(frame)
        assert await link.receive() == frame
    await link.close()
    with pytest.raises(LinkLost):
        await link.receive()


def test_stdin_and_stdout_may_be_files(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"\n".join(FRAMES))
    with (tmp_path / "in").open("rb") as source, (tmp_path / "out").open("wb") as sink:
        done = subprocess.run(
            [sys.executable, "-c", ECHO], stdin=source, stdout=sink, stderr=subprocess.PIPE
        )
    assert done.returncode == 0, done.stderr
    written = (tmp_path / "out").read_bytes().split(b"\n")
    assert written == [*FRAMES, b"stdout is back", b""]
    assert done.stderr.count(b"a stray print") == done.stderr.count(b"from a child") == 3
    assert b"the client closed its output" in done.stderr


def test_stdin_and_stdout_may_be_a_terminal_which_stays_blocking() -> None:
    outer, inner = pty.openpty()
    tty.setraw(inner)
    with subprocess.Popen(
        [sys.executable, "-c", ECHO], stdin=inner, stdout=inner, stderr=subprocess.DEVNULL
    ) as process:
        os.write(outer, b'{"a":1}\n')
        assert os.read(outer, 100) == b'{"a":1}\n'
        assert os.get_blocking(inner)
        process.kill()
    os.close(inner)
    os.close(outer)


async def test_it_reads_and_writes_over_given_descriptors_and_leaves_them_open() -> None:
    with nothing_left(), pipes() as (stdin, client_out, client_in, stdout):
        server = StdioServerTransport(stdin=stdin, stdout=stdout, max_line=1000)
        os.write(client_out, b"\r\n\n" + b"x" * 1001 + b'\n{"a":1}\r\n')
        with pytest.raises(RemoteProtocolError):
            await server.receive()
        assert await server.receive() == b'{"a":1}'
        with pytest.raises(LocalProtocolError):
            await server.send(b"x" * 1001)
        await server.send(b"{}")
        await server.close()
        assert os.read(client_in, 100) == b"{}\n"
        os.write(stdout, b"")
        os.fstat(stdin)


async def test_the_end_of_its_input_is_the_end_of_the_link_but_answers_still_go_out() -> None:
    with nothing_left(), pipes() as (stdin, client_out, client_in, stdout):
        server = StdioServerTransport(stdin=stdin, stdout=stdout)
        os.write(client_out, b"{}")
        os.close(client_out)
        assert await server.receive() == b"{}"
        for _ in range(2):
            with pytest.raises(LinkLost, match="closed its output"):
                await server.receive()
        await server.send(b"answer")
        await server.close()
        assert os.read(client_in, 100) == b"answer\n"


async def test_a_client_that_reads_no_more_is_noticed_by_the_sender() -> None:
    with nothing_left(), pipes() as (stdin, _, client_in, stdout):
        server = StdioServerTransport(stdin=stdin, stdout=stdout)
        os.close(client_in)
        with contextlib.suppress(LinkLost):
            while True:
                await server.send(b"{}")
                await asyncio.sleep(0)
        with pytest.raises(LinkLost, match="reads no more: Broken pipe"):
            await server.send(b"{}")
        await server.close()


async def test_a_descriptor_that_somebody_made_non_blocking_works_as_well() -> None:
    with nothing_left(), pipes() as (stdin, client_out, client_in, stdout):
        for end in (stdin, stdout):
            os.set_blocking(end, False)
        server = StdioServerTransport(stdin=stdin, stdout=stdout)
        call = asyncio.create_task(server.receive())
        sender = asyncio.create_task(server.send(b"y" * 500_000))
        await asyncio.to_thread(os.write, client_out, b"{}\n")
        assert await call == b"{}"
        got = b""
        while len(got) < 500_001:
            got += await asyncio.to_thread(os.read, client_in, 65_536)
        await sender
        await server.close()


async def test_a_client_that_reads_nothing_holds_the_close_up_only_for_its_timeout() -> None:
    with nothing_left(), pipes() as (stdin, _, __, stdout):
        server = StdioServerTransport(stdin=stdin, stdout=stdout)
        sender = asyncio.create_task(server.send(b"y" * 1_000_000))
        await asyncio.sleep(0)
        await server.close(timeout=0.05)
        with pytest.raises(LinkLost):
            await sender


async def test_a_reader_that_does_not_keep_up_holds_the_client_back() -> None:
    with nothing_left(), pipes() as (stdin, client_out, _, stdout):
        server = StdioServerTransport(stdin=stdin, stdout=stdout)
        line = b"z" * 9_999 + b"\n"

        def flood() -> None:
            for _ in range(2000):
                os.write(client_out, line)

        flooding = asyncio.get_running_loop().run_in_executor(None, flood)
        assert await server.receive() == line[:-1]
        for _ in range(1000):
            await asyncio.sleep(0)
        assert not flooding.done()
        for _ in range(1999):
            assert await server.receive() == line[:-1]
        await flooding
        await server.close()
