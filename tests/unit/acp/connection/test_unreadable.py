"""Messages that are no strict JSON: read with replacements, or answered, and never waited for."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arcp_client.acp import AcpClient, AcpLimits, AgentRefused, LocalFiles, _repair, updates
from arcp_client.acp._repair import head, mend
from arcp_client.errors import RemoteProtocolError
from tests.nesting import too_deep
from tests.unit.acp.kit import FakeAgent, chunk, connected, opened, settled

ODD = {
    "half an emoji": b'"a\\ud83d"',
    "the other half": b'"\\ude00b"',
    "NaN": b"NaN",
    "-Infinity": b"[-Infinity]",
    "Infinity": b'{"a": Infinity}',
    "invalid UTF-8": b'"a\xff"',
    "a surrogate in UTF-8": b'"\xed\xa0\xbd"',
    "a raw control character": b'"a\x01b"',
    "a raw tab": b'"a\tb"',
    "an escape that is none": b'"C:\\x"',
}
"""What is read with replacements."""


def deep(depth: int) -> dict[str, bytes]:
    """Lists and objects nested to this depth, by their description."""
    return {
        f"depth {depth:,}": b"[" * depth + b"]" * depth,
        f"depth {depth:,} of objects": b'{"a":' * depth + b"1" + b"}" * depth,
    }


if too_deep() > 3010:
    ODD |= deep(3000)  # from Python 3.13 on

HOPELESS = {
    **({} if too_deep() > 3010 else deep(3000)),
    **deep(100_000),
    "a bare word": b"undefined",
    "a brace too few": b'{"a": 1',
    "a comma too many": b"[1,,2]",
    "single quotes": b"{'a': 1}",
}
"""What is not."""

BOTH = {**ODD, **HOPELESS}


def with_odd(message: dict[str, Any], odd: bytes) -> bytes:
    """The message as a line, with the odd piece in the place of the word ``HERE``."""
    return json.dumps(message).encode().replace(b'"HERE"', odd)


@pytest.mark.parametrize("odd", BOTH.values(), ids=BOTH.keys())
async def test_an_update_with_an_odd_piece_keeps_its_place(odd: bytes) -> None:
    """Rule A1."""
    async with connected() as (agent, client):
        session = await opened(agent, client)
        got: list[updates.Update] = []
        session.subscribe(got.append, updates.Update)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(chunk("before"))
        await agent.line(with_odd(chunk("odd", _meta="HERE"), odd))
        await agent.send(chunk("after"), agent.answer(call, {"stopReason": "end_turn"}))
        assert (await prompting).stop_reason == "end_turn"
        first, middle, last = got
        assert [first.raw["content"]["text"], last.raw["content"]["text"]] == ["before", "after"]
        if odd in ODD.values():
            assert isinstance(middle, updates.AgentMessageChunk)
            assert middle.notification["sessionId"] == "s1"
        else:
            assert isinstance(middle, updates.Unknown)


async def test_half_a_character_becomes_the_replacement_character() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        got: list[updates.Update] = []
        session.subscribe(got.append, updates.AgentMessageChunk)
        await agent.line(json.dumps(chunk("a\ud83d b \U0001f600")).encode())
        await settled()
        (update,) = got
        assert isinstance(update, updates.AgentMessageChunk)
        assert isinstance(update.content, updates.Text)
        assert update.content.text == "a� b \U0001f600"
        assert update.raw["content"]["text"] == "a� b \U0001f600"


@pytest.mark.parametrize("odd", BOTH.values(), ids=BOTH.keys())
@pytest.mark.parametrize("place", ["params", "beside"])
async def test_a_request_with_an_odd_piece_is_answered(
    tmp_path: Path, odd: bytes, place: str
) -> None:
    """Rule A1."""
    (tmp_path / "f").write_text("text")
    async with connected(fs=LocalFiles(tmp_path)) as (agent, client):
        await opened(agent, client)
        request = agent.request("fs/read_text_file", sessionId="s1", path=str(tmp_path / "f"))
        (request["params"] if place == "params" else request)["_meta"] = "HERE"
        await agent.line(with_odd(request, odd))
        reply = await agent.reply_to(request)
        if odd in ODD.values():
            assert reply["result"] == {"content": "text"}
        else:
            assert reply["error"]["code"] == -32700


async def test_strict_lines_are_read_without_a_repair(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A repair takes 20 times as long as decoding, and holds the event loop."""
    pieces = mock.Mock(wraps=_repair._PIECE)
    monkeypatch.setattr(_repair, "_PIECE", pieces)
    (tmp_path / "f").write_text("text")
    async with connected(fs=LocalFiles(tmp_path)) as (agent, client):
        session = await opened(agent, client)
        got: list[updates.Update] = []
        session.subscribe(got.append, updates.Update)
        await agent.send(chunk("strict"))
        await settled()
        assert [update.raw["content"]["text"] for update in got] == ["strict"]
        request = agent.request("fs/read_text_file", sessionId="s1", path=str(tmp_path / "f"))
        await agent.send(request)
        assert (await agent.reply_to(request))["result"] == {"content": "text"}
        assert pieces.sub.call_count == 0
        await agent.line(with_odd(request | {"_meta": "HERE"}, b"NaN"))
        assert (await agent.reply_to(request))["result"] == {"content": "text"}
        assert pieces.sub.call_count == 1


@pytest.mark.parametrize("odd", BOTH.values(), ids=BOTH.keys())
async def test_an_answer_with_an_odd_piece_ends_its_call(odd: bytes) -> None:
    """Rule A1."""
    async with connected() as (agent, client):
        session = await opened(agent, client)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        answer = agent.answer(call, {"stopReason": "end_turn", "_meta": {"a": "HERE"}})
        await agent.line(with_odd(answer, odd))
        if odd in ODD.values():
            assert (await prompting).stop_reason == "end_turn"
        else:
            with pytest.raises(RemoteProtocolError):
                await prompting
        assert not session.busy


@pytest.mark.parametrize("odd", BOTH.values(), ids=BOTH.keys())
async def test_an_error_with_an_odd_piece_ends_its_call(odd: bytes) -> None:
    async with connected() as (agent, client):
        asking = asyncio.ensure_future(client.request("x/ask", {}))
        call = await agent.next("x/ask")
        error = {"code": -32000, "message": "sign in", "data": "HERE"}
        await agent.line(with_odd({"jsonrpc": "2.0", "id": call["id"], "error": error}, odd))
        with pytest.raises(AgentRefused if odd in ODD.values() else RemoteProtocolError):
            await asking


async def test_an_answer_that_holds_nothing_fails_its_call() -> None:
    async with connected() as (agent, client):
        asking = asyncio.ensure_future(client.request("x/ask", {}))
        call = await agent.next("x/ask")
        await agent.send({"jsonrpc": "2.0", "id": call["id"], "resul": {}})
        with pytest.raises(RemoteProtocolError, match="neither a result nor an error"):
            await asking


async def test_a_request_without_a_method_is_refused() -> None:
    async with connected() as (agent, _):
        await agent.send({"jsonrpc": "2.0", "id": "q", "params": {}})
        assert (await agent.reply_to({"id": "q"}))["error"]["code"] == -32600


@pytest.mark.parametrize("method", ["5", "{}", '"\\ud800"', "null"])
async def test_a_request_with_a_method_that_is_no_text_is_answered(method: str) -> None:
    async with connected() as (agent, _):
        await agent.line(b'{"id": 7, "method": %s, "params": {}}' % method.encode())
        assert "error" in await agent.reply_to({"id": 7})


PIPES = """
import json, sys
out = sys.stdout.buffer
def send(*lines):
    out.write(b"".join(line + b"\\n" for line in lines)); out.flush()
for line in sys.stdin:
    call = json.loads(line)
    head = b'{"jsonrpc":"2.0","id":%d,' % call.get("id", 0)
    if call.get("method") == "initialize":
        send(head + b'"result":{"protocolVersion":1}}')
    elif call.get("method") == "session/new":
        send(head + b'"result":{"sessionId":"s1"}}')
    elif call.get("method") == "session/prompt":
        send(b'{"method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":'
             b'"agent_message_chunk","content":{"type":"text","text":"a\\xff"}}}}',
             b'{"id":"q","method":"x/none","params":{"a":"\\xff"}}')
        answer = json.loads(sys.stdin.readline())
        assert answer["id"] == "q" and "error" in answer, answer
        end = head + b'"result":{"stopReason":"end_turn","_meta":{"a":"\\xff"}}}'
        send(end if call["params"]["prompt"][0]["text"] != "long" else end + b" " * 200_000)
"""


async def test_pipes_bring_what_is_no_utf8_and_what_is_too_long() -> None:
    command = [sys.executable, "-c", PIPES]
    async with AcpClient(command, limits=AcpLimits(max_line=100_000)) as client:
        session = await client.new_session()
        got: list[str] = []
        session.subscribe(lambda u: got.append(u.content.text), updates.AgentMessageChunk)
        assert (await session.prompt("go")).stop_reason == "end_turn"
        with pytest.raises(RemoteProtocolError, match="over this side's limit"):
            await session.prompt("long")
        assert got == ["a�", "a�"]


# ----------------------------------------------------------------------------- ids


@pytest.mark.parametrize("form", ["%d.0", "%de0", "%d0e-1", '"%d"', " %d "])
async def test_a_calls_id_is_recognised_however_it_is_written(form: str) -> None:
    """Rule A2."""
    async with connected() as (agent, client):
        asking = asyncio.ensure_future(client.request("x/ask", {}))
        call = await agent.next("x/ask")
        await agent.line(b'{"id": %s, "result": [1]}' % (form % call["id"]).encode())
        assert await asking == [1]


async def test_the_thousandth_call_may_be_answered_as_1e3() -> None:
    async with connected() as (agent, client):
        while True:
            asking = asyncio.ensure_future(client.request("x/ask", {}))
            call = await agent.next("x/ask")
            if call["id"] == 1000:
                break
            await agent.result(call)
            await asking
        await agent.line(b'{"id": 1e3, "result": "late"}')
        assert await asking == "late"


@pytest.mark.parametrize(
    "written", ["1.0", "1e3", "-7", "9007199254740993", "1" + "0" * 400, "1e400", "0.5", '"a"']
)
async def test_a_request_is_answered_with_its_id_as_it_was_written(written: str) -> None:
    """Rule A2."""
    agent = FakeAgent()
    async with connected_to(agent):
        await agent.line(b'{"id": %s, "method": "x/none"}' % written.encode())
        line = await agent.far.receive()
        assert b'"id":%s,' % written.encode() in line


class connected_to:
    def __init__(self, agent: FakeAgent) -> None:
        self.agent = agent
        self.client = AcpClient(agent)

    async def __aenter__(self) -> AcpClient:
        connecting = asyncio.ensure_future(self.client.connect())
        await self.agent.result(await self.agent.next("initialize"), {"protocolVersion": 1})
        await connecting
        return self.client

    async def __aexit__(self, *_: object) -> None:
        await self.client.close(drain=0)


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1", "1.0", True),
        ("1000", "1e3", True),
        ("9007199254740993", "9007199254740992", False),
        ("9007199254740993", "9007199254740993.0", True),
        ("1", '"1"', False),
        ("1", "true", False),
    ],
)
async def test_ids_of_open_requests_are_compared_as_numbers(
    one: str, other: str, same: bool
) -> None:
    """Rule A2."""
    agent = FakeAgent()
    async with connected_to(agent) as client:
        gate = asyncio.Event()

        @client.on_request("x/wait")
        async def wait(_: Any) -> str:
            await gate.wait()
            return "done"

        for number in (one, other):
            await agent.line(b'{"id": %s, "method": "x/wait"}' % number.encode())
        await settled()
        gate.set()
        await settled()
        replies = [json.loads(line) for line in await everything(agent)]
        in_use = [r for r in replies if "in use" in r.get("error", {}).get("message", "")]
        assert bool(in_use) == same


@pytest.mark.parametrize("named", ["5", "5.0", "50e-1"])
async def test_a_request_is_cancelled_by_its_number(named: str) -> None:
    """Rule A2."""
    agent = FakeAgent()
    async with connected_to(agent) as client:
        client.on_request("x/wait")(lambda _: asyncio.Event().wait())
        await agent.line(b'{"id": 5, "method": "x/wait"}')
        await settled()
        await agent.line(
            b'{"method": "$/cancel_request", "params": {"requestId": %s}}' % named.encode()
        )
        assert (await agent.reply_to({"id": 5}))["error"]["code"] == -32800


async def everything(agent: FakeAgent) -> list[bytes]:
    lines = []
    while True:
        try:
            lines.append(await asyncio.wait_for(agent.far.receive(), 0.05))
        except TimeoutError:
            return lines


async def test_an_error_code_may_be_written_with_a_point() -> None:
    async with connected() as (agent, client):
        asking = asyncio.ensure_future(client.request("x/ask", {}))
        call = await agent.next("x/ask")
        await agent.refuse(call, {"code": -32000.0, "message": "sign in"})
        with pytest.raises(AgentRefused) as caught:
            await asking
        assert caught.value.number == -32000


# ----------------------------------------------------------------------------- any damage


@given(
    damage=st.lists(
        st.tuples(
            st.floats(0, 1, exclude_max=True),
            st.integers(0, 3),
            st.one_of(st.binary(max_size=4), st.sampled_from([*BOTH.values()])),
        ),
        min_size=1,
        max_size=4,
    ),
    what=st.sampled_from(["update", "request", "answer"]),
)
@example(damage=[(0.99, 1, b"")], what="answer")
@example(damage=[(0.0, 0, b"")], what="request")
@example(damage=[(0.5, 0, b'"id":0,')], what="answer")
async def test_damage_behind_the_id_never_leaves_anybody_waiting(
    damage: list[tuple[float, int, bytes]], what: str
) -> None:
    """Rule A1. The damage is in the value of the last member."""
    async with connected() as (agent, client):
        session = await opened(agent, client)
        client.on_request("x/serve")(served)
        prompting = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        request = agent.request("x/serve")
        start, value = {
            "update": (b'{"method":"session/update","params":', chunk("x")["params"]),
            "request": (b'{"id":%d,"method":"x/serve","params":' % request["id"], {"a": [1, "b"]}),
            "answer": (b'{"id":%d,"result":' % call["id"], {"stopReason": "end_turn", "a": "b"}),
        }[what]
        rest = json.dumps(value).encode() + b"}"
        for where, cut, piece in damage:
            at = int(where * len(rest))
            rest = rest[:at] + piece.replace(b"\n", b" ") + rest[at + cut :]
        await agent.line(start + rest)
        if what == "request":
            assert "error" in (reply := await agent.reply_to(request)) or "result" in reply
        if what != "answer":
            await agent.result(call, {"stopReason": "end_turn"})
        await asyncio.wait({prompting})
        prompting.exception()
        asking = asyncio.ensure_future(client.request("x/again", {}))
        await agent.result(await agent.next("x/again"), 1)
        assert await asking == 1


async def served(params: Any) -> Any:
    return {}


# ----------------------------------------------------------------------------- the parts


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def plain(value: Any) -> Any:
    """The value with what `mend` makes of constants and halves of pairs."""
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, list):
        return [plain(each) for each in value]
    if isinstance(value, dict):
        return {plain(name): plain(each) for name, each in value.items()}
    return value


@given(value=JSON, ascii_only=st.booleans())
def test_mending_changes_nothing_but_what_is_odd(value: Any, ascii_only: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    mended = mend(line)
    assert mended is not None
    try:
        strict = msgspec.json.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        msgspec.json.decode(mended)
    else:
        assert msgspec.json.decode(mended) == strict


@given(line=st.binary(max_size=200))
def test_no_line_makes_mending_or_its_head_fail(line: bytes) -> None:
    mend(line)
    head(line)
    head(b'{"id":1,' + line)


@pytest.mark.parametrize(
    "line", [b'"a",' * 600_000, b'"' + b"\\n" * 600_000, b"N" * 600_000], ids=["texts", "ends", "N"]
)
def test_a_line_of_too_many_pieces_is_not_read_twice(line: bytes) -> None:
    assert mend(line) is None


def test_a_head_is_found_in_any_order_and_only_on_the_outside() -> None:
    found = head(b'{"params":{"sessionId":"s","id":9,"method":"no"},"id":4,"method":"x",')
    assert (found.method, found.id, found.session) == (b"x", b"4", b'"s"')
    assert head(b'{"a":{"id":1}').id is None
    assert head(b'{"id":1,"id":2').id is None
    assert head(b'xx{"id":1,').id is None
    assert head(b'{"a":[}, "id":1').id is None
