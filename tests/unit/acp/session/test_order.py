"""One inbox per session: updates, starts of requests and answers are positions of one sequence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from arcp_client.acp import schema, updates
from arcp_client.acp.services.permissions import PermissionRequest
from tests.unit.acp.kit import chunk, connected, notification, opened, settled, words


class Gated:
    """A handler that ends when it is told to, and records what ended."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: list[str] = []
        self.running = 0
        self.most = 0
        self.gate = asyncio.Semaphore(0)

    async def __call__(self, update: Any) -> None:
        self.started.append(words(update))
        self.running += 1
        self.most = max(self.most, self.running)
        await self.gate.acquire()
        self.running -= 1
        self.ended.append(words(update))

    def open(self, count: int = 1) -> None:
        for _ in range(count):
            self.gate.release()


ORDERED = ["prompt", "load", "resume"]


def call_of(session: Any, kind: str) -> Any:
    return {"prompt": lambda: session.prompt("go"), "load": session.load, "resume": session.resume}[
        kind
    ]()


RESULTS: dict[str, Any] = {"prompt": {"stopReason": "end_turn"}, "load": None, "resume": {}}


@pytest.mark.parametrize("kind", ORDERED)
async def test_a_call_returns_after_the_handlers_of_what_came_before_its_answer(kind: str) -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        handler = Gated()
        session.subscribe(handler, updates.AgentMessageChunk)
        calling = asyncio.ensure_future(call_of(session, kind))
        call = await agent.next(f"session/{kind}")
        await agent.send(*map(chunk, range(5)), agent.answer(call, RESULTS[kind]))
        await settled()
        assert handler.started == ["0"]
        for count in range(5):
            assert not calling.done()
            assert len(handler.ended) == count
            handler.open()
            await settled()
        assert calling.done()
        await calling
        assert handler.ended == ["0", "1", "2", "3", "4"]
        assert handler.most == 1


async def test_fork_returns_behind_the_updates_of_its_source() -> None:
    async with connected() as (agent, client):
        source = await opened(agent, client)
        handler = Gated()
        source.subscribe(handler, updates.AgentMessageChunk)
        forking = asyncio.ensure_future(client.fork_session(source))
        call = await agent.next("session/fork")
        await agent.send(chunk("a"), agent.answer(call, {"sessionId": "s2"}), chunk("b", "s2"))
        await settled()
        assert not forking.done()
        handler.open()
        fork = await forking
        got: list[str] = []
        fork.subscribe(lambda u: got.append(words(u)), updates.AgentMessageChunk)
        await settled()
        assert got == ["b"]


async def test_a_refused_call_returns_in_order_too() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        handler = Gated()
        session.subscribe(handler, updates.AgentMessageChunk)
        calling = asyncio.ensure_future(session.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(chunk("a"))
        await agent.refuse(call, {"code": -32000, "message": "Authentication required"})
        await settled()
        assert not calling.done()
        handler.open()
        from arcp_client.acp.errors import AuthRequired

        with pytest.raises(AuthRequired, match="Authentication required"):
            await calling
        assert handler.ended == ["a"]


async def test_a_thousand_answers_in_one_write_with_their_update_never_come_early() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        done: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: updates.AgentMessageChunk) -> None:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            done.append(words(update))

        async def serve() -> None:
            for count in range(1000):
                call = await agent.next("session/prompt")
                await agent.send(chunk(count), agent.answer(call, {"stopReason": "end_turn"}))

        serving = asyncio.ensure_future(serve())
        for count in range(1000):
            await session.prompt("go")
            assert len(done) == count + 1
        await serving


async def test_a_permission_callback_sees_the_tool_call_and_then_runs_beside_the_updates() -> None:
    asked: list[PermissionRequest] = []
    answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def ask(request: PermissionRequest) -> bool:
        asked.append(request)
        return await answer

    async with connected(on_permission=ask) as (agent, client):
        session = await opened(agent, client)
        gate = asyncio.Event()
        seen: list[str] = []

        @session.on(updates.ToolCall)
        async def slow(update: updates.ToolCall) -> None:
            await gate.wait()
            seen.append(update.title)

        session.subscribe(lambda u: seen.append(words(u)), updates.AgentMessageChunk)
        options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
        request = agent.request(
            "session/request_permission",
            sessionId="s1",
            toolCall={"toolCallId": "t1", "status": "pending"},
            options=options,
        )
        start = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Edit", "kind": "edit"}
        await agent.send(notification(start), request, chunk("after"))
        await settled()
        assert not asked
        gate.set()
        await settled()
        assert seen == ["Edit", "after"]  # an open dialog does not hold the updates
        assert asked[0].tool_call.title == "Edit"
        assert asked[0].tool_call.status == "pending"
        answer.set_result(True)
        reply = await agent.reply_to(request)
        assert reply["result"] == {"outcome": {"outcome": "selected", "optionId": "yes"}}


async def test_a_tool_call_that_only_a_permission_request_names_is_made_from_it() -> None:
    asked: list[PermissionRequest] = []
    async with connected(on_permission=asked.append) as (agent, client):
        session = await opened(agent, client)
        call = {"toolCallId": "t9", "title": "Run", "kind": "execute"}
        request = agent.request(
            "session/request_permission", sessionId="s1", toolCall=call, options=[]
        )
        await agent.send(request)
        reply = await agent.reply_to(request)
        assert reply["result"] == {"outcome": {"outcome": "cancelled"}}
        assert session.state.tool_calls["t9"].title == "Run"
        # A start that comes later merges, and does not wipe what is known.
        late = {"sessionUpdate": "tool_call", "toolCallId": "t9", "title": "Run it"}
        await agent.send(notification(late))
        await settled()
        assert session.state.tool_calls["t9"].kind == "execute"
        assert session.state.tool_calls["t9"].title == "Run it"


async def test_sessions_do_not_hold_each_other_up() -> None:
    async with connected() as (agent, client):
        first = await opened(agent, client, "s1")
        second = await opened(agent, client, "s2")
        stuck, got = Gated(), list[str]()
        first.subscribe(stuck, updates.AgentMessageChunk)
        second.subscribe(lambda u: got.append(words(u)), updates.AgentMessageChunk)
        await agent.send(*(chunk(n) for n in range(3000)))
        calling = asyncio.ensure_future(second.prompt("go"))
        call = await agent.next("session/prompt")
        await agent.send(chunk("b", "s2"), agent.answer(call, {"stopReason": "end_turn"}))
        assert (await calling).stop_reason == "end_turn"
        assert got == ["b"]
        assert stuck.started == ["0"]


async def test_updates_before_between_and_after_turns_say_which_turn_they_belong_to() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        got: list[tuple[str, int | None]] = []
        session.subscribe(lambda u: got.append((words(u), u.turn)), updates.AgentMessageChunk)
        await settled()
        await agent.send(chunk("before"))
        await settled()
        for number in (1, 2):
            calling = asyncio.ensure_future(session.prompt("go"))
            call = await agent.next("session/prompt")
            end = agent.answer(call, {"stopReason": "end_turn"})
            await agent.send(chunk(f"in {number}"), end, chunk(f"after {number}"))
            assert (await calling).number == number
        await settled()
        assert got == [
            ("before", None),
            ("in 1", 1),
            ("after 1", None),
            ("in 2", 2),
            ("after 2", None),
        ]


async def test_history_is_marked_as_replay() -> None:
    async with connected() as (agent, client):
        session = client.session("old")
        got: list[tuple[str, bool]] = []
        session.subscribe(lambda u: got.append((words(u), u.replay)), updates.AgentMessageChunk)
        loading = asyncio.ensure_future(session.load())
        call = await agent.next("session/load")
        await agent.send(
            *(chunk(n, "old") for n in range(50)), agent.answer(call), chunk(50, "old")
        )
        await loading
        assert got[:50] == [(str(n), True) for n in range(50)]
        await settled()
        assert got[50:] == [("50", False)]


# ----------------------------------------------------------------------- unknown and new sessions


async def test_updates_before_and_right_behind_the_answer_to_new_wait_for_the_first_use() -> None:
    async with connected() as (agent, client):
        opening = asyncio.ensure_future(asyncio.wait_for(client.new_session(), 30))
        call = await agent.next("session/new")
        await agent.send(chunk("early"), agent.answer(call, {"sessionId": "s1"}), chunk("late"))
        session = await opening
        await settled()
        got: list[str] = []
        session.subscribe(lambda u: got.append(words(u)), updates.AgentMessageChunk)
        session.subscribe(lambda u: got.append(words(u) + "!"), updates.AgentMessageChunk)
        await settled()
        assert got == ["early", "early!", "late", "late!"]


async def test_what_comes_for_unknown_sessions_is_bounded_and_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    from arcp_client.acp.limits import AcpLimits

    limits = AcpLimits(unknown_sessions=2, unknown_updates=3)
    async with connected(limits=limits) as (agent, client):
        await agent.send(*(chunk(n, "a") for n in range(5)), chunk(0, "b"), chunk(0, "c"))
        await settled()
        session = client.session("a")  # its place was taken by newer ones
        assert [u async for u in _so_far(session)] == []
        assert "3 updates for the unknown session 'a' are dropped" in caplog.text
        assert "the oldest update for the unknown session 'a' is dropped" in caplog.text
        assert [words(u) async for u in _so_far(client.session("c"))] == ["0"]


async def _so_far(session: Any) -> Any:
    await settled()
    stream = session.updates()
    session._inbox.end(None)
    async for update in stream:
        yield update


async def test_a_request_in_an_unopened_session_starts_at_once() -> None:
    async with connected() as (agent, client):
        opening = asyncio.ensure_future(client.new_session())
        call = await agent.next("session/new")
        request = agent.request(
            "session/request_permission", sessionId="s1", toolCall={"toolCallId": "t"}, options=[]
        )
        await agent.send(request)  # an agent may want an answer before it gives its own
        assert "result" in await agent.reply_to(request)
        await agent.result(call, {"sessionId": "s1"})
        await opening
        await agent.send(chunk("held"), request)
        assert "result" in await agent.reply_to(request)


async def test_without_any_use_a_new_session_opens_by_itself() -> None:
    from arcp_client.acp.limits import AcpLimits

    async with connected(limits=AcpLimits(hold=0.01)) as (agent, client):
        came = asyncio.Event()
        client.subscribe(lambda _: came.set(), updates.AgentMessageChunk)
        await opened(agent, client)
        await agent.send(chunk("a"))
        await came.wait()


# ----------------------------------------------------------------------- calls inside handlers


async def test_a_call_inside_a_handler_returns_at_once_and_its_updates_follow() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        trace: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: updates.AgentMessageChunk) -> None:
            trace.append(f"{words(update)} starts")
            if words(update) == "a":
                turn = await session.prompt("nested")
                trace.append(f"nested {turn.stop_reason}")
                await session.set_mode("plan")
                trace.append("mode")
            trace.append(f"{words(update)} ends")

        calling = asyncio.ensure_future(session.prompt("go"))
        outer = await agent.next("session/prompt")
        await agent.send(chunk("a"), chunk("b"))
        inner = await agent.next("session/prompt")
        await agent.send(chunk("c"), agent.answer(inner, {"stopReason": "nested_end"}))
        await agent.result(await agent.next("session/set_mode"), None)
        await agent.result(outer, {"stopReason": "end_turn"})
        await calling
        assert trace == [
            "a starts",
            "nested nested_end",
            "mode",
            "a ends",
            *("b starts", "b ends"),
            *("c starts", "c ends"),
        ]


async def test_two_handlers_that_prompt_the_same_session_do_not_deadlock() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        ended: list[str] = []

        @session.on(updates.AgentMessageChunk)
        async def handle(update: updates.AgentMessageChunk) -> None:
            if not words(update).startswith("nested"):
                await session.prompt(words(update))
            ended.append(words(update))

        calling = asyncio.ensure_future(session.prompt("go"))
        outer = await agent.next("session/prompt")
        await agent.send(chunk("1"), chunk("2"), agent.answer(outer, {"stopReason": "end_turn"}))
        for number in (1, 2):
            inner = await agent.next("session/prompt")
            reply = agent.answer(inner, {"stopReason": "end_turn"})
            await agent.send(chunk(f"nested {number}"), reply)
        await calling
        await settled()
        assert ended == ["1", "2", "nested 1", "nested 2"]


async def test_handlers_of_two_sessions_that_prompt_each_other_do_not_deadlock() -> None:
    async with connected() as (agent, client):
        first, second = await opened(agent, client, "s1"), await opened(agent, client, "s2")

        @first.on(updates.AgentMessageChunk)
        async def ask_second(update: Any) -> None:
            if words(update) == "go":
                await second.prompt("from first")

        @second.on(updates.AgentMessageChunk)
        async def ask_first(update: Any) -> None:
            await first.prompt("from second")

        await settled()
        await agent.send(chunk("go", "s1"))
        to_second = await agent.next("session/prompt")
        reply = agent.answer(to_second, {"stopReason": "end_turn"})
        await agent.send(chunk("x", "s2"), reply)
        to_first = await agent.next("session/prompt")
        await agent.send(chunk("y", "s1"), agent.answer(to_first, {"stopReason": "end_turn"}))
        await settled()
        assert first.last_turn is not None
        assert second.last_turn is not None


async def test_a_request_that_a_handlers_call_depends_on_is_not_stuck_behind_the_handler() -> None:
    async with connected(on_permission=lambda _: None) as (agent, client):
        session = await opened(agent, client)

        @session.on(updates.AgentMessageChunk)
        async def handle(_: Any) -> None:
            await session.set_mode("plan")

        def permission() -> dict[str, Any]:
            return agent.request(
                "session/request_permission",
                sessionId="s1",
                toolCall={"toolCallId": "t"},
                options=[],
            )

        await settled()
        queued, late = permission(), permission()
        await agent.send(chunk("a"), queued)
        call = await agent.next("session/set_mode")
        assert "result" in await agent.reply_to(queued)
        await agent.send(late)
        assert "result" in await agent.reply_to(late)
        await agent.result(call, None)


async def test_a_permission_callback_may_prompt() -> None:
    async with connected() as (agent, client):
        pass

    async def ask(request: PermissionRequest) -> bool:
        assert request.session is not None
        await request.session.prompt("may I?")
        return False

    async with connected(on_permission=ask) as (agent, client):
        session = await opened(agent, client)
        calling = asyncio.ensure_future(session.prompt("go"))
        outer = await agent.next("session/prompt")
        request = agent.request(
            "session/request_permission",
            sessionId="s1",
            toolCall={"toolCallId": "t"},
            options=[{"optionId": "no", "name": "No", "kind": "reject_once"}],
        )
        await agent.send(request)
        inner = await agent.next("session/prompt")
        await agent.result(inner, {"stopReason": "end_turn"})
        reply = await agent.reply_to(request)
        assert reply["result"]["outcome"]["optionId"] == "no"
        await agent.result(outer, {"stopReason": "end_turn"})
        await calling


async def test_the_task_of_an_ended_handler_is_outside_again() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        tasks: list[asyncio.Task[Any]] = []
        go, gate = asyncio.Event(), asyncio.Event()

        async def later() -> Any:
            await go.wait()
            return await session.prompt("later")

        @session.on(updates.AgentMessageChunk)
        async def handle(update: Any) -> None:
            if words(update) == "a":
                tasks.append(asyncio.get_running_loop().create_task(later()))
            else:
                await gate.wait()

        await settled()
        await agent.send(chunk("a"))
        await settled()
        go.set()
        call = await agent.next("session/prompt")
        await agent.send(chunk("b"), agent.answer(call, {"stopReason": "end_turn"}))
        await settled()
        assert not tasks[0].done()  # it waits for the handler of b, as every call outside does
        gate.set()
        await tasks[0]


async def test_prompts_of_one_session_wait_for_each_other() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        turns = [asyncio.ensure_future(session.prompt(str(n))) for n in range(3)]
        for number in range(3):
            call = await agent.next("session/prompt")
            assert call["params"]["prompt"] == [{"type": "text", "text": str(number)}]
            await settled()
            assert [turn.done() for turn in turns] == [n < number for n in range(3)]
            await agent.result(call, {"stopReason": "end_turn"})
        assert [(await turn).number for turn in turns] == [1, 2, 3]


async def test_what_calls_say_of_a_session_is_kept_in_order() -> None:
    async with connected() as (agent, client):
        session = await opened(agent, client)
        loading = asyncio.ensure_future(session.load())
        call = await agent.next("session/load")
        modes = {"currentModeId": "ask", "availableModes": [{"id": "ask", "name": "Ask"}]}
        change = {"sessionUpdate": "current_mode_update", "currentModeId": "code"}
        await agent.send(agent.answer(call, {"modes": modes}), notification(change))
        await loading
        await settled()
        assert session.state.mode == "code"
        assert session.state.modes == (schema.SessionMode(id="ask", name="Ask"),)
