"""The whole client against aiohttp, typed by hand, and the Python reference client; prints JSON.

Every way takes in the same prepared events over a real WebSocket from another process, and is a
process of its own. Rounds are interleaved, so that a busy moment of the machine falls on all alike;
what counts are the ratios within a round. CPU time is far less noisy than the wall clock.

    python benchmarks/bench_client.py [--rounds 9] [--events 50000] [--write] [--only TEXT]

``--write`` puts the table into docs/explanation/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "explanation" / "performance.md"
BEGIN, END = "<!-- client:begin -->", "<!-- client:end -->"
BASES = {"typed": "aiohttp, typed by hand", "json": "aiohttp + json.loads"}
LIMIT = 120  # seconds for one way of one round


def consumed(way: str, port: str, events: int) -> dict[str, Any]:
    command = [sys.executable, str(HERE / "consume.py"), way, port, str(events)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    if done.returncode:
        raise SystemExit(f"{way} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def quartiles(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"lower": values[0], "median": values[0], "upper": values[0]}
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return {"lower": lower, "median": median, "upper": upper}


def summary(way: str, rounds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    runs = [round_[way] for round_ in rounds]

    def ratios(base: str) -> dict[str, dict[str, float]]:
        """Above 1 is better than the base."""
        pairs = [(run, round_[base]) for run, round_ in zip(runs, rounds, strict=True)]
        return {
            "events_per_second": quartiles(
                [r["events_per_second"] / b["events_per_second"] for r, b in pairs]
            ),
            "cpu": quartiles([b["cpu_us_per_event"] / r["cpu_us_per_event"] for r, b in pairs]),
        }

    return {
        "way": way,
        "events_per_second": quartiles([run["events_per_second"] for run in runs]),
        "cpu_us_per_event": quartiles([run["cpu_us_per_event"] for run in runs]),
        "peak_mib": max(run["peak_mib"] for run in runs),
        "ratios": {name: ratios(base) for name, base in BASES.items()},
    }


def table(result: dict[str, Any]) -> str:
    lines = [
        "| | events/s | CPU µs/event | × typed by hand, by CPU time | × json.loads | peak MiB |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for row in result["ways"]:
        typed, loaded = row["ratios"]["typed"]["cpu"], row["ratios"]["json"]["cpu"]
        lines.append(
            f"| {row['way']} | {row['events_per_second']['median']:,.0f}"
            f" | {row['cpu_us_per_event']['median']:.2f}"
            f" | {typed['median']:.2f} ({typed['lower']:.2f}–{typed['upper']:.2f})"
            f" | {loaded['median']:.2f} | {row['peak_mib']:.0f} |"
        )
    where = f"{result['python']}, {result['cores']} cores, {result['machine']}"
    return "\n".join(
        [
            *lines,
            "",
            f"Medians of {result['rounds']} rounds of {result['events']:,} events; {where}.",
        ]
    )


def write(result: dict[str, Any]) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(result)}\n{END}{after}")


def main() -> None:
    from consume import WAYS

    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="only ways whose name holds this, and the bases")
    options = parser.parse_args()
    ways = [way for way in WAYS if options.only in way or way in BASES.values()]
    server = subprocess.Popen(
        [sys.executable, str(HERE / "frames_server.py")], stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        port = server.stdout.readline().strip()
        rounds = []
        for number in range(options.rounds):
            turn = ways[number % len(ways) :] + ways[: number % len(ways)]
            rounds.append({way: consumed(way, port, options.events) for way in turn})
    finally:
        server.terminate()
        server.wait()
    result = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "rounds": options.rounds,
        "events": options.events,
        "ways": [summary(way, rounds) for way in ways],
    }
    print(json.dumps(result, indent=2))
    print(table(result), file=sys.stderr)
    if options.write:
        write(result)


if __name__ == "__main__":
    main()
