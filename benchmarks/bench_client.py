"""The whole client against loops over aiohttp and the Python reference client; prints JSON.

Every way takes in the same prepared events over a real WebSocket from another process, and is a
process of its own. CPU time is far less noisy than the wall clock.

    python benchmarks/bench_client.py [--rounds 9] [--events 50000] [--only TEXT] [--write]

``--write`` keeps the result in results.json.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

from consume import WAYS
from rounds import (
    HERE,
    answer,
    footer,
    frames_server,
    interleaved,
    machine,
    quartiles,
    report,
    spread,
    table,
)

BASES = {
    "typed": "aiohttp + msgspec",
    "json": "aiohttp + json.loads",
    "reference": "reference client",
}
ALWAYS = [BASES["typed"], BASES["json"]]


def summary(way: str, rounds: list[dict[str, dict[str, Any]]]) -> dict[str, Any]:
    runs = [round_[way] for round_ in rounds]

    def ratios(base: str) -> dict[str, dict[str, float]]:
        """Above 1 is better than the base."""
        pairs = [(run, round_[base]) for run, round_ in zip(runs, rounds, strict=True)]
        return {
            "events_per_second": quartiles(
                r["events_per_second"] / b["events_per_second"] for r, b in pairs
            ),
            "cpu": quartiles(b["cpu_us_per_event"] / r["cpu_us_per_event"] for r, b in pairs),
        }

    return {
        "way": way,
        "events_per_second": quartiles(run["events_per_second"] for run in runs),
        "cpu_us_per_event": quartiles(run["cpu_us_per_event"] for run in runs),
        "peak_mib": round(max(run["peak_mib"] for run in runs), 1),
        "ratios": {name: ratios(base) for name, base in BASES.items() if base in rounds[0]},
    }


def shown(result: dict[str, Any]) -> str:
    """Ratios by CPU time: of one round, they hold on a busy machine too."""
    bases = [name for name in BASES if name in result["ways"][0]["ratios"]]
    rows = [
        [
            row["way"],
            *(spread(row["ratios"][base]["cpu"]) for base in bases),
            f"{row['peak_mib']:.0f}",
        ]
        for row in result["ways"]
    ]
    head = ("by CPU time", *(f"× {BASES[base]}" for base in bases), "peak MiB")
    return table(head, rows) + footer(result, f" of {result['events']:,} events")


def sentence(result: dict[str, Any]) -> str:
    """For the README."""
    [mine] = [row for row in result["ways"] if row["way"] == "arcp-client, on"]
    times = {base: mine["ratios"][base]["cpu"]["median"] for base in BASES}
    return (
        "For one event in an `async` handler, arcp-client needs"
        f" {1 / times['reference']:.2f} times the CPU time of the reference\nclient's iterator,"
        f" {1 / times['json']:.2f} times the time of a handwritten aiohttp loop with"
        f" `json.loads`, and\n{1 / times['typed']:.2f} times the time of a loop that decodes with"
        " msgspec and awaits a handler. The two loops do not\nresume, acknowledge or queue"
        " events for several handlers. The numbers are medians of"
        f" {result['rounds']} rounds;\nin each round, every client reads the same"
        f" {result['events']:,} events."
    )


def measured(rounds: int, events: int = 50_000, only: str = "") -> dict[str, Any]:
    ways = [way for way in WAYS if only in way or way in ALWAYS]
    with frames_server() as port:
        found = interleaved(
            ways, rounds, lambda way: answer(HERE / "consume.py", way, port, events)
        )
    return {
        **machine(),
        "rounds": rounds,
        "events": events,
        "ways": [summary(way, found) for way in ways],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=50_000)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--only", default="", help="only ways whose name holds this, and the bases")
    options = parser.parse_args()
    result = measured(options.rounds, options.events, options.only)
    report("client", result, write=options.write)
    print(shown(result), file=sys.stderr)


if __name__ == "__main__":
    main()
