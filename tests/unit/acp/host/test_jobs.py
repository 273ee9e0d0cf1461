"""An ACP agent as an ARCP agent: jobs, events, leases, costs, cancellation, a cut in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from arcp_client import Client, Lease, Runtime, events
from arcp_client.acp import host, schema
from arcp_client.acp.host.leases import operations
from arcp_client.errors import BudgetExhausted, JobCancelled, JobFailed
from arcp_client.testing import FaultyProxy
from tests.unit.acp.http.kit import SECRET, answer, serving
from tests.unit.acp.kit import EVERYTHING, FakeAgent, chunk, notification

Serve = Callable[["Served"], Any]


class Served(FakeAgent):
    """A fake agent that is served by a coroutine of the test, once it is connected."""

    def __init__(self, turn: Serve, offers: dict[str, Any]) -> None:
        super().__init__()
        self._turn = turn
        self._offers = offers
        self.prompt: dict[str, Any] = {}

    async def serve(self) -> None:
        offers = {"protocolVersion": 1, "agentCapabilities": self._offers}
        offers["agentInfo"] = {"name": "fake", "version": "7"}
        await self.result(await self.next("initialize"), offers)
        call = await self.next()
        if call["method"] == "session/resume":
            await self.result(call, {})
        elif call["method"] == "session/load":
            session = call["params"]["sessionId"]
            await self.send(notification(cost(5), session), chunk("history", session))
            await self.result(call, None)
        else:
            await self.result(call, {"sessionId": "s1"})
        while call["method"] != "session/prompt":
            call = await self.next()
            if call["method"] == "session/set_mode":
                await self.result(call, None)
        self.prompt = call
        await self._turn(self)

    async def end(self, reason: str = "end_turn", **more: Any) -> None:
        await self.result(self.prompt, {"stopReason": reason, **more})


class Agents:
    """A connector that makes a new agent for each job."""

    target = "fake"

    def __init__(self, turn: Serve, offers: dict[str, Any] | None = None) -> None:
        self._turn = turn
        self._offers = EVERYTHING if offers is None else offers
        self.made: list[Served] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> Any:
        agent = Served(self._turn, self._offers)
        self.made.append(agent)
        self.tasks.append(asyncio.get_running_loop().create_task(agent.serve()))
        return await agent.connect()


def cost(amount: float, used: int = 10) -> dict[str, Any]:
    money = {"amount": amount, "currency": "USD"}
    return {"sessionUpdate": "usage_update", "used": used, "size": 100, "cost": money}


@contextlib.asynccontextmanager
async def hosted(
    turn: Serve, *, offers: dict[str, Any] | None = None, **options: Any
) -> AsyncIterator[tuple[Client, Agents]]:
    agents = Agents(turn, offers)
    async with Runtime() as runtime:
        runtime.agent("acp")(host(agents, **options))
        async with Client(runtime) as client:
            yield client, agents
    for task in agents.tasks:
        task.cancel()
    await asyncio.gather(*agents.tasks, return_exceptions=True)


async def followed(job: Any) -> list[Any]:
    return [event async for event in job]


async def test_a_job_is_a_prompt_and_its_updates_are_events() -> None:
    async def turn(agent: Served) -> None:
        call = {"sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Read x", "kind": "read"}
        change = {"sessionUpdate": "tool_call_update", "toolCallId": "t1"}
        plan = {
            "sessionUpdate": "plan",
            "entries": [
                {"content": "a", "priority": "high", "status": "completed"},
                {"content": "b", "priority": "low", "status": "in_progress"},
            ],
        }
        thought = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "?"}}
        await agent.send(
            notification(thought),
            notification(plan),
            notification({**call, "rawInput": {"path": "x"}}),
            notification({**change, "status": "in_progress"}),
            notification({**change, "status": "completed", "rawOutput": "found"}),
            notification({**change, "status": "completed"}),
            chunk("Hello "),
            notification(cost(0.25)),
            notification(cost(0.75)),
            notification({"sessionUpdate": "notice", "title": "careful", "severity": "warning"}),
            notification({"sessionUpdate": "current_mode_update", "currentModeId": "code"}),
            notification({"sessionUpdate": "future_x", "a": 1}),
            chunk("world"),
        )
        await agent.end(usage={"totalTokens": 9, "inputTokens": 4, "outputTokens": 5})

    async with hosted(turn) as (client, agents):
        job = await client.submit("acp", "say hello")
        seen = await followed(job)
        assert (await job.result()).value == "Hello world"
        assert agents.made[0].prompt["params"]["prompt"] == [{"type": "text", "text": "say hello"}]

    def of(kind: type[Any]) -> list[Any]:
        return [event for event in seen if type(event) is kind]

    assert [e.text for e in of(events.Thought)] == ["?"]
    assert [(e.current, e.total, e.message) for e in of(events.Progress)] == [(1, 2, "b")]
    (called,) = of(events.ToolCall)
    assert (called.tool, called.call_id, called.args["input"]) == ("read", "t1", {"path": "x"})
    (result,) = of(events.ToolResult)
    assert (result.call_id, result.result["output"]) == ("t1", "found")
    metrics = [(e.name, float(e.value), e.unit) for e in of(events.Metric)]
    assert [m for m in metrics if m[0] == "cost.acp"] == [
        ("cost.acp", 0.25, "USD"),
        ("cost.acp", 0.5, "USD"),
    ]
    assert ("acp.tokens.total", 9.0, "tokens") in metrics
    assert [e.message for e in of(events.Log)] == ["careful"]
    assert ("mode", "code") in [(e.phase, e.message) for e in of(events.Status)]
    named, other = of(events.Unknown)
    assert named.raw["payload"]["body"] == {"session": "s1", "agent": "fake 7"}
    assert other.raw["payload"]["body"] == {"update": {"sessionUpdate": "future_x", "a": 1}}


async def test_a_conversation_goes_on_and_its_history_is_not_told_again() -> None:
    async def turn(agent: Served) -> None:
        await agent.send(notification(cost(5.5), "old"), chunk("new", "old"))
        await agent.end()

    async with hosted(turn) as (client, agents):
        job = await client.submit("acp", {"prompt": "go on", "session": "old", "mode": "plan"})
        seen = await followed(job)
        assert (await job.result()).value == "new"
        costs = [float(e.value) for e in seen if isinstance(e, events.Metric) and "cost" in e.name]
        assert costs == [0.5]
        assert "session/set_mode" in [m.get("method") for m in agents.made[0].seen]


async def test_a_cut_in_the_middle_loses_nothing_and_the_agent_does_not_notice() -> None:
    cut, mended = asyncio.Event(), asyncio.Event()

    async def turn(agent: Served) -> None:
        await agent.send(*(chunk(f"{n} ") for n in range(50)))
        cut.set()
        await agent.send(*(chunk(f"{n} ") for n in range(50, 100)))
        await mended.wait()
        await agent.send(*(chunk(f"{n} ") for n in range(100, 150)))
        await agent.end()

    agents = Agents(turn)
    async with Runtime() as runtime:
        runtime.agent("acp")(host(agents))
        async with (
            runtime.serve("127.0.0.1", 0) as server,
            FaultyProxy(server.url) as proxy,
            Client(proxy.url) as client,
        ):
            states: list[str] = []
            client.on_state(lambda state: states.append(type(state).__name__))
            job = await client.submit("acp", "count")
            await cut.wait()
            proxy.cut()
            while "Reconnecting" not in states:
                await asyncio.sleep(0)
            mended.set()
            value = (await job.result()).value
            assert value == "".join(f"{n} " for n in range(150))
            assert len(agents.made) == 1
    await asyncio.gather(*agents.tasks)


async def test_cancelling_the_job_cancels_the_turn() -> None:
    async def turn(agent: Served) -> None:
        await agent.send(chunk("a"))
        await agent.next("session/cancel")
        await agent.end("cancelled")

    async with hosted(turn) as (client, agents):
        job = await client.submit("acp", "wait")
        async for event in job:
            if isinstance(event, events.ResultChunk):
                await job.cancel()
                break
        with pytest.raises(JobCancelled):
            await job.result()
        await agents.tasks[0]


ASK: list[tuple[dict[str, Any], Lease, str]] = [
    ({"kind": "edit", "locations": [{"path": "/w/a/x"}]}, Lease({"fs.write": ["/w/a/**"]}), "yes"),
    ({"kind": "edit", "locations": [{"path": "/w/b/x"}]}, Lease({"fs.write": ["/w/a/**"]}), "no"),
    ({"kind": "execute", "name": "bash"}, Lease({"tool.call": ["bash"]}), "yes"),
    ({"kind": "execute", "name": "bash"}, Lease({"tool.call": ["grep"]}), "no"),
    (
        {"kind": "fetch", "rawInput": {"url": "https://example.org/x"}},
        Lease({"net.fetch": ["https://example.org/**"]}),
        "yes",
    ),
    ({}, Lease({"fs.read": ["/**"]}), "no"),
]


@pytest.mark.parametrize(("call", "lease", "answer"), ASK)
async def test_the_lease_decides_on_permissions(
    call: dict[str, Any], lease: Lease, answer: str
) -> None:
    async def turn(agent: Served) -> None:
        asking = agent.request(
            "session/request_permission",
            sessionId="s1",
            toolCall={"toolCallId": "t", "title": "T", **call},
            options=[
                {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
                {"optionId": "no", "name": "No", "kind": "reject_once"},
            ],
        )
        await agent.send(asking)
        reply = await agent.reply_to(asking)
        await agent.send(chunk(reply["result"]["outcome"]["optionId"]))
        await agent.end()

    async with hosted(turn) as (client, _):
        job = await client.submit("acp", "do it", lease=lease)
        assert (await job.result()).value == answer


async def test_files_and_terminals_are_as_far_as_the_lease_goes(tmp_path: Path) -> None:
    (tmp_path / "open").write_text("open")
    (tmp_path / "shut").write_text("shut")
    (tmp_path / "door").symlink_to("shut")

    async def turn(agent: Served) -> None:
        for method, params in [
            ("fs/read_text_file", {"path": f"{tmp_path}/open"}),
            ("fs/read_text_file", {"path": f"{tmp_path}/shut"}),
            ("fs/read_text_file", {"path": f"{tmp_path}/door"}),
            ("fs/write_text_file", {"path": f"{tmp_path}/open", "content": "x"}),
            ("terminal/create", {"command": "/bin/true"}),
            ("terminal/create", {"command": "/bin/false"}),
        ]:
            request = agent.request(method, sessionId="s1", **params)
            await agent.send(request)
            await agent.send(chunk("n" if "error" in await agent.reply_to(request) else "y"))
        await agent.end()

    real = tmp_path.resolve()
    lease = Lease({"fs.read": [f"{real}/open"], "tool.call": ["true"]})
    async with hosted(turn, cwd=tmp_path) as (client, _):
        job = await client.submit("acp", "try", lease=lease)
        assert (await job.result()).value == "ynnnyn"


@pytest.mark.parametrize(
    ("input", "why"),
    [
        (5, "the input must be a prompt"),
        ({}, "the input must be a prompt"),
        ({"prompt": []}, "text or content blocks"),
        ({"prompt": [{"type": "text"}], "x": 1}, ""),
        ({"prompt": "x", "session": 5}, "input.session must be a string"),
        ({"prompt": "x", "cwd": "/etc"}, "cwd '/etc' is not a directory under"),
        ({"prompt": "x", "cwd": "../.."}, "is not a directory under"),
    ],
)
async def test_input_that_is_none_is_refused_before_anything_starts(
    input: Any, why: str, tmp_path: Path
) -> None:
    async def turn(agent: Served) -> None:
        await agent.end()

    async with hosted(turn, cwd=tmp_path) as (client, agents):
        job = await client.submit("acp", input)
        if not why:  # a block that is not of its kind goes to the agent as it came
            await job.result()
            assert agents.made[0].prompt["params"]["prompt"] == [{"type": "text"}]
            return
        with pytest.raises(JobFailed, match=why) as caught:
            await job.result()
        assert caught.value.code == "INVALID_REQUEST"
        assert not agents.made


async def test_how_jobs_fail() -> None:
    async def refuses(agent: Served) -> None:
        await agent.end("refusal")

    async def errs(agent: Served) -> None:
        await agent.refuse(agent.prompt, {"code": -32000, "message": "Authentication required"})

    async def dies(agent: Served) -> None:
        await agent.far.close()

    for turn, why in [
        (refuses, "refused"),
        (errs, "Authentication required"),
        (dies, "the agent exited"),
    ]:
        async with hosted(turn) as (client, _):
            job = await client.submit("acp", "x")
            with pytest.raises(JobFailed, match=why):
                await job.result()
    async with hosted(refuses, offers={}) as (client, _):
        job = await client.submit("acp", {"prompt": "x", "session": "s"})
        with pytest.raises(JobFailed, match="neither session/load nor session/resume"):
            await job.result()


async def test_an_agent_that_only_resumes_goes_on_too() -> None:
    async def turn(agent: Served) -> None:
        await agent.send(chunk("on", "s"))
        await agent.end()

    async with hosted(turn, offers={"sessionCapabilities": {"resume": {}}}) as (client, agents):
        job = await client.submit("acp", {"prompt": "x", "session": "s"})
        assert (await job.result()).value == "on"
        assert "session/resume" in [m.get("method") for m in agents.made[0].seen]


async def test_a_spent_budget_ends_the_turn() -> None:
    async def turn(agent: Served) -> None:
        await agent.send(notification(cost(0.75)), notification(cost(1.25)))
        await agent.next("session/cancel")
        await agent.end("cancelled")

    async with hosted(turn) as (client, agents):
        job = await client.submit("acp", "x", lease=Lease({"cost.budget": ["USD:1.00"]}))
        with pytest.raises(BudgetExhausted):
            await job.result()
        await agents.tasks[0]


async def test_a_turn_without_words_says_how_it_ended() -> None:
    async def turn(agent: Served) -> None:
        await agent.end("max_tokens")

    async with hosted(turn) as (client, _):
        job = await client.submit("acp", "x")
        value = (await job.result()).value
        assert value == {"stop_reason": "max_tokens", "session": "s1"}


def test_a_tool_call_that_says_too_little_asks_for_its_tool() -> None:
    def of(**call: Any) -> list[tuple[str, str]]:
        return list(operations(schema.ToolCall(tool_call_id="t", title="", **call), "/w"))

    assert of(kind="read") == [("fs.read", "/w")]
    assert of(kind="fetch") == [("tool.call", "fetch")]
    assert of() == [("tool.call", "other")]


async def test_an_agent_behind_a_url_gets_the_token_and_no_error_shows_it() -> None:
    async with serving() as server, Runtime() as runtime:
        server.replies["initialize"] = [answer(401, f"no {SECRET}")]
        runtime.agent("remote")(host(server.url, token=SECRET))
        async with Client(runtime) as client:
            job = await client.submit("remote", "hello")
            with pytest.raises(JobFailed, match="HTTP 401") as caught:
                await job.result()
        assert SECRET not in str(caught.value)
        assert server.seen[0].headers["authorization"] == f"Bearer {SECRET}"


def test_a_token_for_a_program_is_refused_before_any_job() -> None:
    with pytest.raises(ValueError, match="token is for an agent behind a URL"):
        host(["agent"], token=SECRET)
