"""Milliseconds from `job.ask` to the handler of a person, and those of other events; prints JSON.

An agent asks questions and emits events of other kinds, in random order and after equal pauses,
each with a stamp, over a WebSocket to a client in another process, whose handlers note the time.
The handler of a question answers it. The other events:

- ``log``: a log entry, which is small;
- ``call``: a tool call, whose arguments have the fields of a question, so that its frame is as
  large;
- ``cost``: a cost that is charged to the job's budget, with the same fields;
- ``tool``: a tool call under the job's lease (`JobContext.tool`), with the same fields.

The ratios compare the mean and the 99th percentile of a question with those of the other kind in
the same run. (With a log in a file, an event waits for the end of a batch and then for its own, so
its times have two peaks, and the median jumps between them.)

    python benchmarks/bench_questions.py [--rounds 9] [--questions 500] [--write]

``--write`` keeps the result in results.json.
"""

import argparse
import asyncio
import json
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rounds import HERE, answer, footer, interleaved, machine, quartiles, report, spread, table

WAYS = ("memory", "sqlite")
NAMES = {
    "log": "log entry",
    "call": "tool call",
    "cost": "cost of a budget",
    "tool": "tool call under a lease",
    "question": "question",
}
_WARM = 20
_PAUSE = 0.002  # seconds; longer than the client needs for the event before
_FIELDS = {  # those of a question
    "question_id": "q_01KB8Q6T9V3E5W7X2Y4Z6A8B0C",
    "schema": {"enum": ["yes", "no"]},
    "to": [],
    "expires_at": "2026-12-01T12:00:00.000Z",
    "has_default": False,
    "lease_paused": False,
    "options": [{"value": "yes"}, {"value": "no"}],
}
_LEASE = {"cost.budget": ["USD:1000"], "tool.call": ["*"]}


def stamp() -> str:
    return str(time.perf_counter_ns())


def since(text: str) -> float:
    return (time.perf_counter_ns() - int(text)) / 1e6


async def serve(path: str) -> None:
    from arcp_client import Runtime, SqliteEventLog

    runtime = Runtime(event_log=SqliteEventLog(path) if path else None)

    @runtime.agent("asks")
    async def asks(input: Any, job: Any) -> None:
        kinds = [*NAMES] * input["n"]
        random.Random(0).shuffle(kinds)
        for kind in kinds:
            await asyncio.sleep(_PAUSE)
            match kind:
                case "log":
                    await job.log(stamp())
                case "call":
                    await job.tool_call(f"call {stamp()}", _FIELDS, "call")
                case "cost":
                    await job.metric("cost.tokens", 0.001, "USD", {"at": stamp(), **_FIELDS})
                case "tool":
                    async with job.tool(f"tool {stamp()}", _FIELDS):
                        pass
                case _:
                    await job.ask(stamp(), options=["yes", "no"])

    async with runtime, runtime.serve() as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


async def one(way: str, count: int) -> dict[str, float]:
    from arcp_client import Client, events

    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "log.db") if way == "sqlite" else ""
        child = await asyncio.create_subprocess_exec(
            sys.executable, __file__, "--serve", path, stdout=asyncio.subprocess.PIPE
        )
        assert child.stdout is not None
        url = (await child.stdout.readline()).decode().strip()
        try:
            took: dict[str, list[float]] = {kind: [] for kind in NAMES}
            async with Client(url) as client:

                @client.on(events.Log)
                async def note(event: events.Log) -> None:
                    took["log"].append(since(event.message))

                @client.on(events.ToolCall)
                async def call(event: events.ToolCall) -> None:
                    kind, _, text = event.tool.partition(" ")
                    took[kind].append(since(text))

                @client.on(events.Metric)
                async def cost(event: events.Metric) -> None:
                    if event.name == "cost.tokens":
                        assert event.dimensions
                        took["cost"].append(since(event.dimensions["at"]))

                @client.on(events.Question)
                async def reply(event: events.Question) -> None:
                    took["question"].append(since(event.text))
                    assert event.job_id
                    await client.answer(event.job_id, event.question_id, "yes")

                job = await client.submit("asks", {"n": count + _WARM}, lease=_LEASE)
                await job.result()
        finally:
            child.kill()
            await child.wait()
    found = {}
    for kind, all_ in took.items():
        assert len(all_) == count + _WARM, f"{kind}: {len(all_)} events"
        found[f"{kind}_mean"] = statistics.fmean(all_[_WARM:])
        found[f"{kind}_p99"] = statistics.quantiles(all_[_WARM:], n=100)[-1]
    return found


def measured(rounds: int, count: int) -> dict[str, Any]:
    script = HERE / "bench_questions.py", "--run"
    found = interleaved(WAYS, rounds, lambda way: answer(*script, way, count))
    rows = [
        {
            "way": way,
            "kind": kind,
            "mean_ms": quartiles(round_[way][f"{kind}_mean"] for round_ in found),
            **{
                f"{p}_ratio": quartiles(
                    round_[way][f"question_{p}"] / round_[way][f"{kind}_{p}"] for round_ in found
                )
                for p in ("mean", "p99")
            },
        }
        for way in WAYS
        for kind in NAMES
    ]
    return {**machine(), "rounds": rounds, "questions": count, "rows": rows}


def shown(result: dict[str, Any]) -> str:
    """The table of the documentation."""
    rows = [
        [
            row["way"],
            NAMES[row["kind"]],
            f"{row['mean_ms']['median']:.2f}",
            spread(row["mean_ratio"]),
            spread(row["p99_ratio"]),
        ]
        for row in result["rows"]
    ]
    head = ("event log", "event", "mean, ms", "a question × it, mean", "a question × it, p99")
    return table(head, rows) + footer(result, f" of {result['questions']:,} questions")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--questions", type=int, default=500)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    result = measured(options.rounds, options.questions)
    report("questions", result, write=options.write)
    print(shown(result), file=sys.stderr)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--serve"]:
        asyncio.run(serve(sys.argv[2]))
    elif sys.argv[1:2] == ["--run"]:
        print(json.dumps(asyncio.run(one(sys.argv[2], int(sys.argv[3])))))
    else:
        main()
