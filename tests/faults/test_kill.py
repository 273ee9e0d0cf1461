"""``kill -9`` of a client at random moments: over all its lives nothing is lost or out of order.

Repeats are few, and each is marked. Six kills over 2,000 events by default; fifty over 5,000 with
``ARCP_SLOW=1``.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from arcp_client import JobContext, Runtime

pytestmark = pytest.mark.usefixtures("forked")

TOTAL = 5000 if "ARCP_SLOW" in os.environ else 2000
CHILD = Path(__file__).with_name("durable_child.py")
ENDED = Path(__file__).with_name("ended_child.py")

PATIENT = pytest.mark.skipif("ARCP_SLOW" not in os.environ, reason="set ARCP_SLOW=1")

Life = list[tuple[int, bool]]


async def live_once(arguments: list[str], kill_after: int | None) -> tuple[Life, bool]:
    """One process: what it handled, and whether it came to the end."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(CHILD), *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    handled: Life = []
    ended = False
    try:
        async for line in child.stdout:
            number, marked = line.split()
            if number == b"end":
                ended = True
                continue
            assert number != b"gap", "the runtime had kept everything"
            handled.append((int(number), marked == b"1"))
            if len(handled) == kill_after:
                child.kill()  # what is in the pipe already is still read
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
    return handled, ended


async def lives_until_the_end(tmp_path: Path, every: int, kills: int, seed: int) -> list[Life]:
    rng = random.Random(seed)
    lives: list[Life] = []
    async with Runtime(name="kill") as runtime:

        @runtime.agent("emit")
        async def emit(input: Any, job: JobContext) -> int:
            for n in range(input):
                await job.progress(n)
            return input

        async with runtime.serve() as server:
            arguments = [server.url, str(tmp_path / "kept.db"), str(every), str(TOTAL)]
            for life in range(kills + 1):
                # Now and then before the first event, or with the connection hardly made.
                after = rng.randint(1, 2 * TOTAL // (kills + 1)) if life < kills else None
                handled, ended = await live_once(arguments, after)
                lives.append(handled)
                if ended:
                    break
    assert ended
    return lives


def check(lives: list[Life], every: int) -> tuple[int, int]:
    """Every event at least once and in order; gives repeats, and first ones that were marked."""
    done: set[int] = set()
    repeats = false_marks = 0
    for handled in lives:
        numbers = [n for n, _ in handled]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers))) if numbers else True
        again = [n for n in numbers if n in done]
        marked = {n for n, mark in handled if mark}
        assert set(again) <= marked, f"repeats without a mark: {set(again) - marked}"
        assert len(again) <= every
        assert len(marked - done) <= every
        repeats += len(again)
        false_marks += len(marked - done)
        done |= set(numbers)
    assert done == set(range(TOTAL))
    return repeats, false_marks


@pytest.mark.parametrize("every", [1, 64])
@pytest.mark.parametrize(
    "kills",
    [
        pytest.param(6, marks=pytest.mark.timeout(240)),
        pytest.param(50, marks=[pytest.mark.slow, PATIENT, pytest.mark.timeout(300)]),
    ],
)
async def test_a_killed_client_loses_nothing_and_repeats_little(
    tmp_path: Path, every: int, kills: int, record_property: Any
) -> None:
    lives = await lives_until_the_end(tmp_path, every, kills, seed=every * 1000 + kills)
    repeats, false_marks = check(lives, every)
    assert len(lives) > kills // 2
    record_property("repeats", repeats)
    print(f"every={every}: {len(lives)} lives, {repeats} repeats, {false_marks} marked in vain")


async def told_until_killed(*arguments: str, last: list[Any]) -> list[list[Any]]:
    """What a child says, up to the line after which it is killed."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(ENDED), *arguments, stdout=asyncio.subprocess.PIPE
    )
    assert child.stdout is not None
    said: list[list[Any]] = []
    try:
        async for line in child.stdout:
            said.append(json.loads(line))
            if said[-1][: len(last)] == last:
                return said
    finally:
        if child.returncode is None:
            child.kill()
        await child.wait()
    raise AssertionError(f"it ended by itself: {said}")


@pytest.mark.parametrize(
    ("agent", "outcome"),
    [
        ("inline", ["result", {"answer": 42}]),
        ("streamed", ["result", "".join(f"{n}," for n in range(50))]),
        ("failing", ["error", "JobFailed", "INTERNAL_ERROR: the agent failed"]),
    ],
)
async def test_the_outcome_of_a_job_outlives_a_kill_after_its_end_was_handled(
    tmp_path: Path, agent: str, outcome: list[Any]
) -> None:
    """S10: the same key gives the same outcome, in each later life; the job runs once."""
    starts = 0
    async with Runtime(name="kill") as runtime:

        @runtime.agent("inline")
        async def inline(input: Any, job: JobContext) -> Any:
            nonlocal starts
            starts += 1
            return {"answer": 42}

        @runtime.agent("streamed")
        async def streamed(input: Any, job: JobContext) -> AsyncIterator[str]:
            nonlocal starts
            starts += 1

            async def pieces() -> AsyncIterator[str]:
                for n in range(50):
                    yield f"{n},"

            return pieces()

        @runtime.agent("failing")
        async def failing(input: Any, job: JobContext) -> Any:
            nonlocal starts
            starts += 1
            raise RuntimeError("out of luck")

        async with runtime.serve() as server:
            place = (server.url, str(tmp_path / "kept.db"), agent)
            await told_until_killed(*place, "first", last=["saved", 0, 1])
            for life in ("second", "third"):
                said = await told_until_killed(*place, life, last=outcome[:1])
                assert said[0] == ["open", 0]
                assert said[-1] == outcome
    assert starts == 1
