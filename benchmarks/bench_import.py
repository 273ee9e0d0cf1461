"""CPU time of importing the client and making one, beside the libraries it stands on; prints JSON.

Every statement runs in a fresh interpreter, rounds are interleaved and begin with another statement
each, and what counts are the ratios within a round. CPU time, user and system, of the whole
process: the wall clock of a busy machine says nothing about an import.

    python benchmarks/bench_import.py [--rounds 15] [--write]

``client`` should be at most 1.25 × ``libraries``, ``acp client`` at most 0.5 × ``acp, the SDK``.
``--write`` puts the table into docs/explanation/performance.md.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parent.parent / "docs" / "explanation" / "performance.md"
BEGIN, END = "<!-- import:begin -->", "<!-- import:end -->"
LIMIT = 60  # seconds for one statement

STATEMENTS = {
    "libraries": (
        "import aiohttp, aiohttp.web, pydantic, msgspec, reactivex, tenacity, ulid; "
        "from pydantic import BaseModel, TypeAdapter"
    ),
    "client": "from arcp_client import Client; Client('ws://127.0.0.1:1/x')",
    "acp, the SDK": "import acp",
    "acp client": "from arcp_client.acp import AcpClient; AcpClient(['agent'])",
    "acp names": "import arcp_client.acp",
}
BASE = {
    "libraries": "libraries",
    "client": "libraries",
    "acp, the SDK": "acp, the SDK",
    "acp client": "acp, the SDK",
    "acp names": "acp, the SDK",
}
# Where bytecode is not kept, each run would measure the compiler.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def spent(statement: str) -> float:
    """Milliseconds of CPU time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-c", statement], check=True, timeout=LIMIT, env=ENVIRONMENT, cwd="/"
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def quartiles(values: list[float]) -> dict[str, float]:
    if len(values) < 2:
        return {"lower": values[0], "median": values[0], "upper": values[0]}
    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    return {"lower": lower, "median": median, "upper": upper}


def summary(name: str, rounds: list[dict[str, float]]) -> dict[str, Any]:
    return {
        "what": name,
        "statement": STATEMENTS[name],
        "cpu_ms": quartiles([round_[name] for round_ in rounds]),
        "base": BASE[name],
        "ratio": quartiles([round_[name] / round_[BASE[name]] for round_ in rounds]),
    }


def table(result: dict[str, Any]) -> str:
    lines = ["| | CPU ms | × |", "|---|---:|---:|"]
    for row in result["rows"]:
        ratio = row["ratio"]
        lines.append(
            f"| `{row['statement']}` | {row['cpu_ms']['median']:.0f}"
            f" | {ratio['median']:.2f} ({ratio['lower']:.2f}–{ratio['upper']:.2f}) |"
        )
    where = f"{result['python']}, {result['cores']} cores, {result['machine']}"
    return "\n".join([*lines, "", f"Medians of {result['rounds']} rounds; {where}."])


def write(result: dict[str, Any]) -> None:
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(result)}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    names = list(STATEMENTS)
    for statement in STATEMENTS.values():  # once before, so that all bytecode is there
        spent(statement)
    rounds = []
    for number in range(options.rounds):
        shift = number % len(names)
        turn = names[shift:] + names[:shift]
        rounds.append({name: spent(STATEMENTS[name]) for name in turn})
    result = {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "rounds": options.rounds,
        "rows": [summary(name, rounds) for name in names],
    }
    print(json.dumps(result, indent=2))
    print(table(result), file=sys.stderr)
    if options.write:
        write(result)


if __name__ == "__main__":
    main()
