"""A seed in, frames out that no good client sends: spoiled, cut, oversized, out of state."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

__all__ = ["Hostile"]

LATER = "2999-01-01T00:00:00Z"

PAYLOADS: dict[str, list[Any]] = {
    "session.hello": [{"client": {"name": "x"}, "auth": {"token": "wrong"}, "capabilities": {}}],
    "session.resume": [{"resume_token": "rt_x", "last_event_seq": 3}],
    "session.ping": [{"nonce": "n", "sent_at": LATER}],
    "session.pong": [{"ping_nonce": "n"}],
    "session.ack": [{"last_processed_seq": 1}, {"last_processed_seq": 2**62}],
    "session.list_jobs": [{}, {"filter": {"status": ["running"], "agent": "quick"}, "limit": 2}],
    "job.submit": [
        {"agent": "quick", "input": {"a": [1, 2]}},
        {
            "agent": "quick@1",
            "input": None,
            "lease_request": {"fs.read": ["/a/**"], "cost.budget": ["USD:1.0"]},
            "lease_constraints": {"expires_at": LATER},
            "max_runtime_sec": 60,
        },
        {"agent": "quick", "idempotency_key": "k", "parent_job_id": "job_x"},
    ],
    "job.cancel": [{"job_id": "JOB", "reason": "r"}],
    "job.subscribe": [{"job_id": "JOB", "history": True, "from_event_seq": 0}],
    "job.unsubscribe": [{"job_id": "JOB"}],
    # what only a runtime sends
    "session.welcome": [{"resume_token": "x"}],
    "session.error": [{"code": "INTERNAL_ERROR", "message": "m"}],
    "job.accepted": [{"job_id": "JOB"}],
    "job.event": [{"kind": "log", "ts": LATER, "body": {"level": "info", "message": "m"}}],
    "job.result": [{"final_status": "success", "result": 1}],
    "job.error": [{"final_status": "error", "code": "X", "message": "m"}],
    "no.such.type": [{}],
}

VALUES: list[Any] = [
    None, True, 0, -1, 1.5, 2**31, 2**63, 2**70, -(2**70), 1e308, "", " ", "a" * 5000, "\ud800",
    "\x00", "∞", "../../etc", "*" * 400, [], {}, [[]], {"": {}}, ["x"] * 300, {"a" * 300: 1},
    {"\ud800": "\udfff"}, "2020-01-01T00:00:00Z", "USD:1e9", {"fs.read": "/"}, {"fs.read": [None]},
    {"cost.budget": ["USD:" + "9" * 50]}, "quick@" + "9" * 500, {"session_id": "sess_x"},
]  # fmt: skip

TOKENS = [
    b"NaN", b"-Infinity", b"1e999", b"-0", b"0x1", b"'x'", b"undefined", b"[" * 3000,
    b'{"a":' * 1500, b"1" * 5000, b'"\\ud800"', b'"\\u0000"', b"\xff\xfe", b"\xc3\x28", b"//",
]  # fmt: skip


class Hostile:
    """An endless supply.

    Args:
        seed: the same seed, the same frames.
        largest: bytes above which a frame is refused for its size.
        lines: the link is one of lines: a frame has no line end and is not blank.
    """

    def __init__(self, seed: int, *, largest: int, lines: bool) -> None:
        self._random = random.Random(seed)
        self._largest = largest
        self._lines = lines
        self.job_id = "job_none"

    def frames(self) -> Iterator[tuple[str, bytes]]:
        """Pairs of an id, which may still be readable in the frame, and the frame."""
        number = 0
        while True:
            number += 1
            id = f"h{number}."
            data = self._frame(id)
            if self._lines:
                data = data.replace(b"\n", b" ").replace(b"\r", b" ")
            if data.strip():
                yield id, data

    def _frame(self, id: str) -> bytes:
        choose = self._random
        if choose.random() < 0.002:
            return b"x" * (self._largest + choose.randrange(1, 1000))
        type = choose.choice(list(PAYLOADS))
        payload = json.loads(json.dumps(choose.choice(PAYLOADS[type])).replace("JOB", self.job_id))
        frame = {"arcp": "1.1", "id": id, "type": type, "payload": payload}
        dice = choose.random()
        if dice < 0.15:
            return json.dumps(frame).encode()
        if dice < 0.55:
            self._spoil(frame if dice < 0.25 else payload)
            return json.dumps(frame, allow_nan=True).encode()
        data = json.dumps(frame, ensure_ascii=choose.random() < 0.5).encode()
        for _ in range(choose.choice([1, 1, 1, 2, 5])):
            data = self._damage(data)
        return data

    def _spoil(self, target: dict[str, Any]) -> None:
        """Change a value somewhere inside."""
        choose = self._random
        if not target:
            target["x"] = choose.choice(VALUES)
            return
        name = choose.choice(list(target))
        inner = target[name]
        if isinstance(inner, dict) and choose.random() < 0.4:
            self._spoil(inner)
        elif choose.random() < 0.15:
            del target[name]
        elif choose.random() < 0.1:
            target[str(choose.choice(["\ud800", "__proto__", "type", "a" * 999]))] = 1
        else:
            target[name] = choose.choice(VALUES)

    def _damage(self, data: bytes) -> bytes:
        """Change some bytes."""
        choose = self._random
        at = choose.randrange(len(data)) if data else 0
        to = min(len(data), at + choose.randrange(1, 20))
        match choose.randrange(8):
            case 0:
                return data[:at]
            case 1:
                return data[:at] + bytes([choose.randrange(256)]) + data[at + 1 :]
            case 2:
                return data[:at] + choose.randbytes(choose.randrange(1, 9)) + data[at:]
            case 3:
                return data[:at] + data[to:]
            case 4:
                return data[:to] + data[at:]
            case 5:
                return b"\xef\xbb\xbf" + data
            case 6:
                return data + data
            case _:
                return data[:at] + choose.choice(TOKENS) + data[to:]
