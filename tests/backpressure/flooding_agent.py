"""The agent that floods a client: ``python flooding_agent.py KIND DIRECTORY``. Imports little."""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

MIB = 1024 * 1024
FILES = 12  # of 16 MiB
OUTPUTS = 160  # of 1 MB
KEPT = 40  # requests of 4 MiB
CHUNKS = 100  # of 1 MiB
CALLS = 120  # of 1 MiB
SILENCE = 1.5  # seconds in which the agent reads nothing


def agent(kind: str, directory: str) -> None:
    """The agent: asks on and on without reading, then reads all answers."""
    out = sys.stdout.buffer

    def send(*messages: Any) -> None:
        out.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))
        out.flush()

    def read() -> Any:
        return json.loads(sys.stdin.buffer.readline())

    def update(value: Any) -> Any:
        params = {"sessionId": "s1", "update": value}
        return {"jsonrpc": "2.0", "method": "session/update", "params": params}

    def ask(number: int, method: str, **params: Any) -> Any:
        params = {"sessionId": "s1", **params}
        return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}

    call = {"initialize": {"protocolVersion": 1}, "session/new": {"sessionId": "s1"}}
    while (message := read())["method"] != "session/prompt":
        send({"jsonrpc": "2.0", "id": message["id"], "result": call[message["method"]]})
    answers = 0
    if kind == "files":
        send(*(ask(n, "fs/read_text_file", path=f"{directory}/large") for n in range(FILES)))
        answers = FILES
    elif kind == "output":
        send(ask(0, "terminal/create", command=sys.executable, args=["-c", "print('x' * 1000000)"]))
        terminal = read()["result"]["terminalId"]
        send(ask(1, "terminal/wait_for_exit", terminalId=terminal))
        read()
        send(*(ask(n, "terminal/output", terminalId=terminal) for n in range(2, OUTPUTS + 2)))
        answers = OUTPUTS
    elif kind == "params":
        for n in range(KEPT):
            send(ask(n, "x/keep", text="x" * 4 * MIB))
        answers = KEPT
    elif kind == "iterator":
        chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text"}}
        chunk["content"]["text"] = "x" * MIB  # type: ignore[index]
        for _ in range(CHUNKS):
            send(update(chunk))
    elif kind == "calls":
        content = [{"type": "content", "content": {"type": "text", "text": "x" * MIB}}]
        for n in range(CALLS):
            call_ = {"sessionUpdate": "tool_call", "toolCallId": str(n), "title": "t"}
            send(update({**call_, "content": content}))
    if kind in ("files", "output"):
        time.sleep(SILENCE)
    size = 0
    for _ in range(answers):
        size += len(sys.stdin.buffer.readline())
    send({"jsonrpc": "2.0", "id": message["id"], "result": {"stopReason": str(size)}})
    sys.stdin.read()


if __name__ == "__main__":
    agent(*sys.argv[1:])
    os._exit(0)
