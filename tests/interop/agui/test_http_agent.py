"""The stock `HttpAgent` of AG-UI follows jobs: cut anywhere, it has what an uncut one has."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from arcp_client import Client, JobContext, Runtime, SqliteEventLog
from arcp_client.web import add_ag_ui_routes
from tests.interop.agui.conftest import Browser

CUTS = 1000 if os.environ.get("ARCP_SLOW") else 30
pytestmark = pytest.mark.timeout(1800 if os.environ.get("ARCP_SLOW") else 120)
USER = {"id": "u1", "role": "user", "content": "Bake bread."}


def agents(runtime: Runtime) -> None:
    @runtime.agent("baker")
    async def baker(input: Any, job: JobContext) -> str:
        """Says something of every kind, at the pace of its readers."""
        asked = (input.get("forwardedProps") or {}).get("rounds", 6)
        for n in range(asked):
            await job.status(f"round {n}", message="begins")
            await job.thought(f"What does round {n} need? Größe, 🍞.")
            call = await job.tool_call("oven", {"round": n, "heat": 1.50})
            await job.log(f"heating {n}")
            await job.tool_result(call, {"loaves": n})
            await job.progress(n + 1, total=asked, units="rounds")
            await job.metric(f"heat/{n % 3}", n * 0.1)
            await asyncio.sleep(0)
        return "bread"

    @runtime.agent("writer")
    async def writer(input: Any, job: JobContext) -> Any:
        """Streams its result."""
        for n in range(60):
            if n % 10 == 0:
                await job.log(f"page {n}")
            await asyncio.sleep(0)
            yield f"line {n}, "

    @runtime.agent("asker")
    async def asker(input: Any, job: JobContext) -> Any:
        """Asks twice, the first time while a tool is called."""
        await job.status("asking")
        call = await job.tool_call("deploy", {"to": "production"})
        first = await job.ask("Deploy?", options=["yes", "no"])
        await job.tool_result(call, {"deployed": first})
        await job.thought("And how many?")
        second = await job.ask("How many?", schema=int)
        await job.log("done")
        return {"first": first, "second": second}


@asynccontextmanager
async def served(client: Client) -> AsyncIterator[TestServer]:
    app = web.Application()
    for name in ("baker", "writer", "asker"):
        add_ag_ui_routes(app, client, name, path=f"/{name}")
    async with TestServer(app) as server:
        yield server


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[TestServer, Client]]:
    async with Runtime() as runtime, Client(runtime) as client:
        agents(runtime)
        async with served(client) as server:
            yield server, client


def without_job(said: dict[str, Any]) -> tuple[Any, Any]:
    """What a front end has, without the ids that differ between jobs."""
    state = {name: value for name, value in said["state"].items() if name != "job_id"}
    renamed: dict[str, str] = {}

    def stable(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("run-"):
            prefix, _, rest = value.partition(":")
            return f"{renamed.setdefault(prefix, f'run {len(renamed)}')}:{rest}"
        if isinstance(value, list):
            return [stable(each) for each in value]
        if isinstance(value, dict):
            return {name: stable(each) for name, each in value.items()}
        return value

    return stable(said["messages"]), state


async def front_end(browser: Browser, url: str, name: str, thread: str) -> None:
    await browser.do("agent", name=name, url=url, thread=thread, messages=[USER])


async def uncut(browser: Browser, server: TestServer, agent: str) -> tuple[Any, Any]:
    await front_end(browser, str(server.make_url(agent)), "uncut", f"uncut {agent}")
    done = await browser.do("run", name="uncut", run="r")
    assert done["ok"], done
    assert done["finished"]["outcome"] == {"type": "success"}
    return without_job(await browser.do("state", name="uncut"))


async def jobs_of(client: Client) -> int:
    return len([job async for job in client.jobs()])


async def test_a_run_of_the_stock_client_is_a_job(browser: Browser) -> None:
    async with serving() as (server, client):
        messages, state = await uncut(browser, server, "baker")
        assert await jobs_of(client) == 1
    assert messages[0] == USER
    roles = {each["role"] for each in messages}
    assert roles == {"user", "assistant", "developer", "reasoning", "tool"}
    assert messages[-1]["content"] == "bread"
    assert state["status"] == "success"
    assert state["progress"]["current"] == 6
    assert set(state["metrics"]) == {"heat/0", "heat/1", "heat/2"}


async def test_cut_anywhere_and_run_again_it_has_what_an_uncut_run_has(browser: Browser) -> None:
    """The stock client as it is: after an error, ``runAgent`` with the same ids."""
    chance = random.Random(20261129)
    async with serving() as (server, client):
        done = 0
        expected = {each: await uncut(browser, server, each) for each in ("baker", "writer")}
        trial = 0
        while done < CUTS:
            trial += 1
            agent = chance.choice(["baker", "writer"])
            name = f"front {trial}"
            await front_end(browser, str(server.make_url(agent)), name, f"thread {trial}")
            for attempt in range(200):
                # The first connections are cut early, so that every part is cut; the last is not.
                most = None if attempt > 8 else int(chance.expovariate(1 / 4000)) + 1
                ran = await browser.do(
                    "run", name=name, run="r", cuts=[most], cleanly=chance.random() < 0.3
                )
                done += ran["cuts"]
                if ran["ok"] and ran["finished"] is not None:
                    break
            assert without_job(await browser.do("state", name=name)) == expected[agent], (
                trial,
                agent,
            )
        assert await jobs_of(client) == trial + 2


async def test_a_fetch_that_sends_the_last_id_continues_one_run_exactly(browser: Browser) -> None:
    """The stock client with a ``fetch`` that mends cuts: its run does not notice them."""
    chance = random.Random(7)
    async with serving() as (server, client):
        expected = {each: await uncut(browser, server, each) for each in ("baker", "writer")}
        done = trial = 0
        while done < CUTS:
            trial += 1
            agent = chance.choice(["baker", "writer"])
            name = f"front {trial}"
            await front_end(browser, str(server.make_url(agent)), name, f"thread {trial}")
            cuts = [2000, *(int(chance.expovariate(1 / 3000)) + 200 for _ in range(10))]
            ran = await browser.do(
                "run", name=name, run="r", cuts=cuts, resuming=True, cleanly=trial % 3 == 0
            )
            assert ran["ok"], ran
            done += ran["cuts"]
            assert without_job(await browser.do("state", name=name)) == expected[agent]
        assert await jobs_of(client) == trial + 2


async def test_questions_are_interrupts_and_each_is_answered_once(browser: Browser) -> None:
    async with serving() as (server, client):
        await front_end(browser, str(server.make_url("asker")), "a", "t")
        ran = await browser.do("run", name="a", run="r1")
        assert ran["ok"], ran
        [asked] = ran["finished"]["outcome"]["interrupts"]
        assert asked["message"] == "Deploy?"
        assert asked["reason"] == "input_required"
        assert asked["responseSchema"] == {"enum": ["yes", "no"]}
        assert [each["value"] for each in asked["metadata"]["arcp"]["options"]] == ["yes", "no"]
        answers = {asked["id"]: {"status": "resolved", "payload": "yes"}}
        ran = await browser.do("run", name="a", run="r2", answers=answers)
        assert ran["ok"], ran
        [asked] = ran["finished"]["outcome"]["interrupts"]
        assert asked["message"] == "How many?"
        # An answer that does not fit is not taken: the question is asked again.
        answers = {asked["id"]: {"status": "resolved", "payload": "many"}}
        ran = await browser.do("run", name="a", run="r3", answers=answers, whole=True)
        assert ran["ok"], ran
        [refused] = [each["value"] for each in ran["events"] if each["type"] == "CUSTOM"]
        assert refused["code"] == "INVALID_ANSWER"
        [asked] = ran["finished"]["outcome"]["interrupts"]
        answers = {asked["id"]: {"status": "resolved", "payload": 3}}
        ran = await browser.do("run", name="a", run="r4", answers=answers)
        assert ran["ok"], ran
        assert ran["result"] == {"first": "yes", "second": 3}
        said = await browser.do("state", name="a")
        calls = [each for each in said["messages"] if each.get("toolCalls")]
        results = [each for each in said["messages"] if each["role"] == "tool"]
        assert [each["toolCalls"][0]["id"] for each in calls] == [results[0]["toolCallId"]]
        assert said["state"]["status"] == "success"
        assert await jobs_of(client) == 1


async def test_a_later_answer_is_told_whose_was_first(browser: Browser) -> None:
    async with serving() as (server, client):
        await front_end(browser, str(server.make_url("asker")), "a", "t")
        ran = await browser.do("run", name="a", run="r1")
        [asked] = ran["finished"]["outcome"]["interrupts"]
        known = asked["metadata"]["arcp"]
        await client.answer(known["job_id"], known["question_id"], "no")
        answers = {asked["id"]: {"status": "resolved", "payload": "yes"}}
        ran = await browser.do("run", name="a", run="r2", answers=answers, whole=True)
        assert ran["ok"], ran
        [refused] = [e["value"] for e in ran["events"] if e.get("name") == "arcp.answer_refused"]
        assert refused["code"] == "QUESTION_ANSWERED"
        assert refused["value"] == "no"
        assert refused["interruptId"] == asked["id"]
        assert ran["finished"]["outcome"]["interrupts"][0]["message"] == "How many?"


async def test_cut_at_questions_it_has_what_an_uncut_conversation_has(browser: Browser) -> None:
    chance = random.Random(3)

    async def talk(name: str, *, cut: bool) -> tuple[Any, Any]:
        await front_end(browser, str(server.make_url("asker")), name, name)
        answers: dict[str, Any] | None = None
        for run, payload in enumerate(("yes", 3, None)):
            for attempt in range(50):
                most = int(chance.expovariate(1 / 900)) + 1 if cut and attempt < 4 else None
                ran = await browser.do(
                    "run", name=name, run=f"r{run}", cuts=[most],
                    **({} if answers is None else {"answers": answers}),
                )  # fmt: skip
                counted[0] += ran["cuts"]
                if ran["ok"] and ran["finished"] is not None:
                    break
            if payload is not None:
                [asked] = ran["finished"]["outcome"]["interrupts"]
                answers = {asked["id"]: {"status": "resolved", "payload": payload}}
        return without_job(await browser.do("state", name=name))

    counted = [0]
    async with serving() as (server, client):
        expected = await talk("uncut", cut=False)
        assert expected[1]["status"] == "success"
        trial = 0
        while counted[0] < CUTS // 3:
            trial += 1
            assert await talk(f"cut {trial}", cut=True) == expected
        assert await jobs_of(client) == trial + 1


async def test_another_process_continues_the_run(browser: Browser, tmp_path: Path) -> None:
    """A web server that is begun again attaches to the job by its idempotency key."""
    async with Runtime(event_log=SqliteEventLog(tmp_path / "log.db")) as runtime:
        agents(runtime)
        async with Client(runtime) as client, served(client) as server:
            expected = await uncut(browser, server, "baker")
            url = str(server.make_url("baker"))
            await front_end(browser, url, "a", "t")
            ran = await browser.do("run", name="a", run="r", cuts=[5000])
            assert ran["finished"] is None, ran
            before = await browser.do("state", name="a")
            asked_url = str(server.make_url("asker"))
            await front_end(browser, asked_url, "b", "t")
            ran = await browser.do("run", name="b", run="r1")
            [asked] = ran["finished"]["outcome"]["interrupts"]
        async with Client(runtime) as client, served(client) as server:
            url = str(server.make_url("baker"))
            await browser.do("agent", name="a2", url=url, thread="t", messages=before["messages"])
            ran = await browser.do("run", name="a2", run="r")
            assert ran["ok"], ran
            assert without_job(await browser.do("state", name="a2")) == expected
            body = {
                "threadId": "t", "runId": "r2", "messages": [],
                "resume": [{"interruptId": asked["id"], "status": "resolved", "payload": "yes"}],
            }  # fmt: skip
            async with (
                aiohttp.ClientSession() as http,
                http.post(server.make_url("asker"), json=body) as response,
            ):
                assert response.status == 200
                assert "How many?" in await response.text()
            assert await jobs_of(client) == 3
