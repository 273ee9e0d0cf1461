"""Messages of a client in, the frames of a runtime out: a peer that floods, for any transport.

It stands alone, so that it can also run as a process of its own: ``python script.py`` speaks over
standard input and output.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

FEATURES = ["heartbeat", "ack", "list_jobs", "subscribe", "progress", "result_chunk"]
TS = "2026-05-13T19:42:13Z"


class Script:
    """One runtime, across connections.

    Args:
        heartbeat: seconds of the negotiated interval.
        pad: bytes added to each event.
        numbers_replies: replies consume sequence numbers, as in some runtimes.
        features: what it offers.
    """

    def __init__(
        self,
        *,
        heartbeat: float = 30,
        pad: int = 0,
        numbers_replies: bool = False,
        features: Sequence[str] = FEATURES,
    ) -> None:
        self.heartbeat = heartbeat
        self.pad = "x" * pad
        self.numbers_replies = numbers_replies
        self.features = list(features)
        self.session = "sess_1"
        self.seq = 0
        self.sent: list[tuple[int, bytes]] = []
        self.heard: list[dict[str, Any]] = []
        self.jobs: list[str] = []
        self._ids = count(1)

    def frame(self, kind: str, payload: dict[str, Any], **top: Any) -> bytes:
        envelope = {"arcp": "1.1", "id": f"id_{next(self._ids)}", "type": kind, **top}
        envelope.setdefault("session_id", self.session)
        return json.dumps({**envelope, "payload": payload}, separators=(",", ":")).encode()

    def numbered(self, kind: str, payload: dict[str, Any], job: str) -> bytes:
        self.seq += 1
        frame = self.frame(kind, payload, job_id=job, event_seq=self.seq)
        self.sent.append((self.seq, frame))
        return frame

    def log(self, job: str, message: str) -> bytes:
        body = {"level": "info", "message": message + self.pad}
        return self.numbered("job.event", {"kind": "log", "ts": TS, "body": body}, job)

    def end(self, job: str, result: Any = None) -> bytes:
        payload = {"final_status": "success", "result": result, "completed_at": TS}
        return self.numbered("job.result", payload, job)

    def answer(self, message: dict[str, Any]) -> Iterator[bytes]:
        """The frames that follow from one message, in order."""
        self.heard.append(message)
        kind, payload = message["type"], message.get("payload") or {}
        reply = {"request_id": message["id"]}
        match kind:
            case "session.hello":
                yield from self.welcome(payload)
            case "session.ping":
                yield self.frame(
                    "session.pong", {"ping_nonce": payload["nonce"], "received_at": TS}
                )
            case "session.list_jobs":
                jobs = [
                    {"job_id": job, "agent": "flood@1", "status": "running"} for job in self.jobs
                ]
                yield self.frame("session.jobs", {**reply, "jobs": jobs})
            case "session.bye" | "session.close":
                yield self.frame("session.closed", {})
            case "job.submit":
                yield from self.submit(message, payload, reply)
            case "job.cancel":
                job = payload["job_id"]
                top = {"event_seq": self._number()} if self.numbers_replies else {}
                yield self.frame("job.cancelled", {**reply, "job_id": job}, job_id=job, **top)

    def _number(self) -> int:
        self.seq += 1
        return self.seq

    def welcome(self, payload: dict[str, Any]) -> Iterator[bytes]:
        yield self.frame(
            "session.welcome",
            {
                "runtime": {"name": "flood", "version": "1"},
                "session_id": self.session,
                "resume_token": "rt_1",
                "resume_window_sec": 600,
                "heartbeat_interval_sec": self.heartbeat,
                "accepted_at": TS,
                "capabilities": {"encodings": ["json"], "features": self.features, "agents": []},
            },
        )
        resume = payload.get("resume")
        if resume:
            after = resume["last_event_seq"]
            yield from (frame for seq, frame in self.sent if seq > after)

    def submit(
        self, message: dict[str, Any], payload: dict[str, Any], reply: dict[str, Any]
    ) -> Iterator[bytes]:
        job = f"job_{len(self.jobs) + 1}"
        self.jobs.append(job)
        accepted = {**reply, "job_id": job, "agent": payload["agent"] + "@1", "accepted_at": TS}
        yield self.frame("job.accepted", {**accepted, "lease": {}}, job_id=job)
        wish = payload.get("input") or {}
        for n in range(wish.get("events", 0)):
            yield self.log(job, f"{n} ")
        if "result" in wish:
            yield self.end(job, wish["result"])


def main() -> None:
    script = Script()
    for line in sys.stdin.buffer:
        for frame in script.answer(json.loads(line)):
            sys.stdout.buffer.write(frame + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
