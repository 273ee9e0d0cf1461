"""Floods of one ACP agent, against one client: ``python -m tests.backpressure.acp_flood KIND``.

Prints the client's peak of resident memory above what it was before, in bytes, as JSON, with what
the agent counted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from arcp_client.acp import AcpClient, LocalFiles, LocalTerminals, updates
from tests.alone import peak, resident
from tests.backpressure import flooding_agent
from tests.backpressure.flooding_agent import CHUNKS, MIB, SILENCE


async def client(kind: str) -> dict[str, int]:
    """The client: its peak of memory, and the bytes that its agent has read."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory, "large").write_text("x" * (16 * MIB - 1))
        command = [sys.executable, flooding_agent.__file__, kind, directory]
        async with AcpClient(
            command, fs=LocalFiles(directory), terminal=LocalTerminals()
        ) as connected:
            held = 0
            gate = asyncio.Event()

            @connected.on_request("x/keep")
            async def keep(params: Any) -> dict[str, int]:
                nonlocal held
                held += 1
                if held < 8:  # the agent goes on to write while these are open
                    asyncio.get_running_loop().call_later(SILENCE, gate.set)
                await gate.wait()
                return {"length": len(params["text"])}

            session = await connected.new_session()
            iterator = session.updates(updates.Update) if kind == "iterator" else None
            before = resident()
            prompting = asyncio.ensure_future(session.prompt("go"))
            if iterator is not None:
                await asyncio.sleep(SILENCE)
                for _ in range(CHUNKS):
                    await anext(iterator)
            turn = await prompting
    return {"peak": peak() - before, "read": int(turn.stop_reason)}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(client(sys.argv[1]))))
