"""A link over HTTP: how it begins, what it sends where, what it does with answers, how it ends."""

from __future__ import annotations

import asyncio
import json
import logging
from typing import Any

import pytest

from arcp_client.acp import AcpClient, AcpLimits, HttpConnector, HttpRefused, updates
from arcp_client.errors import (
    ConnectFailed,
    HandshakeTimeout,
    LinkLost,
    LocalProtocolError,
    RemoteProtocolError,
)
from arcp_client.transports import Connector, Transport
from tests.unit.acp.http.kit import (
    INITIALIZE,
    SECRET,
    Agent,
    answer,
    chunk,
    linked,
    request,
    serving,
)
from tests.unit.transports.raw import tcp_server

pytestmark = pytest.mark.usefixtures("nothing_is_left")


# ------------------------------------------------------------------ how a link begins


async def failure(agent: Agent, **options: Any) -> ConnectFailed:
    link = await HttpConnector(agent.url, **options).connect()
    try:
        with pytest.raises(ConnectFailed) as caught:
            await link.send(INITIALIZE)
        return caught.value
    finally:
        await link.close()


async def test_the_interfaces_of_transports_are_kept() -> None:
    async with serving() as agent, linked(agent) as (link, _):
        assert isinstance(link, Transport)
        assert isinstance(HttpConnector(agent.url), Connector)
        assert repr(link) == f"<HttpTransport http://127.0.0.1:{agent.port}/acp>"


async def test_what_is_not_a_url_of_http_is_refused() -> None:
    with pytest.raises(ConnectFailed, match="not a URL of HTTP: ws://localhost:80/acp") as caught:
        await HttpConnector(f"ws://localhost/acp?key={SECRET}").connect()
    assert caught.value.permanent


@pytest.mark.parametrize(
    ("status", "permanent", "words"),
    [
        (400, True, "check the URL's path"),
        (401, True, "check the token"),
        (403, True, "forbids"),
        (404, True, "check port and path"),
        (405, True, "no ACP agent over HTTP"),
        (415, True, "no ACP agent over HTTP"),
        (426, True, "use a ws:// or wss:// URL"),
        (408, False, "408"),
        (429, False, "try again later"),
        (500, False, "500 Internal Server Error"),
        (502, False, "502 Bad Gateway"),
        (503, False, "503"),
        (505, False, "if it takes HTTP/2 only, install 'arcp-client[http2]'"),
    ],
)
@pytest.mark.parametrize("where", ["initialize", "GET"])
async def test_a_refused_connection_says_what_to_check(
    status: int, permanent: bool, words: str, where: str
) -> None:
    async with serving() as agent:
        agent.replies[where] = [answer(status, f"no {SECRET} {SECRET}", "Retry-After: 7")]
        headers = {"Authorization": f"Bearer {SECRET}"}
        error = await failure(agent, headers=headers)
        assert error.permanent is permanent
        assert words in str(error)
        assert f"127.0.0.1:{agent.port}/acp answered HTTP {status}" in str(error)
        assert "(after 7 s)" in str(error)
        assert "it says 'no **********" in str(error)
        assert SECRET not in str(error)
        # The server knows the connection only if it has answered initialize.
        assert len(agent.deletes) == (where == "GET")


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (answer(200, {"id": 0, "result": {}}), "lacks the header Acp-Connection-Id"),
        (answer(200, "<html>", "Acp-Connection-Id: c1"), "not answer initialize with a message"),
        (answer(200, [], "Acp-Connection-Id: c1"), "not answer initialize with a message"),
        (answer(202, "", "Acp-Connection-Id: c1"), "not answer initialize with a message"),
        (answer(200, {"method": "m", "id": 1}, "Acp-Connection-Id: c1"), "not answer initialize"),
        (answer(200, "x" * 5000, "Acp-Connection-Id: c1"), "limit of 1000 bytes"),
        (answer(302, "", f"Location: http://u:{SECRET}@evil.test/?k={SECRET}"), "evil.test"),
        (answer(307, "", "Location: /other"), "redirects"),
    ],
)
async def test_what_is_no_answer_of_an_agent_is_named(reply: str, words: str) -> None:
    async with serving() as agent:
        agent.replies["initialize"] = [reply]
        error = await failure(agent, max_frame=1000)
        assert error.permanent
        assert words in str(error)
        assert SECRET not in str(error)
        assert [seen.path for seen in agent.seen] == ["/acp"]  # no redirect was followed


async def test_a_stream_of_another_type_is_no_stream() -> None:
    async with serving() as agent:
        agent.replies["GET"] = [answer(200, "<html>")]
        error = await failure(agent)
        assert "the answer is text/plain, not text/event-stream" in str(error)


async def test_a_stream_that_is_not_opened_in_time_is_given_up() -> None:
    async with serving() as agent:
        agent.hold = "GET"
        error = await failure(agent, connect_timeout=0.2)
        assert "within 0.2 s" in str(error)
        assert not error.permanent
        assert len(agent.deletes) == 1


async def test_a_server_that_does_not_listen_may_come_later() -> None:
    async with serving() as agent:
        pass
    error = await failure(agent)
    assert "Connection refused" in str(error)
    assert not error.permanent


async def test_a_server_that_hangs_up_may_come_later() -> None:
    async def hang_up(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")

    async with tcp_server(hang_up) as port:
        error = await failure(Agent(port))
    assert not error.permanent


async def test_an_error_of_the_agent_is_received_with_or_without_a_connection() -> None:
    refused = {"id": 0, "error": {"code": -32602, "message": "no"}}
    for headers in ([], ["Acp-Connection-Id: c0"]):
        async with serving() as agent:
            agent.replies["initialize"] = [answer(200, refused, *headers)]
            link = await HttpConnector(agent.url).connect()
            await link.send(INITIALIZE)
            assert json.loads(await link.receive()) == refused
            await link.send(INITIALIZE)  # another version, for example
            assert "result" in json.loads(await link.receive())
            await link.close()
            ended = [delete.headers["acp-connection-id"] for delete in agent.deletes]
            assert ended == (["c0", "c1"] if headers else ["c1"])


async def test_another_initialize_begins_another_connection() -> None:
    async with serving() as agent, linked(agent) as (link, first):
        await link.send(request("session/new", id=1))
        await link.send(INITIALIZE)
        await link.receive()
        second = await agent.streams.get()
        assert len(agent.deletes) == 1
        initialize = [seen for seen in agent.seen if seen.method == "POST"][-1]
        assert "acp-connection-id" not in initialize.headers
        with pytest.raises(ConnectionError):
            while True:
                await first.event(chunk("lost"))
        await second.event(chunk(1))
        assert json.loads(await link.receive()) == chunk(1)


async def test_the_first_message_must_be_initialize() -> None:
    async with serving() as agent:
        link = await HttpConnector(agent.url).connect()
        with pytest.raises(LocalProtocolError, match="must be initialize"):
            await link.send(request("session/new", id=1))
        await link.close()
        assert agent.seen == []


# ------------------------------------------------------------------ what is sent


async def test_messages_carry_connection_version_session_and_cookies() -> None:
    async with serving() as agent, linked(agent, headers={"X-Team": "blue"}) as (link, stream):
        assert stream.headers["acp-connection-id"] == "c1"
        assert stream.headers["acp-protocol-version"] == "1"
        assert stream.headers["accept"] == "text/event-stream"
        agent.replies["session/prompt"] = [answer(202, None, "Set-Cookie: node=7; HttpOnly")]
        await link.send(request("session/prompt", "s1", id=1))
        await link.send(request("session/list", id=2))
        prompt, listing = await agent.posts.get(), await agent.posts.get()
        assert prompt.session == "s1"
        assert prompt.headers["x-team"] == "blue"
        assert prompt.headers["content-type"] == "application/json"
        assert listing.session is None
        assert listing.headers["cookie"] == "node=7"
        assert listing.headers["acp-connection-id"] == "c1"
        assert (await agent.streams.get()).headers["acp-session-id"] == "s1"
    assert agent.deletes[0].headers["acp-connection-id"] == "c1"
    assert agent.deletes[0].headers["cookie"] == "node=7"


async def test_an_answer_carries_the_session_whose_stream_had_the_request() -> None:
    async with serving() as agent, linked(agent) as (link, connection):
        await link.send(request("session/prompt", "s1", id=1))
        session = await agent.streams.get()
        await agent.posts.get()
        await session.event({"id": "q", "method": "ask", "params": {}})
        await connection.event({"id": "q2", "method": "ask", "params": {"sessionId": "s2"}})
        await connection.event({"id": "q3", "method": "ask"})
        asked = [json.loads(await link.receive())["id"] for _ in range(3)]
        assert sorted(asked) == ["q", "q2", "q3"]
        sessions = {}
        for id_ in asked:
            await link.send(json.dumps({"id": id_, "result": {}}).encode())
            post = await agent.posts.get()
            sessions[post.body["id"]] = post.session
        assert sessions == {"q": "s1", "q2": "s2", "q3": None}


async def test_messages_are_sent_one_after_another_and_answers_pass_a_request_that_waits() -> None:
    async with serving() as agent, linked(agent) as (link, connection):
        agent.hold = "session/new"
        sends = [asyncio.create_task(link.send(request(f"m{n}", id=n))) for n in (1, 2)]
        sends.append(asyncio.create_task(link.send(request("session/new", id=3))))
        sends += [asyncio.create_task(link.send(request(f"m{n}", id=n))) for n in range(4, 20)]
        await connection.event({"id": 70, "method": "ask", "params": {}})
        await link.receive()
        assert [(await agent.posts.get()).body["id"] for _ in range(2)] == [1, 2]
        await link.send(b'{"id":70,"result":{}}')
        assert (await agent.posts.get()).body["id"] == 70
        agent.held.set()
        await asyncio.gather(*sends)
        ids = [(await agent.posts.get()).body["id"] for _ in range(17)]
        assert ids == list(range(3, 20))


async def test_a_cancelled_send_still_sends_its_message_in_its_place() -> None:
    async with serving() as agent, linked(agent) as (link, _):
        agent.hold = "first"
        first = asyncio.create_task(link.send(request("first", id=1)))
        second = asyncio.create_task(link.send(request("second", id=2)))
        third = asyncio.create_task(link.send(request("third", id=3)))
        for _ in range(5):
            await asyncio.sleep(0)
        first.cancel()
        second.cancel()
        await asyncio.wait({first, second})
        agent.held.set()
        await third
        assert [(await agent.posts.get()).body["id"] for _ in range(3)] == [1, 2, 3]


async def test_what_cannot_be_sent_leaves_the_link_open() -> None:
    async with serving() as agent, linked(agent, max_frame=1000) as (link, _):
        with pytest.raises(LocalProtocolError, match="limit of 1000 bytes"):
            await link.send(request("m", id=1, text="x" * 1000))
        with pytest.raises(LocalProtocolError, match="not a message"):
            await link.send(b"[]")
        with pytest.raises(LocalProtocolError, match="fits no header"):
            await link.send(request("session/prompt", "a\r\nX-Evil: 1", id=1))
        await link.send(request("m", id=2))
        assert (await agent.posts.get()).body["id"] == 2


# ------------------------------------------------------------------ refused messages


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "does not understand the message"),
        (405, "HTTP 405"),
        (409, "load or resume the session"),
        (413, "larger than it accepts"),
        (415, "no agent"),
        (429, "try again later (after 3 s)"),
        (500, "HTTP 500"),
        (502, "HTTP 502"),
        (503, "(after 3 s)"),
    ],
)
async def test_a_refused_request_fails_alone(status: int, words: str) -> None:
    async with serving() as agent, linked(agent, headers={"X-Key": SECRET}) as (link, _):
        agent.replies["session/list"] = [answer(status, f"key {SECRET}", "Retry-After: 3")]
        with pytest.raises(HttpRefused) as caught:
            await link.send(request("session/list", id=1))
        assert caught.value.status == status
        assert caught.value.retry_after == 3.0
        assert caught.value.code == "HTTP_REFUSED"
        assert words in str(caught.value)
        assert f"127.0.0.1:{agent.port}/acp answered" in str(caught.value)
        assert SECRET not in str(caught.value)
        await link.send(request("session/list", id=2))


@pytest.mark.parametrize("status", [401, 403, 404, 410])
async def test_a_status_that_concerns_the_connection_ends_the_link(status: int) -> None:
    async with serving() as agent, linked(agent) as (link, stream):
        await stream.event(chunk(1))
        agent.replies["session/list"] = [answer(status)]
        with pytest.raises(LinkLost, match=f"HTTP {status}.*make a new client"):
            await link.send(request("session/list", id=1))
        assert json.loads(await link.receive()) == chunk(1)
        with pytest.raises(LinkLost, match=f"HTTP {status}"):
            await link.receive()
        with pytest.raises(LinkLost, match=f"HTTP {status}"):
            await link.send(request("session/list", id=2))
    assert len(agent.deletes) == 1


async def test_a_refused_answer_ends_the_link_because_the_agent_waits_for_it() -> None:
    async with serving() as agent, linked(agent) as (link, stream):
        await stream.event({"id": 7, "method": "ask", "params": {}})
        await link.receive()
        agent.replies["answer"] = [answer(502)]
        with pytest.raises(LinkLost, match="502"):
            await link.send(b'{"id":7,"result":{}}')


async def test_a_complaint_about_a_request_that_was_answered_is_no_error() -> None:
    async with serving() as agent, linked(agent) as (link, stream):
        agent.hold = "session/list"
        agent.replies["session/list"] = [answer(502)]
        sending = asyncio.create_task(link.send(request("session/list", id=1)))
        await stream.event({"id": 1, "result": {}})
        await link.receive()
        agent.held.set()
        await sending


async def test_a_session_whose_stream_is_taken_fails_alone_and_may_be_tried_again() -> None:
    async with serving() as agent, linked(agent) as (link, _):
        agent.replies["GET"] = [answer(409)]
        with pytest.raises(HttpRefused, match="another receiver") as caught:
            await link.send(request("session/prompt", "s1", id=1))
        assert caught.value.status == 409
        await link.send(request("session/prompt", "s2", id=2))
        await link.send(request("session/resume", "s1", id=3))
        sessions = [(await agent.posts.get()).body["params"]["sessionId"] for _ in range(2)]
        assert sessions == ["s2", "s1"]


async def test_a_message_without_an_answer_in_time_ends_the_link() -> None:
    async with serving() as agent, linked(agent, post_timeout=0.2) as (link, _):
        agent.hold = "session/list"
        with pytest.raises(LinkLost, match=r"within 0\.2 s.*unknown whether the agent has it"):
            await link.send(request("session/list", id=1))
        with pytest.raises(LinkLost, match="unknown"):
            await link.receive()


# ------------------------------------------------------------------ order across streams


async def test_an_answer_waits_for_the_history_that_comes_over_the_other_stream() -> None:
    """Rule A10."""
    async with serving() as agent, linked(agent) as (link, connection):
        await link.send(request("session/load", "s1", id=1))
        await agent.posts.get()
        session = await agent.streams.get()
        await connection.event({"id": 1, "result": {}})
        order = await agent.posts.get()
        assert order.session == "s1"
        assert order.body["method"] == "_arcp/order"
        await connection.event(chunk("other", "s2"))
        await session.raw(b"".join(f"data: {json.dumps(chunk(n))}\n\n".encode() for n in range(50)))
        error = {"code": -32601, "message": "unknown"}
        await session.event({"id": order.body["id"], "error": error})
        await session.event(chunk("after"))
        seen: list[Any] = []
        while len(seen) < 53:
            seen.append(json.loads(await link.receive()))
        seen.remove(chunk("other", "s2"))
        assert seen == [*map(chunk, range(50)), {"id": 1, "result": {}}, chunk("after")]


async def test_an_error_and_the_answers_of_a_single_stream_do_not_wait() -> None:
    async with serving() as agent, linked(agent) as (link, connection):
        await link.send(request("session/load", "s1", id=1))
        await connection.event({"id": 1, "error": {"code": -32002, "message": "unknown"}})
        assert "error" in json.loads(await link.receive())
        await connection.event(chunk(1))
        await link.receive()
        await link.send(request("session/load", "s1", id=2))
        await connection.event({"id": 2, "result": {}})
        assert json.loads(await link.receive()) == {"id": 2, "result": {}}
        posts = [seen.body["method"] for seen in agent.seen if seen.method == "POST"]
        assert posts == ["initialize", "session/load", "session/load"]


async def test_an_agent_that_leaves_the_order_open_delays_an_answer_only(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arcp_client.acp._http.order._QUIET", 0.05)
    async with serving() as agent, linked(agent) as (link, connection):
        await link.send(request("session/load", "s1", id=1))
        with caplog.at_level(logging.WARNING, "arcp_client.acp"):
            await connection.event({"id": 1, "result": {}})
            assert json.loads(await link.receive()) == {"id": 1, "result": {}}
        assert "may precede earlier updates" in caplog.text


async def test_a_server_that_refuses_the_request_for_order_delays_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with serving() as agent, linked(agent) as (link, connection):
        agent.replies["_arcp/order"] = [answer(429)]
        await link.send(request("session/load", "s1", id=1))
        await connection.event({"id": 1, "result": {}})
        assert json.loads(await link.receive()) == {"id": 1, "result": {}}
        assert "HTTP 429" in caplog.text


# ------------------------------------------------------------------ sessions and their streams


async def test_a_new_session_has_its_stream_before_anything_is_sent_to_it() -> None:
    async with serving() as agent, linked(agent) as (link, connection):
        await link.send(request("session/new", id=1))
        await connection.event({"id": 1, "result": {"sessionId": "s1"}})
        session = await agent.streams.get()
        assert session.headers["acp-session-id"] == "s1"
        await session.event(chunk(1))
        received = [json.loads(await link.receive()) for _ in range(2)]
        assert received == [{"id": 1, "result": {"sessionId": "s1"}}, chunk(1)]


@pytest.mark.parametrize("method", ["session/close", "session/delete"])
async def test_the_stream_of_a_session_ends_with_it(method: str) -> None:
    async with serving() as agent, linked(agent) as (link, _):
        await link.send(request(method, "s1", id=1))
        session = await agent.streams.get()
        await session.event({"id": 1, "result": {}})
        assert json.loads(await link.receive())["id"] == 1
        with pytest.raises(ConnectionError):
            while True:
                await session.event(chunk(1))
        await link.send(request("session/load", "s1", id=2))
        await (await agent.streams.get()).event(chunk(2))
        assert json.loads(await link.receive()) == chunk(2)


async def test_a_server_cannot_open_streams_that_nothing_asked_for() -> None:
    async with serving() as agent, linked(agent) as (link, connection):
        await connection.event({"id": 99, "result": {"sessionId": "s9"}})
        await link.receive()
        await link.send(request("session/new", id=1))
        await connection.event({"id": 1, "result": {"sessionId": "a\nb"}})
        await link.receive()
        await link.send(request("m", id=2))
        assert agent.streams.empty()


# ------------------------------------------------------------------ bounds


async def test_an_event_over_the_limit_is_dropped_and_the_link_goes_on() -> None:
    async with serving() as agent, linked(agent, max_frame=1000) as (link, stream):
        await stream.event({"id": 1, "result": "x" * 5000})
        await stream.event(chunk(1))
        with pytest.raises(RemoteProtocolError, match="an event of 50.. bytes is over"):
            await link.receive()
        assert json.loads(await link.receive()) == chunk(1)


async def test_a_reader_that_does_not_receive_stops_the_server() -> None:
    async with serving() as agent, linked(agent) as (link, stream):
        sent = 0

        async def flood() -> None:
            nonlocal sent
            while 60_000 * sent < 32 * 1024 * 1024:
                await stream.event(chunk("x" * 60_000))
                sent += 1

        flooding = asyncio.create_task(flood())
        stopped = 0  # iterations of the loop in which the link could have read, and did not
        while stopped < 100:
            before = sent
            await asyncio.sleep(0)
            stopped = stopped + 1 if sent == before and stream.held else 0
            assert not flooding.done()
        for _ in range(sent):
            await link.receive()
        flooding.cancel()
        await asyncio.wait({flooding})


# ------------------------------------------------------------------ how a link ends


async def test_closing_delivers_what_was_sent_and_ends_the_connection() -> None:
    async with serving() as agent, linked(agent) as (link, _):
        agent.hold = "session/cancel"
        sending = asyncio.create_task(link.send(request("session/cancel", "s1")))
        await agent.streams.get()
        closing = asyncio.create_task(link.close())
        with pytest.raises(LinkLost, match="closed by this side"):
            await link.receive()
        agent.held.set()
        await closing
        await sending
        assert (await agent.posts.get()).body["method"] == "session/cancel"
        assert len(agent.deletes) == 1
        await link.close()
        with pytest.raises(LinkLost, match="closed by this side"):
            await link.send(request("m", id=1))
        assert len(agent.deletes) == 1


async def test_closing_takes_no_longer_than_told_and_still_ends_the_connection() -> None:
    async with serving() as agent, linked(agent) as (link, _):
        agent.hold = "m"
        sending = asyncio.create_task(link.send(request("m", id=1)))
        while len(agent.seen) < 3:
            await asyncio.sleep(0)
        await link.close(timeout=0)
        with pytest.raises(LinkLost):
            await sending
        assert len(agent.deletes) == 1


async def test_a_server_that_does_not_answer_initialize_is_given_up_at_once() -> None:
    async with serving() as agent:
        agent.hold = "initialize"
        client = AcpClient(agent.url, limits=AcpLimits(start=0.1, close=3600.0))
        with pytest.raises(HandshakeTimeout, match=r"did not answer initialize within 0\.1 s"):
            await client.connect()


async def test_a_server_that_does_not_answer_the_end_cannot_hold_it_up() -> None:
    async with serving() as agent, linked(agent) as (link, _):
        agent.hold = "DELETE"
        await asyncio.wait_for(link.close(timeout=0.1), 10)


async def test_a_client_over_http_has_the_updates_of_a_turn_before_its_end() -> None:
    async with serving() as agent:
        client = AcpClient(agent.url, token=SECRET)
        assert SECRET not in repr(client)
        async with client:
            connection = await agent.streams.get()
            opening = asyncio.create_task(client.new_session("/"))
            await agent.posts.get()
            new = await agent.posts.get()
            assert new.headers["authorization"] == f"Bearer {SECRET}"
            await connection.event({"id": new.body["id"], "result": {"sessionId": "s1"}})
            session = await opening
            stream = await agent.streams.get()
            said: list[str] = []
            session.subscribe(lambda u: said.append(u.content.text), updates.AgentMessageChunk)
            turn = asyncio.create_task(session.prompt("hello"))
            prompt = await agent.posts.get()
            for number in range(20):
                await stream.event(chunk(number))
            await stream.event({"id": prompt.body["id"], "result": {"stopReason": "end_turn"}})
            await turn
            assert said == [str(number) for number in range(20)]
            agent.replies["session/prompt"] = [answer(429, "slow down", "Retry-After: 9")]
            with pytest.raises(HttpRefused) as caught:
                await session.prompt("again")
            assert caught.value.retry_after == 9.0
        assert len(agent.deletes) == 1
