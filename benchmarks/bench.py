"""What ``make bench`` runs: measures, keeps results.json, and prints one table.

    python benchmarks/bench.py [--rounds 9] [--only client start latency idle] [--show] [--release]

``--show`` measures nothing. ``--release`` also puts the ratios into history.jsonl, which has a line
a release. Latencies need a machine without other work, or a priority: ``chrt -f 10``.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from typing import Any

import bench_client
import bench_latency
import bench_start
from rounds import HERE, answer, report, results, table

HISTORY = HERE / "history.jsonl"
PARTS = ("client", "start", "latency", "idle")
LIMIT = 1800  # seconds
# The columns, with their names in each part.
COLUMNS = {
    "arcp-client": ("arcp-client, on", bench_start.OURS, "ours", "ours"),
    "msgspec": ("aiohttp + msgspec", bench_start.TYPED, "typed", None),
    "json.loads": ("aiohttp + json.loads", bench_start.JSON, None, "aiohttp"),
    "reference client": ("reference client", bench_start.REFERENCE, "reference", "reference"),
}
IDLE = {
    "event_us": "lone event, CPU µs",
    "connect_cpu_us": "connect and close, CPU µs",
    "kib_per_client": "idle client, KiB",
    "idle_core_percent": "1,000 idle clients, % of a core",
}


def measured_idle(rounds: int) -> dict[str, Any]:
    return answer(HERE / "bench_lone.py", "--rounds", rounds, limit=LIMIT)


def measure(part: str, rounds: int) -> dict[str, Any]:
    measures = {
        "client": bench_client.measured,
        "start": bench_start.measured,
        "latency": bench_latency.measured,
        "idle": measured_idle,
    }
    return measures[part](rounds)


# ------------------------------------------------------------------------- one table


def numbers(kept: dict[str, Any]) -> list[tuple[str, int, list[float | None], bool]]:
    """Each measure: its name, its digits, a number a column, whether more is better."""
    found: list[tuple[str, int, list[float | None], bool]] = []

    def add(name: str, digits: int, values: list[float | None], *, more: bool = False) -> None:
        found.append((name, digits, values, more))

    def median(row: dict[str, Any] | None, figure: str) -> float | None:
        return None if row is None else row[figure]["median"]

    names = list(zip(*COLUMNS.values(), strict=True))
    if "client" in kept:
        by_way = {row["way"]: row for row in kept["client"]["ways"]}
        rows = [by_way[way] for way in names[0]]
        add("events/s", 0, [median(row, "events_per_second") for row in rows], more=True)
        add("CPU µs/event", 2, [median(row, "cpu_us_per_event") for row in rows])
        add("peak memory, MiB", 0, [row["peak_mib"] for row in rows])
    if "latency" in kept:
        by_way = {row["way"]: row for row in kept["latency"]["rows"]}
        for p in ("p50", "p99"):
            values = [median(by_way.get(way), f"{p}_ms") for way in names[2]]
            add(f"latency {p} at 1,000 events/s, ms", 2, values)
    if "start" in kept:
        by_way = {row["what"]: row for row in kept["start"]["rows"]}
        add("start, CPU ms", 0, [median(by_way[way], "cpu_ms") for way in names[1]])
    for figure, name in IDLE.items():
        kinds = kept.get("idle", {})
        if figure in kinds.get("ours", {}):
            values = [None if way is None else median(kinds[way], figure) for way in names[3]]
            add(name, 1 if figure == "idle_core_percent" else 0, values)
    return found


def shown(kept: dict[str, Any]) -> str:
    rows = []
    for name, digits, values, more in numbers(kept):
        mine, _, _, other = values
        assert mine is not None
        assert other is not None
        ratio = mine / other if more else other / mine
        cells = ["" if value is None else f"{value:,.{digits}f}" for value in values]
        rows.append([name, *cells, f"{ratio:.2f}"])
    return table(("", *COLUMNS, "× reference"), rows)


# ------------------------------------------------------------------------- one line a release


def line_of(kept: dict[str, Any], version: str) -> dict[str, Any]:
    """The ratios; above 1 is better than the other, by CPU time where nothing else is said."""
    ways = {row["way"]: row for row in kept["client"]["ways"]}
    ours = {name.partition(", ")[2]: row for name, row in ways.items() if "arcp-client" in name}
    starts = {row["what"]: row for row in kept["start"]["rows"]}
    latencies = {row["way"]: row for row in kept.get("latency", {}).get("rows", ())}

    def inverse(row: dict[str, Any], figure: str) -> float:
        return round(1 / row[figure]["median"], 3)

    line = {
        "version": version,
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        **{name: kept["client"][name] for name in ("python", "machine", "cores")},
        "times_typed": {
            way: round(row["ratios"]["typed"]["cpu"]["median"], 3) for way, row in ours.items()
        },
        "times_json": {
            way: round(row["ratios"]["json"]["cpu"]["median"], 3) for way, row in ours.items()
        },
        "start_times_libraries": inverse(starts[bench_start.OURS], "ratio"),
    }
    if "ours" in latencies:
        of = latencies["ours"]
        line["latency_times_reference"] = {p: inverse(of, f"{p}_ratio") for p in ("p50", "p99")}
    return line


def release(kept: dict[str, Any]) -> None:
    """Append the line of this version, or replace it."""
    from arcp_client import __version__

    lines = HISTORY.read_text().splitlines() if HISTORY.exists() else []
    others = [line for line in lines if json.loads(line)["version"] != __version__]
    HISTORY.write_text("\n".join([*others, json.dumps(line_of(kept, __version__))]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", nargs="*", choices=PARTS, default=PARTS)
    parser.add_argument("--show", action="store_true", help="measure nothing")
    parser.add_argument("--release", action="store_true", help="put the ratios into the history")
    options = parser.parse_args()
    for part in () if options.show else options.only:
        print(f"== {part}", file=sys.stderr)
        report(part, measure(part, options.rounds), write=True)
    print(shown(results()))
    if options.release:
        release(results())


if __name__ == "__main__":
    main()
