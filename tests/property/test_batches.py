"""Frames in one batch are delivered exactly as the same frames one by one, fully checked (D3)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import Any, Literal
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client._protocol import receiver
from arcp_client._protocol.actions import EventRun
from arcp_client._protocol.receiver import Received
from arcp_client._wire import names
from arcp_client._wire.codec import decode
from tests.dialects import ALL
from tests.unit.protocol.scripted import Table

A, B, C = "job_a", "job_b", "job_c"
WATCHED = {A: True, B: False}
"""The jobs that are watched, and whether with their history."""

Step = tuple[str, str, int, int]
"""What arrives, of which job, the event, and how far its number jumps."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["event"] * 12 + ["chunk", "rotation", "result", "unreadable", "pong"]),
        st.sampled_from([A, A, A, B, B, C]),
        st.integers(1, 12),
        st.sampled_from([1] * 12 + [0, 2, -3]),
    ),
    max_size=30,
)


def frames_of(steps: Sequence[Step], session_id: str, ping: str | None) -> list[bytes]:
    """The frames of these steps. An event has the same id and time whenever it arrives."""
    seq, made = 0, []
    for what, job_id, number, jump in steps:
        frame: dict[str, Any] = {"arcp": "1.1", "session_id": session_id, "job_id": job_id}
        if what == "pong":
            payload: dict[str, Any] = {"ping_nonce": ping or "none"}
            frame |= {"type": names.PONG, "id": f"pong.{len(made)}", "payload": payload}
        else:
            seq += jump
            frame |= {"event_seq": seq, "id": f"{job_id}.{what}.{number}"}
            if what == "result":
                result = {"final_status": "success", "result": number}
                frame |= {"type": names.RESULT, "payload": result}
            else:
                moment = f"2026-01-01T00:01:{number:02d}.000001Z"
                body = {
                    "event": {"current": number},
                    "chunk": {
                        "result_id": "r",
                        "chunk_seq": number,
                        "data": "x",
                        "encoding": "utf8",
                        "more": True,
                    },
                    "rotation": {
                        "phase": "credential_rotated",
                        "credential": {"id": "c", "value": f"secret-{number}"},
                    },
                    "unreadable": "text",
                }[what]
                kind = {"chunk": "result_chunk", "rotation": "status"}.get(what, "progress")
                payload = {"kind": kind, "ts": moment, "body": body}
                frame |= {"type": names.EVENT, "payload": payload}
        made.append(json.dumps(frame).encode())
    return made


Link = Literal["resumed", "new"]
"""Whether the runtime resumes the session on the next link, or only begins a new one."""


class Receiver(Table):
    """A session that watches two jobs over several links, and then takes in frames in batches."""

    def __init__(self, spoken: str, status: str, links: Sequence[Link]) -> None:
        super().__init__(spoken)
        for job_id, history in WATCHED.items():
            self.ask(names.SUBSCRIBE, job_id=job_id, history=history)
            self.confirmed(self.of_type(names.SUBSCRIBE), status)
        for link in links:
            self.cut()
            if link == "new":
                while "resume" in self.hello()["payload"]:
                    self.error(names.RESUME_WINDOW_EXPIRED)
                    self.cut()
                self.cut()
            self.connect(session_id=f"{self.id}.2" if link == "new" else None)
            self.now += 1.0
        self.ping = next(
            (each["payload"]["nonce"] for each in self.sent if each["type"] == names.PING), None
        )

    def of_type(self, kind: str) -> dict[str, Any]:
        """The frame of this type that the client has sent."""
        found = next(each for each in self.sent if each["type"] == kind)
        self.sent.remove(found)
        return found

    def take(self, batch: Sequence[bytes]) -> None:
        """The frames of a batch arrive, and are taken in as `Driver.received` does."""
        taken, more = 0, True
        while more:
            run = self.session.receive(batch, self.now, taken)
            self.events += run
            taken += len(run) + 1
            more = run.more
            self.do()

    @property
    def outcome(self) -> dict[str, Any]:
        """All that can be seen of the session from outside."""
        session = self.session
        return {
            "events": [
                {k: v for k, v in each.to_dict().items() if k != "session_id"}
                for each in self.events
            ],
            "sent": [each["type"] for each in self.sent],
            "done": [type(each).__name__ for each in self.done],
            "numbers": (session.received, session.repeated, session.gaps),
            "deadline": session.deadline,
        }


def checked(
    _: receiver.Receiver, frames: Sequence[bytes], _now: float, start: int
) -> tuple[EventRun, Received | None]:
    """`Receiver.deliver_run` that leaves every frame to the full check."""
    if start == len(frames):
        return EventRun(), None
    run = EventRun()
    run.more = True
    return run, Received(decode(frames[start]), frames[start])


@pytest.mark.parametrize("spoken", ALL)
@given(
    steps=STEPS,
    cuts=st.sets(st.integers(1, 29)),
    status=st.sampled_from(["running", "success"]),
    links=st.lists(st.sampled_from(["resumed", "new"]), max_size=2),
)
def test_a_batch_is_delivered_as_its_frames_one_by_one(
    spoken: str,
    steps: list[Step],
    cuts: set[int],
    status: str,
    links: list[Link],
) -> None:
    edges = [0, *sorted(cut for cut in cuts if cut < len(steps)), len(steps)]
    batches = list(itertools.pairwise(edges))
    single, batched = Receiver(spoken, status, links), Receiver(spoken, status, links)
    with mock.patch.object(receiver.Receiver, "deliver_run", checked):
        frames = frames_of(steps, single.id, single.ping)
        for start, end in batches:
            for frame in frames[start:end]:
                single.take([frame])
            single.now += 0.25
    frames = frames_of(steps, batched.id, batched.ping)
    for start, end in batches:
        batched.take(frames[start:end])
        batched.now += 0.25
    assert batched.outcome == single.outcome

    for each in (single, batched):
        each.alive(60.0)
    assert batched.outcome == single.outcome
