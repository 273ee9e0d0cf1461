"""An ACP agent that asks for one permission a prompt, and notes each line that it receives.

python asking_acp_agent.py LINES
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

OPTIONS = [
    {"optionId": "allow", "name": "Allow", "kind": "allow_once"},
    {"optionId": "reject", "name": "Reject", "kind": "reject_once"},
]
CALL = {"toolCallId": "t1", "title": "Run make deploy", "kind": "execute", "name": "make"}


def send(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def main() -> None:
    received = Path(sys.argv[1])
    prompt = None
    for line in sys.stdin:
        with received.open("a", encoding="utf-8") as lines:
            lines.write(line)
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                capabilities: dict[str, Any] = {}
                result: Any = {"protocolVersion": 1, "agentCapabilities": capabilities}
                send(id=message["id"], result=result)
            case "session/new":
                send(id=message["id"], result={"sessionId": "s1"})
            case "session/prompt":
                prompt = message["id"]
                asked = {"sessionId": "s1", "toolCall": CALL, "options": OPTIONS}
                send(id="permission", method="session/request_permission", params=asked)
            case None if message.get("id") == "permission":
                chosen = message["result"]["outcome"].get("optionId", "none")
                content = {"type": "text", "text": f"was told: {chosen}"}
                update = {"sessionUpdate": "agent_message_chunk", "content": content}
                send(method="session/update", params={"sessionId": "s1", "update": update})
                send(id=prompt, result={"stopReason": "end_turn"})


if __name__ == "__main__":
    main()
