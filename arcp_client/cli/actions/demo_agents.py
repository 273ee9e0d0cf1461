"""Defines the three agents of the demo, and a ledger of the events that they emit."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from arcp_client import JobContext, Runtime

__all__ = ["AGENTS", "Ledger", "demo_runtime"]

AGENTS = ("reviewer", "indexer", "writer")

_SENTENCES = (
    "An event is numbered, logged and queued in one step.",
    "The reader never awaits user code.",
    "A handler starts when the one before it has ended.",
    "A received event is not a processed event.",
    "A lost connection is opened again, and the session continues.",
    "Nothing is dropped silently: a hole becomes a Gap event.",
)


@dataclass(slots=True)
class Ledger:
    """The emitted events and the results of the agents, by job id. The client does not see it."""

    sent: dict[str, list[str]] = field(default_factory=dict)
    returned: dict[str, object] = field(default_factory=dict)

    @property
    def total(self) -> int:
        """Number of events emitted so far, over all jobs."""
        return sum(map(len, self.sent.values()))

    def note(self, job: JobContext, mark: str) -> None:
        """Record an emitted event."""
        self.sent.setdefault(job.id, []).append(mark)

    def end(self, job: JobContext, result: object) -> None:
        """Record the agent's result, after which the runtime emits the job's end."""
        self.note(job, "end")
        self.returned[job.id] = result


def demo_runtime(rng: random.Random, *, pace: float) -> tuple[Runtime, Ledger]:
    """Make a runtime with the three agents.

    Args:
        rng: varies the duration of steps.
        pace: average duration of a step, in seconds.
    """
    runtime = Runtime(name="demo")
    ledger = Ledger()
    note = ledger.note

    async def work() -> None:
        await asyncio.sleep(pace * rng.uniform(0.4, 1.6))

    @runtime.agent("reviewer")
    async def reviewer(input: Any, job: JobContext) -> dict[str, int]:
        for n in range(1, 13):
            path = f"src/module_{n:02}.py"
            await job.log(f"reading {path}")
            note(job, f"log reading {path}")
            await work()
            call_id = await job.tool_call("lint", {"path": path})
            note(job, f"tool_call {call_id}")
            await work()
            await job.tool_result(call_id, {"warnings": n % 3})
            note(job, f"tool_result {call_id}")
            await work()
        await job.thought("no module is worse than its neighbours")
        note(job, "thought no module is worse than its neighbours")
        result = {"warnings": sum(n % 3 for n in range(1, 13))}
        ledger.end(job, result)
        return result

    @runtime.agent("indexer")
    async def indexer(input: Any, job: JobContext) -> dict[str, int]:
        rows = 0
        for n in range(1, 25):
            rows += 17 * n
            await job.progress(n, total=24, units="tables")
            note(job, f"progress {n}")
            await work()
            if n % 2 == 0:
                await job.metric("rows", rows)
                note(job, f"metric rows {rows}")
                await work()
        result = {"rows": rows}
        ledger.end(job, result)
        return result

    @runtime.agent("writer")
    async def writer(input: Any, job: JobContext) -> None:
        lines = [f"{n:02}. {_SENTENCES[n % len(_SENTENCES)]}\n" for n in range(36)]
        for n, line in enumerate(lines):
            await job.chunk(line, more=n + 1 < len(lines))
            note(job, f"chunk {n}")
            await work()
        ledger.end(job, "".join(lines))

    return runtime, ledger
