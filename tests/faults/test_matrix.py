"""The fault matrix: each fault, in each phase of a client's life, with a stated outcome.

A phase brings the client to a moment, lets the fault strike, and then demands what a user would:
nothing is lost, repeated or out of order; what must end ends; a session that is gone is followed by
a fresh one that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from arcp_client import Closed, Live
from arcp_client.errors import JobCancelled, JobError, PermissionDenied
from tests.faults import scene as faults
from tests.faults.scene import STEPS, Heal, Scene

BOUND = 15.0

Strike = Callable[[Scene], Heal]
Phase = Callable[[Scene, Strike, "Outcome"], Awaitable[None]]


class Outcome:
    """What a fault allows.

    Args:
        whole: the session goes on, or had not begun: no gap, no loss.
        jobs: running jobs survive it.
    """

    def __init__(self, *, whole: bool = True, jobs: bool = True) -> None:
        self.whole = whole
        self.jobs = jobs


WHOLE = Outcome()
FAULTS: dict[str, tuple[Strike, Outcome]] = {
    "cut": (faults.cut, WHOLE),
    "stall": (faults.stall, WHOLE),
    "half-open": (faults.half_open, WHOLE),
    "refuse": (faults.refuse, WHOLE),
    "silent accept": (faults.silent_accept, WHOLE),
    "reset": (faults.reset, WHOLE),
    "repeat frames": (faults.repeat_frames, WHOLE),
    "reorder frames": (faults.reorder_frames, WHOLE),
    "gap": (faults.gap, WHOLE),
    "token lost": (faults.token_lost, Outcome(whole=False)),
    "resume refused": (faults.resume_refused, Outcome(whole=False)),
    "runtime restarted": (faults.runtime_restarted, Outcome(jobs=False)),
    "clock jump": (faults.clock_jump, WHOLE),
}


# ---------------------------------------------------------------------- phases


async def connecting(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """The fault is there when the client begins; connect() succeeds once it heals."""
    heal = strike(scene)
    opening = asyncio.ensure_future(scene.client.connect())
    await heal()
    await opening
    await works(scene)


async def handshaking(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """The hello is sent and not answered yet; connect() succeeds on this link or the next."""
    scene.door.clear()
    opening = asyncio.ensure_future(scene.client.connect())
    await scene.until(lambda: "session.hello" in scene.tamper.sent)
    heal = strike(scene)
    scene.door.set()
    await heal()
    await opening
    await works(scene)


async def idle(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """Nothing is going on; afterwards the client works as before."""
    await scene.client.connect()
    await strike(scene)()
    await works(scene)


async def submitting(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """The submit is on its way: the job runs once, and its result comes."""
    await scene.client.connect()
    submitted = asyncio.ensure_future(scene.client.submit("echo", "x"))
    await scene.until(lambda: "job.submit" in scene.tamper.sent)
    await strike(scene)()
    job = await submitted
    await ends(job.result(), "x", outcome)
    assert scene.runs == 1
    check_order(scene, job.id, 3, outcome)


async def streaming(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """A third of a job's events came; the rest comes, in order, once each."""
    await scene.client.connect()
    job = await scene.client.submit("stream")
    await scene.until(lambda: len(scene.progress) >= STEPS // 3)
    await strike(scene)()
    await ends(job.result(), STEPS, outcome)
    check_order(scene, job.id, STEPS, outcome)


async def chunk_stream(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """A third of a result came; the whole comes."""
    await scene.client.connect()
    job = await scene.client.submit("chunks")
    pieces: list[bytes] = []
    heal: Awaitable[None] | None = None

    async def read() -> None:
        nonlocal heal
        async for piece in job.chunks():
            pieces.append(piece)
            if len(pieces) == STEPS // 3:
                heal = asyncio.ensure_future(strike(scene)())

    whole = "".join(f"{n}," for n in range(STEPS))
    await ends(read(), None, outcome)
    await ends(job.result(), whole, outcome)
    assert heal is not None
    await heal
    if outcome.jobs:
        assert b"".join(pieces).decode() == whole


async def cancelling(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """The cancel is on its way: the job ends as cancelled.

    In a fresh session the cancel may be refused, since only the submitting session has that right
    (§7.4); the refusal is what the caller gets.
    """
    await scene.client.connect()
    job = await scene.client.submit("stuck")
    await scene.until(lambda: bool(scene.progress))
    cancelled = asyncio.ensure_future(job.cancel())
    await scene.until(lambda: "job.cancel" in scene.tamper.sent)
    await strike(scene)()
    try:
        await cancelled
    except PermissionDenied:
        assert not outcome.whole
        return
    with pytest.raises(JobCancelled if outcome.jobs else JobError):
        await job.result()


async def closing(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """The goodbye is on its way: close() returns within its bound, and nothing connects after."""
    await scene.client.connect()
    left = asyncio.ensure_future(scene.client.close())
    await scene.until(
        lambda: "session.bye" in scene.tamper.sent or "session.close" in scene.tamper.sent
    )
    healed = asyncio.ensure_future(strike(scene)())
    await left
    healed.cancel()
    await asyncio.gather(healed, return_exceptions=True)
    assert scene.client.state == Closed(None)
    links = scene.tamper.links
    await asyncio.sleep(0)
    assert scene.tamper.links == links


async def resuming(scene: Scene, strike: Strike, outcome: Outcome) -> None:
    """A link was lost in mid-stream and another one is being made: in the end all is there."""
    await scene.client.connect()
    job = await scene.client.submit("stream")
    await scene.until(lambda: len(scene.progress) >= STEPS // 3)
    scene.proxy.cut()
    await scene.until(lambda: not isinstance(scene.client.state, Live))
    await strike(scene)()
    await ends(job.result(), STEPS, outcome)
    if strike is faults.gap:
        # What even the resume does not bring is lost, as far as anybody can tell: it is said.
        (gap,) = scene.gaps
        assert (gap.reason, gap.first) == ("lost", gap.last)
        missing = gap.first - 1
        assert scene.seen_of(job.id) == [n for n in range(STEPS) if n != missing]
        return
    check_order(scene, job.id, STEPS, outcome)


PHASES: dict[str, Phase] = {
    "connecting": connecting,
    "handshaking": handshaking,
    "idle": idle,
    "submitting": submitting,
    "streaming": streaming,
    "chunk stream": chunk_stream,
    "cancelling": cancelling,
    "closing": closing,
    "resuming": resuming,
}

VOID: dict[tuple[str, str], str] = {
    ("gap", "connecting"): "no event comes before there is a session",
    ("gap", "handshaking"): "no event comes before there is a session",
    ("gap", "cancelling"): "the only event left is the end, with nothing behind it to show a gap",
    ("gap", "closing"): "nobody waits for events of a session that is being closed",
    ("reorder frames", "closing"): "one frame is left, and one frame has no order",
    ("token lost", "closing"): "nothing is resumed after a close",
    ("resume refused", "closing"): "nothing is resumed after a close",
    ("resume refused", "connecting"): "there is nothing to resume yet",
    ("resume refused", "handshaking"): "there is nothing to resume yet",
}


# ---------------------------------------------------------------------- demands


async def works(scene: Scene) -> None:
    """The client does what it is for."""
    job = await scene.client.submit("echo", "still here")
    assert (await job.result()).value == "still here"


async def ends(waiting: Awaitable[object], value: object, outcome: Outcome) -> None:
    """It comes to the end that the fault allows."""
    if outcome.jobs:
        result = await waiting
        assert getattr(result, "value", None) == value
        return
    try:
        result = await waiting
    except JobError:
        return
    assert getattr(result, "value", None) == value


def check_order(scene: Scene, job_id: str, count: int, outcome: Outcome) -> None:
    seen = scene.seen_of(job_id)
    if outcome.jobs:
        assert seen == list(range(count))
    else:
        assert seen == list(range(len(seen)))
    reasons = [gap.reason for gap in scene.gaps]
    assert not reasons if outcome.whole else set(reasons) <= {"unknown_end"}


CELLS = [
    pytest.param(fault, phase, id=f"{fault}-{phase}")
    for fault in FAULTS
    for phase in PHASES
    if (fault, phase) not in VOID
]


@pytest.mark.timeout(BOUND + 15)
@pytest.mark.parametrize(("fault", "phase"), CELLS)
async def test_cell(tmp_path: Path, fault: str, phase: str) -> None:
    strike, outcome = FAULTS[fault]
    played = Scene(tmp_path, durable=fault == "runtime restarted")
    async with asyncio.timeout(BOUND), played.played() as scene:
        await PHASES[phase](scene, strike, outcome)


def test_the_matrix_is_whole() -> None:
    assert len(FAULTS) * len(PHASES) == 117
    assert len(CELLS) + len(VOID) == 117
    assert len(VOID) <= 25
    assert all(fault in FAULTS and phase in PHASES for fault, phase in VOID)
