"""This tree against another commit: throughput and CPU time of client, runtime and ACP client.

Both trees run under this interpreter, with the same libraries and the same load; only the package
differs. The runs are interleaved, and what is printed are the ratios within the rounds (above 1 is
better than the other commit). A busy machine spreads these ratios; ``--instructions`` counts the
instructions of an event instead (needs valgrind), which repeat within one or two percent.

    python benchmarks/compare.py REF [--rounds 9] [--events 30000] [--only TEXT] [--instructions]
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rounds import frames_server, quartiles, spread

HERE = Path(__file__).parent
ROOT = HERE.parent
VALGRIND = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")
LIMIT = 600  # seconds for one process
RUNTIMES = {"runtime, memory log": "memory", "runtime, SQLite log": "sqlite"}
ACP = "ACP client, on"
ACP_RUN = """
import asyncio, json, sys, time
sys.path.insert(0, HERE)
import bench_acp
bench_acp.COUNT, count = EVENTS, bench_acp.COUNT
bench_acp.ARGV[-1] = bench_acp.AGENT.replace(f"range({count})", "range(EVENTS)")
begin = time.process_time()
rate = asyncio.run(bench_acp.ours())
cpu = (time.process_time() - begin) / EVENTS * 1e6
print(json.dumps({"events_per_second": rate, "cpu_us_per_event": cpu}))
"""


@dataclass(frozen=True)
class Tree:
    """A checkout whose package is measured."""

    name: str
    path: Path

    def environment(self) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(self.path), "PYTHONHASHSEED": "0"}

    def run(self, *arguments: object, under: tuple[str, ...] = ()) -> tuple[str, str]:
        """What ``python ARGUMENTS`` prints on stdout and stderr."""
        done = subprocess.run(
            [*under, sys.executable, *map(str, arguments)],
            env=self.environment(),
            capture_output=True,
            text=True,
            timeout=LIMIT,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"{self.name} failed:\n{done.stderr[-4000:]}")
        return done.stdout, done.stderr


def instructions(printed: str) -> int:
    found = re.search(r"I\s+refs:\s+([\d,]+)", printed)
    if found is None:
        raise SystemExit(f"valgrind printed no count:\n{printed[-2000:]}")
    return int(found[1].replace(",", ""))


class Client:
    """One way to consume events, see ``consume.py``."""

    def __init__(self, way: str, port: str) -> None:
        self._arguments = (HERE / "consume.py", way, port)

    def measure(self, tree: Tree, events: int) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(tree.run(*self._arguments, events)[0])
        return result

    def count(self, tree: Tree, events: int) -> int:
        return instructions(tree.run(*self._arguments, events, under=VALGRIND)[1])


class Acp:
    """Updates of an ACP agent into an async handler."""

    @staticmethod
    def _script(events: int) -> tuple[str, str]:
        return "-c", ACP_RUN.replace("HERE", repr(str(HERE))).replace("EVENTS", str(events))

    def measure(self, tree: Tree, events: int) -> dict[str, Any]:
        result: dict[str, Any] = json.loads(tree.run(*self._script(events))[0])
        return result

    def count(self, tree: Tree, events: int) -> int:
        return instructions(tree.run(*self._script(events), under=VALGRIND)[1])


class Emitting:
    """A runtime that emits over a WebSocket, see ``bench_runtime.py``."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    @contextmanager
    def _served(self, tree: Tree, under: tuple[str, ...] = ()) -> Iterator[Any]:
        import bench_runtime

        class Served(bench_runtime.Served):
            def __init__(self, directory: str) -> None:
                script = HERE / "bench_runtime.py"
                self.process = self._process = subprocess.Popen(
                    [*under, sys.executable, str(script), "--serve", kind, directory],
                    env=tree.environment(),
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE if under else None,
                    text=True,
                )
                assert self._process.stdout is not None
                self.port = int(self._process.stdout.readline())

        kind = self._kind
        with tempfile.TemporaryDirectory() as directory:
            served = Served(directory)
            try:
                yield served
            finally:
                served.end()

    def measure(self, tree: Tree, events: int) -> dict[str, Any]:
        import bench_runtime

        with self._served(tree) as served:
            bench_runtime.received(served, events // 10)
            rate, cpu = bench_runtime.received(served, events)
        return {"events_per_second": rate, "cpu_us_per_event": cpu}

    def count(self, tree: Tree, events: int) -> int:
        import bench_runtime

        with self._served(tree, VALGRIND) as served:
            bench_runtime.received(served, events)
            served.process.send_signal(signal.SIGTERM)
            return instructions(served.process.communicate(timeout=LIMIT)[1])


def timed(subject: Any, trees: tuple[Tree, Tree], rounds: int, events: int) -> str:
    """The ratios of throughput and of CPU time, round by round."""
    rates, costs = [], []
    for number in range(rounds):
        order = trees if number % 2 else trees[::-1]
        found = {tree.name: subject.measure(tree, events) for tree in order}
        mine, other = (found[tree.name] for tree in trees)
        rates.append(mine["events_per_second"] / other["events_per_second"])
        costs.append(other["cpu_us_per_event"] / mine["cpu_us_per_event"])
    return f"{spread(quartiles(rates), 3)} | {spread(quartiles(costs), 3)}"


def counted(subject: Any, trees: tuple[Tree, Tree], rounds: int, events: int) -> str:
    """The ratio of instructions an event; start and end of the processes cancel out."""
    del rounds
    few = events // 10
    mine, other = (
        (subject.count(tree, events) - subject.count(tree, few)) / (events - few) for tree in trees
    )
    return f"{other / mine:.3f} | {mine:,.0f} · {other:,.0f}"


@contextmanager
def checked_out(ref: str) -> Iterator[Tree]:
    """The package as it was at a commit."""
    archive = subprocess.run(
        ["git", "archive", ref, "arcp_client"], cwd=ROOT, capture_output=True, check=False
    )
    if archive.returncode:
        raise SystemExit(f"no such commit: {ref}\n{archive.stderr.decode()}")
    with tempfile.TemporaryDirectory() as directory:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            for member in tar:  # our own archive; `filter=` came with Python 3.11.4
                tar.extract(member, directory)
        yield Tree(ref, Path(directory))


def main() -> None:
    from consume import WAYS

    parser = argparse.ArgumentParser()
    parser.add_argument("ref", help="the other commit")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--only", default="", help="only rows whose name holds this")
    parser.add_argument("--instructions", action="store_true", help="count them, with valgrind")
    options = parser.parse_args()
    if options.instructions and shutil.which("valgrind") is None:
        raise SystemExit("valgrind is not installed")
    compare: Callable[..., str] = counted if options.instructions else timed
    head = "instructions | here · there" if options.instructions else "events/s | by CPU time"
    with frames_server() as port, checked_out(options.ref) as other:
        subjects: dict[str, Any] = {
            way: Client(way, port) for way in WAYS if way.startswith("arcp-client")
        }
        subjects |= {name: Emitting(kind) for name, kind in RUNTIMES.items()}
        subjects[ACP] = Acp()
        print(f"| this tree × {options.ref} | {head} |\n|---|---:|---:|", flush=True)
        for name, subject in subjects.items():
            if options.only in name:
                row = compare(subject, (Tree("here", ROOT), other), options.rounds, options.events)
                print(f"| {name} | {row} |", flush=True)


if __name__ == "__main__":
    main()
