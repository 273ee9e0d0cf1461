"""Whatever an agent writes: the connection lives, nobody hangs, and what is lost is reported."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.acp import AcpLimits, AgentRefused, updates
from arcp_client.acp.client import AcpClient
from arcp_client.acp.errors import MethodUnknown
from arcp_client.errors import HandshakeTimeout, LinkLost, RemoteProtocolError
from arcp_client.transports import MemoryTransport
from tests.unit.acp.kit import chunk, connected, notification, opened, settled, words

ODD = {
    "no JSON": b"Loaded cached credentials.",
    "half of an object": b'{"jsonrpc": "2.0", "method": "session/upd',
    "an array": b"[1,2]",
    "a number": b"42",
    "a string": b'"hello"',
    "null": b"null",
    "an empty object": b"{}",
    "a list for an id": b'{"jsonrpc":"2.0","id":[1],"result":{}}',
    "an object for an id": b'{"jsonrpc":"2.0","id":{"a":1},"method":"x/y"}',
    "no id in an answer": b'{"jsonrpc":"2.0","result":{}}',
    "null for the id of an error": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700}}',
    "an answer to nothing": b'{"jsonrpc":"2.0","id":987654,"result":{}}',
    "a number for a method": b'{"jsonrpc":"2.0","method":5}',
    "no params": b'{"jsonrpc":"2.0","method":"session/update"}',
    "a list for params": b'{"jsonrpc":"2.0","method":"session/update","params":[1]}',
    "a number for the session": b'{"method":"session/update","params":{"sessionId":1,"update":{}}}',
    "deep nesting": b'{"jsonrpc":"2.0","method":"x","params":'
    + b"[" * 100_000
    + b"]" * 100_000
    + b"}",
}


@pytest.mark.parametrize("line", ODD.values(), ids=ODD.keys())
async def test_an_odd_line_is_skipped_and_reported(line: bytes) -> None:
    async with connected() as (agent, client):
        odd: list[RemoteProtocolError] = []
        client.on_strange(odd.append)
        session = await opened(agent, client)
        got: list[str] = []
        session.subscribe(lambda u: got.append(words(u)), updates.AgentMessageChunk)
        calling = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(chunk(0))
        await agent.line(line)
        await agent.send(chunk(1), agent.answer(call, {"stopReason": "end_turn"}))
        assert (await calling).stop_reason == "end_turn"
        assert got == ["0", "1"]
        assert len(odd) == 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["jsonrpc", "id", "method", "params", "result", "error", "sessionId", "update"]
            )
            | st.text(max_size=5),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    lines=st.lists(JSON.map(lambda v: json.dumps(v).encode()) | st.binary(max_size=60), max_size=6)
)
async def test_no_lines_end_the_connection(lines: list[bytes]) -> None:
    async with connected() as (agent, client):
        calling = asyncio.ensure_future(client.request("x/ask", {}))
        call = await agent.next("x/ask")
        for line in lines:
            if b"\n" not in line and not calling.done():
                await agent.line(line)
        await settled()
        if not calling.done():
            await agent.result(call, {"fine": True})
            assert await calling == {"fine": True}
        else:
            await asyncio.wait([calling])
            calling.exception()
        again = asyncio.ensure_future(client.request("x/again", {}))
        await agent.result(await agent.next("x/again"), 1)
        assert await again == 1


@pytest.mark.parametrize("error", ["oops", 5, [], {"message": "no code"}, {"code": "E_BAD"}, True])
async def test_a_misshapen_error_is_an_error_and_nobody_hangs(error: Any) -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        calling = asyncio.ensure_future(session.prompt("go"))
        await agent.refuse(await agent.next("session/prompt"), error)
        with pytest.raises(AgentRefused) as caught:
            await calling
        assert caught.value.data == error
        assert caught.value.number == 0


async def test_an_id_that_comes_back_as_text_is_the_same_id() -> None:
    async with connected() as (agent, client):
        calling = asyncio.ensure_future(client.request("x/ask", {}))
        call = await agent.next("x/ask")
        await agent.send({"jsonrpc": "2.0", "id": str(call["id"]), "result": [1]})
        assert await calling == [1]


@pytest.mark.parametrize("result", [None, {}, [], "x", {"stopReason": 5}])
async def test_a_result_of_no_shape_is_an_error_of_the_agent(result: Any) -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        calling = asyncio.ensure_future(session.prompt("go"))
        await agent.result(await agent.next("session/prompt"), result)
        with pytest.raises(RemoteProtocolError, match="session/prompt"):
            await calling
        assert not session.busy


async def test_an_unknown_stop_reason_is_kept() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        calling = asyncio.ensure_future(session.prompt("go"))
        usage = {"totalTokens": 3, "inputTokens": 1, "outputTokens": 2}
        answer = {"stopReason": "out_of_coffee", "usage": usage, "_meta": {"a": 1}}
        await agent.result(await agent.next("session/prompt"), answer)
        turn = await calling
        assert turn.stop_reason == "out_of_coffee"
        assert turn.usage is not None
        assert turn.usage.total_tokens == 3
        assert turn.meta == {"a": 1}


async def test_meta_changes_nothing_whatever_its_keys() -> None:
    meta = {"session_id": "evil", "update": "evil", "self": 1, "sessionId": "evil"}
    async with connected() as (agent, client):
        session = await opened(agent, client)
        got: list[Any] = []
        session.subscribe(got.append, updates.Update)
        await agent.send(chunk("a", _meta=meta))
        await settled()
        assert words(got[0]) == "a"
        assert got[0].origin.session_id == "s1"
        assert got[0].notification["_meta"] == meta


async def test_unknown_kinds_and_fields_reach_handlers_as_they_came() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        got: list[Any] = []
        session.subscribe(got.append, updates.Update)
        future = {"sessionUpdate": "future_x", "deep": [1, {"a": 2}]}
        extra = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "t"}}
        extra |= {"novel": 1, "messageId": None}
        block = {"sessionUpdate": "agent_message_chunk", "content": {"type": "hologram", "x": 1}}
        notice = {"sessionUpdate": "notice", "title": "Careful", "severity": "warning"}
        await agent.send(*map(notification, (future, extra, block, notice)))
        await settled()
        assert isinstance(got[0], updates.Unknown)
        assert (got[0].kind, got[0].raw) == ("future_x", future)
        assert got[1].raw["novel"] == 1
        assert isinstance(got[2].content, updates.UnknownContent)
        assert got[2].content.raw == {"type": "hologram", "x": 1}
        assert isinstance(got[3], updates.Notice)


async def test_unknown_requests_are_refused_and_unknown_notifications_are_not_answered() -> None:
    async with connected() as (agent, client):
        await opened(agent, client)
        for method in ("x/unknown", "fs/read_text_file", "terminal/create", "elicitation/create"):
            request = agent.request(method, sessionId="s1", path="/etc/passwd")
            await agent.send({"jsonrpc": "2.0", "method": "x/unknown", "params": {}}, request)
            assert (await agent.reply_to(request))["error"]["code"] == -32601
        assert not [m for m in agent.seen if "error" in m and m["id"] is None]


async def test_params_of_no_shape_are_refused_and_a_null_id_is_an_id() -> None:
    async with connected() as (agent, client):
        await opened(agent, client)
        request = agent.request("session/request_permission", sessionId="s1")
        await agent.send(request)
        assert (await agent.reply_to(request))["error"]["code"] == -32602
        request = {"jsonrpc": "2.0", "id": None, "method": "x/y"}
        await agent.send(request)
        assert (await agent.reply_to(request))["error"]["code"] == -32601


async def test_extensions_go_both_ways() -> None:
    async with connected() as (agent, client):
        heard: list[Any] = []
        client.on_notification("_vendor/news")(heard.append)

        @client.on_request("_vendor/ask")
        async def ask(params: Any) -> Any:
            return {"got": params}

        request = agent.request("_vendor/ask", a=1)
        await agent.send({"method": "_vendor/news", "params": {"n": 1}}, request)
        assert (await agent.reply_to(request))["result"] == {"got": {"a": 1}}
        assert heard == [{"n": 1}]
        calling = asyncio.ensure_future(client.request("_vendor/x", {"b": 2}))
        await agent.refuse(await agent.next("_vendor/x"), {"code": -32601, "message": "no"})
        with pytest.raises(MethodUnknown):
            await calling


# ----------------------------------------------------------------------- real pipes

HEAD = """
import json, os, sys, time
out = sys.stdout.buffer
def send(*messages):
    for message in messages:
        line = message if isinstance(message, bytes) else json.dumps(message).encode()
        out.write(line + b"\\n")
    out.flush()
def chunk(words):
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1", "update":
        {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": words}}}}
def end(call, reason="end_turn"):
    return {"jsonrpc": "2.0", "id": call["id"], "result": {"stopReason": reason}}
for line in sys.stdin.buffer:
    call = json.loads(line)
    if call.get("method") == "initialize":
        send({"jsonrpc": "2.0", "id": call["id"], "result": {"protocolVersion": 1}})
    elif call.get("method") == "session/new":
        send({"jsonrpc": "2.0", "id": call["id"], "result": {"sessionId": "s1"}})
    elif call.get("method") == "session/prompt":
"""


def program(body: str) -> list[str]:
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    return [sys.executable, "-c", HEAD + lines]


async def prompted(body: str, **options: Any) -> tuple[list[str], list[Any], Any]:
    """The texts, the odd lines, and the turn, of one prompt to a program."""
    got: list[str] = []
    odd: list[Any] = []
    async with AcpClient(program(body), **options) as client:
        client.on_strange(odd.append)
        session = await client.new_session()
        session.subscribe(lambda u: got.append(words(u)), updates.AgentMessageChunk)
        turn = await session.prompt("go")
    return got, odd, turn


async def test_text_survives_pipes_whole() -> None:
    hard = "é€😀 \u2028 \u2029 \x85 \u00a0 end"
    got, odd, _ = await prompted(f"""
for byte in json.dumps(chunk({hard!r}), ensure_ascii=False).encode() + b"\\n":
    out.write(bytes([byte]))
    out.flush()
out.write(json.dumps(chunk({hard!r}), ensure_ascii=False).encode() + b"\\r\\n\\r\\n\\n")
send(chunk("x" * 1_000_000), chunk("y" * 20_000_000), end(call))
""")
    assert got[:3] == [hard, hard, "x" * 1_000_000]
    assert got[3] == "y" * 20_000_000
    assert not odd


async def test_a_line_over_the_limit_is_dropped_whole_and_its_tail_is_no_message() -> None:
    got, odd, turn = await prompted(
        """
evil = json.dumps(chunk("evil")).encode()
send(chunk("a"), b"x" * 300_000 + evil + b" " + evil, b"\\xff\\xfe" + evil, chunk("b"), end(call))
""",
        limits=AcpLimits(max_line=100_000),
    )
    assert got == ["a", "b"]
    assert len(odd) == 2
    assert "over this side's limit of 100000 bytes" in str(odd[0])
    assert "UTF-8" in str(odd[1])
    assert turn.stop_reason == "end_turn"


async def test_a_thousand_turns_whose_update_and_answer_are_one_write_never_end_early() -> None:
    body = """
number = call["params"]["prompt"][0]["text"]
messages = [chunk(number), end(call)]
os.write(1, b"".join(json.dumps(message).encode() + b"\\n" for message in messages))
"""
    async with AcpClient(program(body)) as client:
        session = await client.new_session()
        done: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            await asyncio.sleep(0)
            done.append(words(update))

        for number in range(1000):
            await session.prompt(str(number))
            assert done[-1] == str(number)


async def test_standard_error_never_stops_the_agent() -> None:
    _, _, turn = await prompted("""
sys.stderr.write("x" * 5_000_000)
sys.stderr.flush()
send(end(call))
""")
    assert turn.stop_reason == "end_turn"


async def test_the_agents_death_ends_every_wait_with_its_code_and_its_last_words() -> None:
    got: list[str] = []
    body = """
for n in range(5):
    send(chunk(str(n)))
sys.stderr.write("out of memory")
sys.stderr.flush()
out.write(b'{"half":')
out.flush()
os._exit(3)
"""
    async with AcpClient(program(body)) as client:
        closed: list[Any] = []
        client.on_closed(closed.append)
        session = await client.new_session()
        session.subscribe(lambda u: got.append(words(u)), updates.AgentMessageChunk)
        stream = session.updates()
        calls = [session.prompt("go"), client.request("x/y", {}), session.set_mode("m")]
        results = await asyncio.gather(*calls, return_exceptions=True)
        for error in results:
            assert isinstance(error, LinkLost)
            assert error.exit_code == 3
            assert error.stderr == "out of memory"
        with pytest.raises(LinkLost):
            await session.prompt("again")
        lost = await client.wait_closed()
        assert lost is not None
        assert lost.exit_code == 3
        assert closed == [lost]
        seen: list[str] = []
        with pytest.raises(LinkLost):
            async for update in stream:
                seen.append(words(update))  # noqa: PERF401  # the loop ends with an error
        assert seen == got == ["0", "1", "2", "3", "4"]


async def test_a_grandchild_that_keeps_the_pipe_open_delays_nobody_and_is_ended() -> None:
    body = """
import subprocess
child = subprocess.Popen(["sleep", "1000"])
send(chunk(str(child.pid)))
os._exit(7)
"""
    async with AcpClient(program(body)) as client:
        session = await client.new_session()
        pids: list[int] = []
        session.subscribe(lambda u: pids.append(int(words(u))), updates.AgentMessageChunk)
        with pytest.raises(LinkLost) as caught:
            await session.prompt("go")
        assert caught.value.exit_code == 7
        while not pids:
            await asyncio.sleep(0)
    assert not _alive(pids[0])


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_an_agent_that_never_answers_is_named_with_its_command() -> None:
    argv = [sys.executable, "-c", "import sys; sys.stdin.read()", "--acp"]
    with pytest.raises(HandshakeTimeout, match=r"--acp.*did not answer initialize within 0.05 s"):
        await AcpClient(argv, limits=AcpLimits(start=0.05)).connect()


async def test_an_agent_that_never_answers_is_quoted_with_its_last_words() -> None:
    from tests.unit.acp.kit import FakeAgent

    class Talkative(FakeAgent):
        async def connect(self) -> MemoryTransport:
            transport = await super().connect()
            transport.stderr = "log in first"  # type: ignore[attr-defined]
            return transport

    with pytest.raises(HandshakeTimeout) as caught:
        await AcpClient(Talkative(), limits=AcpLimits(start=0.01)).connect()
    assert caught.value.stderr == "log in first"


async def test_an_agent_that_ends_before_it_answers_says_why() -> None:
    argv = [sys.executable, "-c", "import sys; sys.exit('usage: no')"]
    with pytest.raises(LinkLost) as caught:
        await AcpClient(argv).connect()
    assert caught.value.exit_code == 1
    assert "usage: no" in caught.value.stderr


@pytest.mark.parametrize("version", [3, "1", 1, 1.0, None])
async def test_versions(version: Any) -> None:
    from tests.unit.acp.kit import FakeAgent

    agent = FakeAgent()
    client = AcpClient(agent)
    connecting = asyncio.ensure_future(client.connect())
    call = await agent.next("initialize")
    assert call["params"]["protocolVersion"] == 1
    await agent.result(call, {"protocolVersion": version})
    if version in (3, None):
        with pytest.raises(RemoteProtocolError):
            await connecting
    else:
        await connecting
    await client.close()


async def test_an_agent_that_asks_on_and_on_and_reads_nothing_is_held_back() -> None:
    async with connected() as (agent, _):
        sent = 0

        async def ask_on() -> None:
            nonlocal sent
            while True:
                await agent.send(agent.request("x/none"))
                sent += 1

        asking = asyncio.ensure_future(ask_on())
        before = -1
        while sent != before:
            before = sent
            await settled(200)
        # 1,024 answers wait, and each direction of the link holds as many messages.
        assert 2 * 1024 < sent <= 3 * 1024 + 2
        for number in range(1000, 1000 + sent):
            assert (await agent.next())["id"] == number
        await settled(200)
        assert sent > before
        asking.cancel()


async def test_a_client_closes_though_its_agent_asks_on_and_on_and_reads_nothing(
    tmp_path: Path,
) -> None:
    body = """
import itertools, pathlib, select
ask = json.dumps({"jsonrpc": "2.0", "id": 0, "method": "x/none"}).encode()[:-1]
for n in itertools.count():
    rest = b', "params": {"a": "' + b"x" * 900 + b'"}}\\n'
    if not select.select([], [out], [], 0.3)[1]:
        pathlib.Path(HELD).touch()
    out.write(ask.replace(b'"id": 0', b'"id": %d' % n) + rest)
    out.flush()
"""
    held = tmp_path / "held"
    argv = program(body.replace("HELD", repr(str(held))))
    async with AcpClient(argv, limits=AcpLimits(close=0.3)) as client:
        session = await client.new_session()
        prompting = asyncio.ensure_future(session.prompt("go"))
        while not held.exists():
            await asyncio.sleep(0.01)
        prompting.cancel()
        await client.close(drain=0)
        with pytest.raises(asyncio.CancelledError):
            await prompting
