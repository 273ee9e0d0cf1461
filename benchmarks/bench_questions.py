"""Milliseconds from `job.ask` to the handler of a person, and those of another event; prints JSON.

An agent asks questions and emits log entries and tool calls, in random order and after equal
pauses, each with a stamp, over a WebSocket to a client in another process, whose handlers note the
time. The handler of a question answers it. A log entry is a small event; the arguments of a tool
call have the fields of a question, so that its frame is as large. ``ratio`` is the median time of a
question by that of a log entry of the same run, and ``ratio_same_size`` by that of a tool call;
``ratio_p99`` compares the 99th percentiles of a question and a tool call.

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
KINDS = ("log", "call", "question")
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


def stamp() -> str:
    return str(time.perf_counter_ns())


def since(text: str) -> float:
    return (time.perf_counter_ns() - int(text)) / 1e6


async def serve(path: str) -> None:
    from arcp_client import Runtime, SqliteEventLog

    runtime = Runtime(event_log=SqliteEventLog(path) if path else None)

    @runtime.agent("asks")
    async def asks(input: Any, job: Any) -> None:
        kinds = [*KINDS] * input["n"]
        random.Random(0).shuffle(kinds)
        for kind in kinds:
            await asyncio.sleep(_PAUSE)
            match kind:
                case "log":
                    await job.log(stamp())
                case "call":
                    await job.tool_call(stamp(), _FIELDS, "call")
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
            took: dict[str, list[float]] = {kind: [] for kind in KINDS}
            async with Client(url) as client:

                @client.on(events.Log)
                async def note(event: events.Log) -> None:
                    took["log"].append(since(event.message))

                @client.on(events.ToolCall)
                async def call(event: events.ToolCall) -> None:
                    took["call"].append(since(event.tool))

                @client.on(events.Question)
                async def reply(event: events.Question) -> None:
                    took["question"].append(since(event.text))
                    assert event.job_id
                    await client.answer(event.job_id, event.question_id, "yes")

                await (await client.submit("asks", {"n": count + _WARM})).result()
        finally:
            child.kill()
            await child.wait()
    event, call_, question = (statistics.median(took[kind][_WARM:]) for kind in KINDS)
    _, slow_call, slow_question = (
        statistics.quantiles(took[kind][_WARM:], n=100)[-1] for kind in KINDS
    )
    return {
        "event_ms": event,
        "same_size_ms": call_,
        "question_ms": question,
        "ratio": question / event,
        "ratio_same_size": question / call_,
        "ratio_p99": slow_question / slow_call,
    }


def measured(rounds: int, count: int) -> dict[str, Any]:
    script = HERE / "bench_questions.py", "--run"
    found = interleaved(WAYS, rounds, lambda way: answer(*script, way, count))
    rows = [
        {"way": way, **{key: quartiles(round_[way][key] for round_ in found) for key in KEYS}}
        for way in WAYS
    ]
    return {**machine(), "rounds": rounds, "questions": count, "rows": rows}


KEYS = ("event_ms", "same_size_ms", "question_ms", "ratio", "ratio_same_size", "ratio_p99")


def shown(result: dict[str, Any]) -> str:
    """The table of the documentation."""
    rows = [
        [
            row["way"],
            *(f"{row[key]['median']:.2f}" for key in KEYS[:3]),
            spread(row["ratio"]),
            spread(row["ratio_same_size"]),
            spread(row["ratio_p99"]),
        ]
        for row in result["rows"]
    ]
    head = (
        "event log",
        "event, p50 ms",
        "event of the same size, p50 ms",
        "question, p50 ms",
        "question × event",
        "question × event of the same size",
        "p99 × p99 of the same size",
    )
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
