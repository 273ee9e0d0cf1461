"""The writer of checkpoints, whose store lets another client take the place of this one."""

from __future__ import annotations

from arcp_client._link.checkpoints import Checkpointer
from arcp_client.errors import StoreLocked
from arcp_client.events import Event, Log
from arcp_client.models import Checkpoint
from arcp_client.testing import VirtualClock


def log(seq: int) -> Log:
    return Log(seq=seq, session_id="sess_1", job_id="job_1", message=str(seq))


async def test_s10_a_fenced_writer_publishes_and_saves_no_more(clock: VirtualClock) -> None:
    """Also before its client has stopped it: `fenced` only begins the client's end."""
    published: list[Event] = []
    fenced: list[StoreLocked] = []

    async def save(checkpoint: Checkpoint) -> None:
        raise StoreLocked("another process took the checkpoint over")

    writer = Checkpointer(
        save=save,
        snapshot=lambda mark: Checkpoint(session_id="sess_1", resume_token="t", mark=mark),
        saved=lambda _: None,
        publish=published.extend,
        reorder_block_end=lambda number: number,
        idle=lambda: False,
        urgent=lambda: False,
        every=4,
        interval=1.0,
        fenced=fenced.append,
    )
    writer.start(None)
    writer.hold_until_saved("sess_1", fresh=True)
    writer.offer([log(1)])
    await clock.advance(5.0)
    assert len(fenced) == 1
    writer.offer([log(2)])
    assert await writer.flush() is False
    await clock.advance(60.0)
    assert len(fenced) == 1
    assert published == []
    await writer.stop()
