"""Editors that are killed at random bytes of a turn: the next one shows what an uncut one shows.

Six kills of each editor by default; 500 with ``ARCP_SLOW=1``.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from typing import Any

import pytest

from arcp_client import Runtime
from arcp_client.acp import host
from tests.interop.acp.killed import Editor, Process, Scripted, Updates, process
from tests.unit.acp.kit import chunk, notification
from tests.unit.acp.serving.kit import Talker, Talkers

KILLS = 500 if os.environ.get("ARCP_SLOW") == "1" else 6
AT_ONCE = 4
WORDS = "go"
PROMPT = {"sessionUpdate": "user_message_chunk", "content": {"type": "text", "text": WORDS}}
OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


class Hosted:
    """An agent whose turn has texts, a plan, a tool call and a question; counts what it did."""

    def __init__(self) -> None:
        self.prompts = 0
        self.answers: list[str] = []
        self.agents = Talkers(self._turn)
        self.runtime = Runtime()
        self.runtime.agent("acp")(host(self.agents, cwd="/"))

    async def _turn(self, agent: Talker, words: str) -> str:
        self.prompts += 1
        call = {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "Run", "kind": "execute"}
        change = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
        thought = {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "?"}}
        for number in range(10):
            await agent.send(chunk(f"{number} "))
            await asyncio.sleep(0.001)  # the turn takes a while
        await agent.send(notification(thought), notification({**call, "status": "pending"}))
        asking = agent.request(
            "session/request_permission",
            sessionId="s1",
            toolCall={"toolCallId": "t", "title": "Run"},
            options=OPTIONS,
        )
        await agent.send(asking)
        outcome = (await agent.reply_to(asking))["result"]["outcome"]
        self.answers.append(outcome["optionId"])
        await agent.send(notification({**change, "rawOutput": outcome["optionId"]}))
        for number in range(10):
            await agent.send(chunk(f"{number} "))
            await asyncio.sleep(0.001)
        return "end_turn"

    async def close(self) -> None:
        await self.runtime.close()
        for task in self.agents.tasks:
            task.cancel()
        await asyncio.gather(*self.agents.tasks, return_exceptions=True)


async def whole(kind: Any) -> tuple[Updates, int]:
    """What an editor shows that is never killed, and the bytes that its turn takes."""
    hosted = Hosted()
    async with process(hosted.runtime, "acp") as it:
        editor: Editor = kind(it, lambda: "yes")
        await editor.start()
        session = await editor.new()
        it.left = 10**9
        assert await editor.prompt(session, WORDS) == "end_turn"
        size = 10**9 - it.left
        await editor.close()
    await hosted.close()
    return [PROMPT, *editor.shown], size


async def cut(kind: Any, uncut: Updates, size: int, seed: int) -> Counter[str]:
    """Kill the first editor within its turn; the second one ends it, a third one looks at it."""
    rng, hosted, counts = random.Random(seed), Hosted(), Counter[str]()
    told = rng.random() < 0.7  # whether the first editor answers the question

    async def first(it: Process) -> str:
        editor: Editor = kind(it, lambda: "yes" if told else None)
        await editor.start()
        session = await editor.new()
        it.kill_after(rng.randrange(1, size))
        prompting = asyncio.ensure_future(editor.prompt(session, WORDS))
        dead = asyncio.ensure_future(it.dead.wait())
        waiting = asyncio.ensure_future(asyncio.sleep(0.5))  # without an answer nothing more comes
        await asyncio.wait({prompting, dead, waiting}, return_when=asyncio.FIRST_COMPLETED)
        counts["cut"] += 1
        for task in (prompting, dead, waiting):
            task.cancel()
        await asyncio.gather(prompting, dead, waiting, return_exceptions=True)
        await editor.close()
        return session

    def again() -> str:
        counts["asked after the answer was taken"] += bool(hosted.answers)
        return "yes"

    async with process(hosted.runtime, "acp") as it:
        session = await first(it)
    async with process(hosted.runtime, "acp") as it:
        second: Editor = kind(it, again)
        await second.start()
        await second.load(session)
        if PROMPT not in second.shown:
            second.shown.append(PROMPT)
        assert await second.prompt(session, WORDS) == "end_turn"
        await second.close()
    async with process(hosted.runtime, "acp") as it:
        third: Editor = kind(it, again)
        await third.start()
        await third.load(session)
        await third.close()
    await hosted.close()
    counts["shows something else"] += second.shown != uncut or third.shown != uncut
    counts["prompts run twice"] += hosted.prompts != 1
    counts["questions answered twice"] += hosted.answers != ["yes"]
    return counts


@pytest.mark.timeout(3600)
def editor_of(name: str) -> Any:
    """The class of an editor."""
    if name == "scripted":
        return Scripted
    from tests.interop.acp.official_editor import Official  # its imports take a second

    return Official


@pytest.mark.parametrize("name", ["scripted", "official"])
async def test_after_a_kill_at_any_byte_of_a_turn_the_next_editor_shows_the_same(name: str) -> None:
    kind = editor_of(name)
    uncut, size = await whole(kind)
    assert len(uncut) > 20
    total = Counter[str]()
    for start in range(0, KILLS, AT_ONCE):
        seeds = range(start, min(start + AT_ONCE, KILLS))
        for counts in await asyncio.gather(*(cut(kind, uncut, size, seed) for seed in seeds)):
            total += counts
    assert total == {"cut": KILLS}
