"""What a peer sent is shown masked in errors and log lines, whatever it came through."""

from __future__ import annotations

import ast
import asyncio
import logging
import sys
from pathlib import Path

import pytest

import arcp_client
from arcp_client._wire.unreadable import HEAD, head_of
from arcp_client.errors import LinkLost, RemoteProtocolError
from arcp_client.transports import StdioConnector, Transport, WebSocketConnector
from arcp_client.transports._lines import LineSplitter
from tests.unit.acp.kit import connected
from tests.unit.transports.raw import BINARY, RawSocket, close, frame, raw_server

CANARY = "canary7Zq4x"
PACKAGE = Path(arcp_client.__file__).parent

ODD = {
    "an object": b'{"token":"%b","x":"\xff"}',
    "an object that is cut off": b'{"auth":{"token":"%b\xff',
    "an array": b'["%b\xff"]',
    "a string": b'"%b\xff"',
    "a variable": b"ARCP_TOKEN=%b\xff",
    "a header": b"Authorization: Bearer %b\xff",
    "prose": b"bad token %b\xff",
    "binary": b"\x00\x01%b\xff",
}
odd_data = pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())


def filled(odd: bytes) -> bytes:
    return odd % CANARY.encode()


@odd_data
@pytest.mark.parametrize("limit", [8, 40, 1000])
def test_a_line_that_is_refused_shows_no_token(odd: bytes, limit: int) -> None:
    """At every cut: the limit may stand in the middle of a token."""
    for padding in range(0, HEAD, 7):
        line = b" " * padding + filled(odd) + b" " * limit + b"\n"
        for size in (1, 16, len(line)):
            splitter = LineSplitter(limit)
            got = [
                each
                for at in range(0, len(line), size)
                for each in splitter.feed(line[at : at + size])
            ]
            (error,) = got
            assert isinstance(error, RemoteProtocolError)
            assert CANARY not in f"{error!r}{error.head}"


async def refused(link: Transport) -> RemoteProtocolError:
    with pytest.raises(RemoteProtocolError) as caught:
        await link.receive()
    await link.close()
    return caught.value


@odd_data
async def test_a_line_of_a_child_shows_no_token(odd: bytes) -> None:
    child = f"import os; os.write(1, {filled(odd)!r} + b'\\n'); os.read(0, 1)"
    error = await refused(await StdioConnector([sys.executable, "-S", "-c", child]).connect())
    assert CANARY not in f"{error!r}{error.head}"


@odd_data
async def test_a_websocket_message_shows_no_token(odd: bytes) -> None:
    async def serve(ws: RawSocket) -> None:
        await ws.send(frame(BINARY, filled(odd)))
        await ws.receive_close()
        await ws.send(close(1000))

    async with raw_server(serve) as url:
        error = await refused(await WebSocketConnector(url).connect())
    assert CANARY not in f"{error!r}{error.head}"


@pytest.mark.parametrize(
    ("reason", "shown"),
    [
        ("bye now", "bye now"),
        ("invalid token", "invalid token"),
        ("resume_token expired", "resume_token expired"),
        (f"bad token {CANARY}", "<withheld: may hold a secret>"),
        ("bad token swordfish", "<withheld: may hold a secret>"),
        (f"session {CANARY} is over", "session *** is over"),
        (f'{{"token":"{CANARY}"}}', '{"token":"***"}'),
        ("a\x1b[31mb", "<withheld: may hold a secret>"),
    ],
)
async def test_a_close_reason_shows_no_token(reason: str, shown: str) -> None:
    async def serve(ws: RawSocket) -> None:
        await ws.send(close(4001, reason))
        await ws.receive_close()

    async with raw_server(serve) as url:
        link = await WebSocketConnector(url).connect()
        with pytest.raises(LinkLost) as caught:
            await link.receive()
        await link.close()
    assert f"closed the link with code 4001 ('{shown}')" in str(caught.value)


ACP_LINES = {
    "no JSON": b"Loaded cached credentials: %b",
    "a request that is cut off": b'{"method":"x","params":{"apiKey":"%b"',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":987654,"result":{"token":"%b"}}',
    "a number for a method": b'{"jsonrpc":"2.0","method":5,"params":{"token":"%b"}}',
    "a list for an id": b'{"jsonrpc":"2.0","id":["%b"],"result":{}}',
}


@pytest.mark.parametrize("odd", ACP_LINES.values(), ids=ACP_LINES.keys())
async def test_an_odd_line_of_an_agent_shows_no_token(
    odd: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, logger="arcp_client")
    strange: list[RemoteProtocolError] = []
    async with connected() as (agent, client):
        client.on_strange(strange.append)
        await agent.line(filled(odd))
        while not strange:
            await asyncio.sleep(0)
    (error,) = strange
    assert CANARY not in f"{error!r}{error.head}{caplog.text}"


async def test_what_a_child_says_on_stderr_is_logged_without_tokens(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, logger="arcp_client.stdio")
    child = f"import os; os.write(2, b'api_key={CANARY}\\nready on port 1\\n')"
    link = await StdioConnector([sys.executable, "-S", "-c", child]).connect()
    with pytest.raises(LinkLost) as lost:
        await link.receive()
    await link.close()
    assert "ready on port 1" in caplog.text
    assert CANARY not in caplog.text
    assert CANARY in lost.value.stderr  # for the program that started the child


def test_heads_are_made_in_one_place() -> None:
    """`RemoteProtocolError(head=...)` is written once, where it is masked."""
    places = [
        file.relative_to(PACKAGE).as_posix()
        for file in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).endswith("RemoteProtocolError")
        and any(keyword.arg in ("head", None) for keyword in node.keywords)
    ]
    assert places == ["_wire/unreadable.py"]


def test_the_words_of_close_reasons_hold_nothing_else() -> None:
    assert head_of(b"token expired") == "token expired"
    assert head_of(b"token expired1") == "<withheld: may hold a secret>"
