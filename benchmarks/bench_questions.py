"""Milliseconds from `job.ask` to the handler of a person, and those of another event; prints JSON.

An agent emits a log entry and asks a question in turn, each with a stamp, over a WebSocket to a
client in another process, whose handlers note the time. The handler of the question answers it.
``ratio`` is the median time of a question by the median time of an event of the same run.

    python benchmarks/bench_questions.py [--rounds 9] [--questions 500] [--write]

``--write`` keeps the result in results.json.
"""

import argparse
import asyncio
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rounds import HERE, answer, footer, interleaved, machine, quartiles, report, spread, table

WAYS = ("memory", "sqlite")
_WARM = 20


def stamp() -> str:
    return str(time.perf_counter_ns())


def since(text: str) -> float:
    return (time.perf_counter_ns() - int(text)) / 1e6


async def serve(path: str) -> None:
    from arcp_client import Runtime, SqliteEventLog

    runtime = Runtime(event_log=SqliteEventLog(path) if path else None)

    @runtime.agent("asks")
    async def asks(input: Any, job: Any) -> None:
        for _ in range(input["n"]):
            await job.log(stamp())
            await asyncio.sleep(0.001)
            await job.ask(stamp(), options=["yes", "no"])
            await asyncio.sleep(0.001)

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
            logs: list[float] = []
            questions: list[float] = []
            async with Client(url) as client:

                @client.on(events.Log)
                async def note(event: events.Log) -> None:
                    logs.append(since(event.message))

                @client.on(events.Question)
                async def reply(event: events.Question) -> None:
                    questions.append(since(event.text))
                    assert event.job_id
                    await client.answer(event.job_id, event.question_id, "yes")

                await (await client.submit("asks", {"n": count + _WARM})).result()
        finally:
            child.kill()
            await child.wait()
    event, question = statistics.median(logs[_WARM:]), statistics.median(questions[_WARM:])
    return {"event_ms": event, "question_ms": question, "ratio": question / event}


def measured(rounds: int, count: int) -> dict[str, Any]:
    script = HERE / "bench_questions.py", "--run"
    found = interleaved(WAYS, rounds, lambda way: answer(*script, way, count))
    rows = [
        {"way": way, **{key: quartiles(round_[way][key] for round_ in found) for key in KEYS}}
        for way in WAYS
    ]
    return {**machine(), "rounds": rounds, "questions": count, "rows": rows}


KEYS = ("event_ms", "question_ms", "ratio")


def shown(result: dict[str, Any]) -> str:
    """The table of the documentation."""
    rows = [
        [
            row["way"],
            f"{row['event_ms']['median']:.2f}",
            f"{row['question_ms']['median']:.2f}",
            spread(row["ratio"]),
        ]
        for row in result["rows"]
    ]
    head = ("event log", "event, p50 ms", "question, p50 ms", "question × event")
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
