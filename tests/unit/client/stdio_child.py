"""A runtime of one job as a child process that ends, or makes noise, as its arguments say.

It answers the hello, takes one submit in, and does then what its first argument names.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

COUNT = iter(range(1, 1000))


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    frame: dict[str, Any] = json.loads(line)
    return frame


def say(kind: str, payload: dict[str, Any], **top: Any) -> None:
    frame = {"arcp": "1.1", "id": f"f{next(COUNT)}", "type": kind, "session_id": "sess_1", **top}
    print(json.dumps({**frame, "payload": payload}), flush=True)


def noise(text: str) -> None:
    if sys.argv[1] == "noise":
        print(text, flush=True)


noise("Loaded cached credentials.")
read()
say(
    "session.welcome",
    {
        "runtime": {"name": "child", "version": "1", "sdk": "arcp-client/0"},
        "resume_token": "t",
        "capabilities": {"features": ["list_jobs"], "agents": []},
    },
)
noise('"a text is JSON as well"')
submit = read()
job = {"job_id": "job_1"}
say("job.accepted", {**job, "agent": "a", "request_id": submit["id"]}, **job)
event = {"kind": "log", "ts": "2026-01-01T00:00:00Z", "body": {"level": "info", "message": "ran"}}
say("job.event", event, **job, event_seq=1)
noise("[1, 2, 3]")
noise("\x1b[31mwarning\x1b[0m: {not JSON")
match sys.argv[1]:
    case "noise":
        done = {"final_status": "success", "result": "done"}
        say("job.result", done, **job, event_seq=2)
        noise("")
        while True:
            read()
    case "exit 0":
        read()
        sys.exit(0)
    case "exit 1":
        read()
        sys.stderr.write("last words\n")
        sys.exit(1)
    case "SIGKILL":
        read()
        os.kill(os.getpid(), signal.SIGKILL)
