"""Questions while processes are killed: each has one winner, and its agent goes on with it once.

The runtime is a process with its log in a file; ``kill -9`` ends it again and again. Devices
answer at the same time, and are dropped and replaced. 60 questions by default; 2,000 with
``ARCP_SLOW=1``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from tenacity import wait_fixed

from arcp_client import ArcpError, Client, Reconnect, Timeouts, errors
from tests.e2e.shell import free_port

pytestmark = pytest.mark.usefixtures("forked")

CHILD = Path(__file__).with_name("asking_child.py")
SLOW = "ARCP_SLOW" in os.environ
WORKS, QUESTIONS, KILLS = (200, 10, 12) if SLOW else (12, 5, 3)
DEVICES = 4


class Chaos:
    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self.paths = [str(folder / "runtime.db"), str(folder / "answers")]
        self.child: asyncio.subprocess.Process | None = None
        self.kills = 0
        self.winners: defaultdict[str, set[str]] = defaultdict(set)
        self.refused = 0
        self.rng = random.Random(17)

    async def begin(self) -> None:
        """Start the runtime. While kills are due, its jobs stop before they have ended."""
        most = QUESTIONS
        if self.kills < KILLS:
            most = min(QUESTIONS - 1, 1 + QUESTIONS * (self.kills + 1) // (KILLS + 1))
        self.child = await asyncio.create_subprocess_exec(
            *(sys.executable, str(CHILD), str(self.port), *self.paths, str(most)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self.child.stdout is not None
        assert await self.child.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        assert self.child is not None
        if self.child.returncode is None:
            self.child.kill()
        await self.child.wait()

    def client(self) -> Client:
        return Client(
            f"ws://127.0.0.1:{self.port}/arcp",
            reconnect=Reconnect(wait=wait_fixed(0.05)),
            timeouts=Timeouts(open=60, request=60),
        )

    async def device(self, number: int) -> None:
        """Answer whatever is open; now and then drop the client without a goodbye."""
        while True:
            client = self.client()
            try:
                await client.connect()
                async for now_open in client.inbox():
                    for question in now_open:
                        await self._answer(client, number, question)
                    if self.rng.random() < 0.02:
                        break
            except ArcpError:
                continue
            finally:
                await client.detach(timeout=0)

    async def _answer(self, client: Client, number: int, question: Any) -> None:
        try:
            taken = await client.answer(question.job_id, question.question_id, f"device{number}")
            self.winners[question.question_id].add(taken.value)
        except errors.QuestionAnswered as first:
            self.refused += 1
            self.winners[question.question_id].add(first.value)
        except (errors.QuestionClosed, errors.QuestionNotFound):
            pass

    async def work(self, client: Client, name: str) -> None:
        """Submit the work until it succeeds."""
        timeout = self.rng.choice([0.2, 30.0])  # some expire in the moment of an answer
        while True:
            try:
                job = await client.submit(
                    "asks", {"questions": QUESTIONS, "timeout": timeout}, work_id=name
                )
                assert (await job.result()).value == QUESTIONS
                return
            except (errors.JobFailed, errors.JobLost):
                continue  # the runtime was killed

    def written(self) -> dict[tuple[str, str], list[str]]:
        found: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
        answers = Path(self.paths[1])
        for line in answers.read_text().splitlines() if answers.exists() else ():
            work, n, answer = line.split()
            found[work, n].append(answer)
        return found


@pytest.mark.timeout(900)
async def test_each_question_has_one_winner_whatever_is_killed(tmp_path: Path) -> None:
    chaos = Chaos(tmp_path)
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(chaos.kill)
        await _run(chaos)


async def _run(chaos: Chaos) -> None:
    await chaos.begin()
    devices = [asyncio.ensure_future(chaos.device(n)) for n in range(DEVICES)]
    async with chaos.client() as client:
        works = [asyncio.ensure_future(chaos.work(client, f"w{n}")) for n in range(WORKS)]
        while not all(work.done() for work in works):
            await asyncio.wait(works, timeout=0.02)
            due = chaos.kills * WORKS * QUESTIONS // (KILLS + 1)
            if chaos.kills < KILLS and len(chaos.written()) >= due:
                await asyncio.sleep(chaos.rng.uniform(0.0, 0.1))  # any moment is right
                await chaos.kill()
                chaos.kills += 1
                await chaos.begin()
        await asyncio.gather(*works)
    for device in devices:
        device.cancel()
    await asyncio.wait(devices)
    await chaos.kill()

    written = chaos.written()
    assert len(written) == WORKS * QUESTIONS, "every question was answered or closed by its default"
    for place, answers in written.items():
        # An agent that was begun again went on with the same answers.
        assert len(set(answers)) == 1, (place, answers)
    for question, values in chaos.winners.items():
        assert len(values) == 1, (question, values)
    assert chaos.refused > 0
    assert chaos.kills == KILLS
    answered = sum(answers[0] != "nobody" for answers in written.values())
    print(
        f"{len(written)} questions, {chaos.kills} kills of the runtime, {DEVICES} devices:"
        f" {answered} answered, {len(written) - answered} closed by their default,"
        f" {chaos.refused} late answers told of the winner, 0 lost, 0 twice"
    )
