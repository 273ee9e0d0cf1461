"""CPU time of a submit with the largest lease that is accepted, and who else waits for it.

Children ask for leases at the bounds of `Limits`, of the kinds that are the most work: many stars,
the same letters over and over, patterns that fit up to their last character. Printed as JSON: CPU
milliseconds for reading and comparing each, the median and the worst of the rounds. Then a runtime
is given such submits one behind another by one principal, and another principal's submits are
timed: what it waits for is a job's acceptance.

    python benchmarks/bench_leases.py [rounds] [submits]
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from arcp_client import Client, JobContext, Runtime
from arcp_client.errors import InvalidRequest, LeaseSubsetViolation
from arcp_client.runtime._leases.grant import Budget, parse_grant

Lease = Mapping[str, Sequence[str]]

LONG = 512


def times(parent: str, child: str, count: int, others: int) -> tuple[Lease, Lease]:
    namespace = "fs.read" if parent.startswith("/") else "x.y"
    return {namespace: [parent] * others}, {namespace: [child] * count}


STARS = ("a*" * LONG)[: LONG - 1] + "c"
LEASES: dict[str, tuple[Lease, Lease]] = {
    "one text, all stars": times(STARS, "a" * (LONG - 1) + "b", 1, 250),
    "texts, stars": times(STARS, "a" * (LONG - 1) + "b", 6, 7),
    "many texts, stars": times(STARS, "a" * (LONG - 1) + "b", 20, 5),
    "stars, stars": times(STARS, STARS[:-1] + "b", 6, 7),
    "segments": times(("/**/a" * LONG)[: LONG - 2] + "/c", ("/a" * LONG)[: LONG - 2] + "/b", 6, 7),
    "stars in segments": times(
        ("/*a*" * LONG)[: LONG - 2] + "/c", ("/aaa" * LONG)[: LONG - 2] + "/b", 6, 7
    ),
    "short texts": (
        {"x.y": [f"{'a*' * 6}{n:03}" for n in range(256)]},
        {"x.y": [f"{'a' * 11}{n:03}b" for n in range(256)]},
    ),
    "many letters": times(
        "".join(chr(0x100 + n) for n in range(250)) + "*",
        "".join(chr(0x100 + n) for n in range(250)) + "b",
        20,
        100,
    ),
    "too long": times(STARS, "a" * (LONG - 1) + "b", 250, 250),
    "its parent's": times(STARS, STARS, 250, 250),
    "plain": (
        {"fs.read": [f"/{n}/" + "x" * 480 for n in range(250)]},
        {"fs.read": [f"/{n}/" + "x" * 480 for n in range(250)]},
    ),
}


def milliseconds(parent: Lease, child: Lease) -> float:
    held = parse_grant(parent, None, datetime.now(UTC))
    begun = time.process_time()
    with contextlib.suppress(LeaseSubsetViolation, InvalidRequest):
        held.derive(parse_grant(child, None, datetime.now(UTC)), Budget({}))
    return (time.process_time() - begun) * 1000


async def serve() -> None:
    runtime = Runtime(auth={"busy": "busy", "other": "other"})

    @runtime.agent("wait")
    async def wait(input: Any, job: JobContext) -> None:
        await job.cancelled

    @runtime.agent("quick")
    async def quick(input: Any, job: JobContext) -> None: ...

    async with runtime.serve() as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


async def flood(url: str, submits: int) -> None:
    parent, child = LEASES["stars, stars"]
    async with Client(url, token="busy") as client:
        held = await client.submit("wait", lease=parent)

        async def one() -> None:
            with contextlib.suppress(LeaseSubsetViolation, InvalidRequest):
                await client.submit("quick", lease=child, parent=held.id)

        await asyncio.gather(*(one() for _ in range(submits)))
        await held.cancel()


async def neighbour(url: str, busy: subprocess.Popen[str] | None) -> list[float]:
    """Milliseconds to the acceptance of one principal's jobs while another one's submits come."""
    times: list[float] = []
    async with Client(url, token="other") as other:
        while busy.poll() is None if busy is not None else len(times) < 50:
            begun = time.perf_counter()
            await other.submit("quick")
            times.append((time.perf_counter() - begun) * 1000)
            await asyncio.sleep(0.01)
    return times


def waited(submits: int) -> dict[str, dict[str, float]]:
    command = [sys.executable, __file__]
    with subprocess.Popen([*command, "serve"], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().strip()
        quiet = asyncio.run(neighbour(url, None))
        with subprocess.Popen([*command, "flood", url, str(submits)], text=True) as busy:
            meanwhile = asyncio.run(neighbour(url, busy))
        server.kill()
    return {"alone": _spread(quiet), "meanwhile": _spread(meanwhile)}


def main() -> None:
    if sys.argv[1:2] == ["serve"]:
        asyncio.run(serve())
        return
    if sys.argv[1:2] == ["flood"]:
        asyncio.run(flood(sys.argv[2], int(sys.argv[3])))
        return
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    submits = int(sys.argv[2]) if len(sys.argv) > 2 else 300
    compared = {}
    for name, (parent, child) in LEASES.items():
        compared[name] = _spread([milliseconds(parent, child) for _ in range(rounds)])
    told = {"cpu ms of a submit": compared, "ms to another's acceptance": waited(submits)}
    print(json.dumps(told, indent=2))


def _spread(times: list[float]) -> dict[str, float]:
    worst = max(times)
    return {"median": round(statistics.median(times), 2), "worst": round(worst, 2), "n": len(times)}


if __name__ == "__main__":
    main()
