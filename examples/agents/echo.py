"""A tiny ACP agent for the examples: it announces a tool, asks for permission, and echoes."""

import json
import sys


def send(**message: object) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def update(name: str, /, **fields: object) -> None:
    params = {"sessionId": "s1", "update": {"sessionUpdate": name, **fields}}
    send(method="session/update", params=params)


def say(words: str) -> None:
    update("agent_message_chunk", content={"type": "text", "text": words})


asking = None
for line in sys.stdin:
    message = json.loads(line)
    method, number = message.get("method"), message.get("id")
    if method == "initialize":
        send(id=number, result={"protocolVersion": 1})
    elif method == "session/new":
        send(id=number, result={"sessionId": "s1"})
    elif method == "session/prompt":
        asking = number
        say("You said: ")
        say(message["params"]["prompt"][0]["text"])
        update("tool_call", toolCallId="t1", title="Write notes.txt", kind="edit", status="pending")
        options = [
            {"optionId": "yes", "name": "Allow", "kind": "allow_once"},
            {"optionId": "no", "name": "Reject", "kind": "reject_once"},
        ]
        params = {"sessionId": "s1", "toolCall": {"toolCallId": "t1"}, "options": options}
        send(id=100, method="session/request_permission", params=params)
    elif number == 100:
        allowed = message["result"]["outcome"].get("optionId") == "yes"
        status = "completed" if allowed else "failed"
        update("tool_call_update", toolCallId="t1", status=status)
        send(id=asking, result={"stopReason": "end_turn"})
