"""CPU time of `arcp-client --help`, beside that of its libraries alone; prints JSON.

Each way is a fresh process; rounds are interleaved, so that a busy moment of the machine falls on
all of them alike; what is printed are medians of the CPU time (user and system) of the children, in
milliseconds. Read the ratios: absolute numbers are this machine's.

    python benchmarks/bench_cli.py [rounds]
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

BIN = Path(sys.executable).parent
COMMAND = shutil.which("arcp-client", path=str(BIN)) or "arcp-client"
WAYS = {
    "python": [sys.executable, "-c", "pass"],
    "libraries": [sys.executable, "-c", "import typer, rich"],
    "--help": [COMMAND, "--help"],
    "run --help": [COMMAND, "run", "--help"],
    "version": [COMMAND, "version"],
}


def spent(command: list[str]) -> float:
    """CPU milliseconds of one process and its children."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{command} failed: {process.returncode}")
    return (used.ru_utime + used.ru_stime) * 1000


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for command in WAYS.values():
        spent(command)  # compiled files are written by the first one
    for _ in range(rounds):
        for name, command in WAYS.items():
            times[name].append(spent(command))
    medians = {name: round(statistics.median(found), 1) for name, found in times.items()}
    ratios = {
        name: round(medians[name] / medians["libraries"], 2)
        for name in WAYS
        if name not in ("python", "libraries")
    }
    facts = {
        "python": platform.python_version(),
        "rounds": rounds,
        "cpu_ms": medians,
        "ratio_to_libraries": ratios,
    }
    print(json.dumps(facts, indent=2))


if __name__ == "__main__":
    main()
