"""ACP updates a second into an async handler, against the official SDK and a bare read: JSON.

    python benchmarks/bench_acp.py [rounds]

Rounds are interleaved, so that a busy moment of the machine falls on all alike; what is printed are
medians. ``ratio_sdk`` should be at least 4, ``ratio_bare`` at least 0.6, ``slow_growth_mib`` below
20 and ``import_ratio`` at most 0.5.

- ours: 20,000 ``agent_message_chunk`` in one turn, an async handler, `prompt` awaited
- sdk: the same with ``acp.spawn_agent_process`` of agent-client-protocol
- bare: ``StreamReader.readline`` and ``json.loads`` on the same process, and nothing else
- slow: memory while a handler of 2 s holds up the same 20,000
- import: ``import arcp_client.acp``, whose names are resolved when first used; the same with
  ``AcpClient`` used; and ``import acp``; each in a process of its own
"""

from __future__ import annotations

import asyncio
import json
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import acp as sdk

from arcp_client import acp
from arcp_client.acp import updates

COUNT = 20_000
ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 5
AGENT = r"""
import json, sys
def chunk(i):
    return json.dumps({"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": "s1",
        "update": {"sessionUpdate": "agent_message_chunk",
                   "content": {"type": "text", "text": f"word {i} "}}}}).encode() + b"\n"
out = sys.stdout.buffer
blob = b"".join(map(chunk, range(COUNT)))
for line in sys.stdin.buffer:
    call = json.loads(line)
    result = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s1"},
              "session/prompt": {"stopReason": "end_turn"}}.get(call.get("method"))
    if call.get("method") == "session/prompt":
        out.write(blob)
    if "id" in call:
        out.write(json.dumps({"jsonrpc": "2.0", "id": call["id"], "result": result}).encode())
        out.write(b"\n")
    out.flush()
""".replace("COUNT", str(COUNT))
ARGV = [sys.executable, "-c", AGENT]


async def ours() -> float:
    got = 0

    async def handle(_: updates.AgentMessageChunk) -> None:
        nonlocal got
        got += 1

    async with acp.AcpClient(ARGV) as agent:
        session = await agent.new_session()
        session.subscribe(handle, updates.AgentMessageChunk)
        start = time.perf_counter()
        await session.prompt("go")
        seconds = time.perf_counter() - start
    assert got == COUNT
    return COUNT / seconds


class _Client(sdk.Client):  # type: ignore[misc]
    got = 0

    async def session_update(self, session_id: str, update: object, **_: object) -> None:
        self.got += 1


async def theirs() -> float:
    client = _Client()
    command, *arguments = ARGV
    async with sdk.spawn_agent_process(
        client, command, *arguments, transport_kwargs={"limit": 50 * 1024 * 1024}
    ) as (connection, _):
        await connection.initialize(protocol_version=1)
        await connection.new_session(cwd="/", mcp_servers=[])
        start = time.perf_counter()
        await connection.prompt(session_id="s1", prompt=[sdk.text_block("go")])
        seconds = time.perf_counter() - start
    assert client.got == COUNT
    return COUNT / seconds


async def bare() -> float:
    process = await asyncio.create_subprocess_exec(
        *ARGV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, limit=1024 * 1024
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b'{"id":0,"method":"initialize"}\n')
    await process.stdout.readline()
    start = time.perf_counter()
    process.stdin.write(b'{"id":1,"method":"session/prompt"}\n')
    got = 0
    while "id" not in json.loads(await process.stdout.readline()):
        got += 1
    seconds = time.perf_counter() - start
    process.stdin.close()
    await process.wait()
    assert got == COUNT
    return COUNT / seconds


def _resident() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("no VmRSS")


async def slow() -> float:
    """MiB that the process grows by while the first of 20,000 handlers takes 2 s."""
    ended = asyncio.Event()

    async def handle(_: updates.AgentMessageChunk) -> None:
        if not ended.is_set():
            await asyncio.sleep(2)
            ended.set()

    async with acp.AcpClient(ARGV) as agent:
        session = await agent.new_session()
        session.subscribe(handle, updates.AgentMessageChunk)
        before = peak = _resident()
        turn = asyncio.ensure_future(session.prompt("go"))
        while not turn.done():
            await asyncio.sleep(0.05)
            peak = max(peak, _resident())
        await turn
    return peak - before


def importing(statement: str) -> float:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", statement], check=True)
    return time.perf_counter() - start


def main() -> None:
    grown = asyncio.run(slow())  # first, on memory that nothing has used before
    kinds: dict[str, Callable[[], Awaitable[float]]] = {"ours": ours, "sdk": theirs, "bare": bare}
    found: dict[str, list[float]] = {name: [] for name in kinds}
    modules: dict[str, list[float]] = {
        "import arcp_client.acp": [],
        "from arcp_client.acp import AcpClient": [],
        "import acp": [],
    }
    for _ in range(ROUNDS):
        for name, run in kinds.items():
            found[name].append(asyncio.run(run()))  # type: ignore[arg-type]
        for module, times in modules.items():
            times.append(importing(module))
    median = {name: statistics.median(values) for name, values in found.items()}
    spent = {name: statistics.median(values) for name, values in modules.items()}
    result = {
        "python": platform.python_version(),
        "rounds": ROUNDS,
        **{f"{name}_per_second": round(value) for name, value in median.items()},
        "ratio_sdk": round(median["ours"] / median["sdk"], 2),
        "ratio_bare": round(median["ours"] / median["bare"], 2),
        "slow_growth_mib": round(grown, 1),
        "import_ms": {name: round(value * 1000) for name, value in spent.items()},
        "import_ratio": round(spent["import arcp_client.acp"] / spent["import acp"], 2),
        "import_used_ratio": round(
            spent["from arcp_client.acp import AcpClient"] / spent["import acp"], 2
        ),
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
