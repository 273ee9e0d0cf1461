"""What the benchmarks share: processes, interleaved rounds, quartiles, tables and the results file.

The ways of one benchmark take turns, and each round begins with another way, so that a busy moment
of the machine falls on all alike. What counts are the ratios within a round, and their median.
``results.json`` keeps what was measured; scripts/generate_performance_page.py makes the page of it.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

HERE = Path(__file__).parent
RESULTS = HERE / "results.json"
LIMIT = 120  # seconds for one process
# Where bytecode is not kept, a start would measure the compiler.
ENVIRONMENT = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}

T = TypeVar("T")


# ------------------------------------------------------------------------- processes


def answer(*arguments: object, limit: float = LIMIT) -> Any:
    """The JSON that ``python ARGUMENTS`` prints."""
    command = [sys.executable, *map(str, arguments)]
    done = subprocess.run(
        command, env=ENVIRONMENT, capture_output=True, text=True, timeout=limit, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    return json.loads(done.stdout)


def cpu_ms(*command: str) -> float:
    """Milliseconds of CPU time, user and system, of one process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, check=True, timeout=LIMIT, env=ENVIRONMENT, cwd="/", stdout=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


@contextmanager
def serving(*arguments: object) -> Iterator[str]:
    """A server as a process of its own; yields the port that it prints."""
    server = subprocess.Popen(
        [sys.executable, *map(str, arguments)], env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.communicate()


def frames_server() -> Any:
    return serving(HERE / "frames_server.py")


# ------------------------------------------------------------------------- rounds


def interleaved(ways: Sequence[str], rounds: int, run: Callable[[str], T]) -> list[dict[str, T]]:
    """What each way gave in each round."""
    found = []
    for number in range(rounds):
        shift = number % len(ways)
        found.append({way: run(way) for way in [*ways[shift:], *ways[:shift]]})
    return found


def quartiles(values: Iterable[float]) -> dict[str, float]:
    each = list(values)
    low, middle, high = (
        statistics.quantiles(each, n=4, method="inclusive") if len(each) > 1 else each * 3
    )
    return {"lower": round(low, 4), "median": round(middle, 4), "upper": round(high, 4)}


def percentiles(values: list[float]) -> dict[str, float]:
    cuts = statistics.quantiles(values, n=100)
    return {"p50": cuts[49], "p99": cuts[98]}


# ------------------------------------------------------------------------- what comes out


def machine() -> dict[str, Any]:
    return {
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "machine": platform.machine(),
        "cores": os.cpu_count(),
    }


def spread(found: dict[str, float], digits: int = 2) -> str:
    return f"{found['median']:.{digits}f} ({found['lower']:.{digits}f}–{found['upper']:.{digits}f})"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """In Markdown; all columns but the first are numbers."""
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("|  |", "| |")


def footer(result: dict[str, Any], of: str = "") -> str:
    return (
        f"\n\nMedians of {result['rounds']} interleaved rounds{of};"
        f" {result['python']}, {result['cores']} cores, {result['machine']}."
    )


def results() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    return found


def report(name: str, result: dict[str, Any], *, write: bool) -> None:
    """Print what was measured; ``write`` also keeps it as ``name`` in ``results.json``."""
    print(json.dumps(result, indent=2))
    if write:
        kept = {**results(), name: result}
        RESULTS.write_text(json.dumps(dict(sorted(kept.items())), indent=2) + "\n")
