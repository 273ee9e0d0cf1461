"""The conformance kit of stores: what a client relies on in a `CheckpointStore`."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeAlias

from arcp_client._tasks import start
from arcp_client.errors import StoreLocked
from arcp_client.models import Checkpoint, EndedJob, OpenJob
from arcp_client.stores.base import CheckpointStore
from arcp_client.testing._checks import expect, raises, run_all

__all__ = ["STORE_CHECKS", "StoreCase", "check_store"]

TARGET, KEY = "ws://127.0.0.1:7777/arcp", "default"

CHECKPOINT = Checkpoint(
    session_id="sess_1",
    resume_token="rt-secret",
    mark=7,
    processed=((9, 12), (20, 20)),
    reserved=30,
    jobs=(OpenJob("job_1", "echo@1.0.0", "key-1", "ab" * 32, seen=("id-1", "id-2")),),
    ended=(
        EndedJob("job_9", "echo@1.0.0", "key-9", "cd" * 32, outcome='{"end":"completed"}'),
        EndedJob("job_0", "echo@1.0.0", "key-0", "ef" * 32, outcome='{"end":"failed"}'),
    ),
)


@dataclasses.dataclass(frozen=True, slots=True)
class StoreCase:
    """What a check of a store gets.

    Attributes:
        make: makes a new and empty store.
        again: opens the data of a store as a later process would; ``None`` if it cannot be.
    """

    make: Callable[[], CheckpointStore]
    again: Callable[[CheckpointStore], CheckpointStore] | None = None


StoreCheck: TypeAlias = Callable[[StoreCase], Awaitable[None]]


async def has_the_attributes_of_the_interface(case: StoreCase) -> None:
    """`durable`, `every` and `interval` are there and make sense."""
    store = case.make()
    expect(isinstance(store, CheckpointStore), "a store has every member of CheckpointStore")
    expect(isinstance(store.durable, bool), "durable is True or False")
    expect(type(store.every) is int and store.every >= 1, "every is a number of events, from 1 on")
    expect(store.interval > 0, "interval is a positive number of seconds")


async def gives_back_what_was_saved(case: StoreCase) -> None:
    """The next holder gets the checkpoint that was saved last, equal in every field."""
    store = case.make()
    expect(await store.acquire(TARGET, KEY) is None, "acquire returns None before the first save")
    await store.save(TARGET, KEY, dataclasses.replace(CHECKPOINT, mark=1, ended=()))
    await store.save(TARGET, KEY, CHECKPOINT)
    await store.release(TARGET, KEY)
    found = await store.acquire(TARGET, KEY)
    expect(found == CHECKPOINT, f"acquire returns what was saved last, not {found}")
    await store.release(TARGET, KEY)


async def replaces_jobs_and_keeps_their_order(case: StoreCase) -> None:
    """A save replaces all jobs of the checkpoint; their order is kept."""
    store = case.make()
    first, second = CHECKPOINT.ended
    third = EndedJob("job_5", "say", "key-5", "ab" * 32, outcome="{}")
    changed = dataclasses.replace(CHECKPOINT, jobs=(), ended=(second, third))
    await store.acquire(TARGET, KEY)
    await store.save(TARGET, KEY, CHECKPOINT)
    await store.save(TARGET, KEY, changed)
    await store.release(TARGET, KEY)
    found = await store.acquire(TARGET, KEY)
    expect(found == changed, "a save replaces the open and the ended jobs, in their order")
    await store.save(TARGET, KEY, dataclasses.replace(CHECKPOINT, ended=(second, first)))
    await store.release(TARGET, KEY)
    found = await store.acquire(TARGET, KEY)
    expect(found is not None and found.ended == (second, first), "the order of jobs is kept")
    await store.release(TARGET, KEY)


async def keeps_large_checkpoints(case: StoreCase) -> None:
    """A checkpoint of many jobs and ranges comes back whole."""
    store = case.make()
    ended = tuple(EndedJob(f"job_{n}", "a", f"k-{n}", "ab" * 32, "x" * 1000) for n in range(256))
    ranges = tuple((3 * n, 3 * n + 1) for n in range(10, 1010))
    large = dataclasses.replace(CHECKPOINT, ended=ended, processed=ranges, mark=2**53)
    await store.acquire(TARGET, KEY)
    await store.save(TARGET, KEY, large)
    await store.release(TARGET, KEY)
    expect(await store.acquire(TARGET, KEY) == large, "a large checkpoint comes back whole")
    await store.release(TARGET, KEY)


async def deletes_a_checkpoint_and_no_other(case: StoreCase) -> None:
    """Delete removes one checkpoint, is idempotent, and leaves the others."""
    store = case.make()
    await store.acquire(TARGET, KEY)
    await store.acquire("elsewhere", KEY)
    await store.save(TARGET, KEY, CHECKPOINT)
    await store.save("elsewhere", KEY, CHECKPOINT)
    await store.delete(TARGET, KEY)
    await store.delete(TARGET, KEY)
    await store.release(TARGET, KEY)
    await store.release("elsewhere", KEY)
    expect(await store.acquire(TARGET, KEY) is None, "a deleted checkpoint is gone")
    other = await store.acquire("elsewhere", KEY)
    expect(other == CHECKPOINT, "a delete leaves the checkpoints of other targets")
    await store.release(TARGET, KEY)
    await store.release("elsewhere", KEY)


async def lets_one_holder_in_at_a_time(case: StoreCase) -> None:
    """A second acquire raises StoreLocked until the first holder releases the checkpoint."""
    store = case.make()
    await store.acquire(TARGET, KEY)
    await raises(StoreLocked, store.acquire(TARGET, KEY), "a second acquire raises StoreLocked")
    await store.acquire(TARGET, "another")
    await store.acquire("elsewhere", KEY)
    await store.release(TARGET, KEY)
    await store.release(TARGET, KEY)
    await store.acquire(TARGET, KEY)
    for target, key in ((TARGET, KEY), (TARGET, "another"), ("elsewhere", KEY)):
        await store.release(target, key)


async def a_cancelled_acquire_holds_nothing(case: StoreCase) -> None:
    """After a cancelled acquire, the checkpoint can be acquired."""
    store = case.make()
    for ticks in range(6):
        acquiring = start(store.acquire(TARGET, KEY))
        for _ in range(ticks):
            await asyncio.sleep(0)
        acquiring.cancel()
        (result,) = await asyncio.gather(acquiring, return_exceptions=True)
        if not isinstance(result, BaseException):
            await store.release(TARGET, KEY)
        expect(await store.acquire(TARGET, KEY) is None, "a cancelled acquire leaves no lock")
        await store.release(TARGET, KEY)


async def names_a_directory_for_results_or_none(case: StoreCase) -> None:
    """`spool` always returns the same directory for a checkpoint, or always None."""
    store = case.make()
    await store.acquire(TARGET, KEY)
    first = store.spool(TARGET, KEY)
    expect(store.spool(TARGET, KEY) == first, "spool returns the same directory each time")
    if first is not None:
        expect(store.spool(TARGET, "another") != first, "each checkpoint has its own directory")
    await store.release(TARGET, KEY)


async def a_durable_store_outlives_its_process(case: StoreCase) -> None:
    """With ``again``: a later process finds the checkpoint, and the lock of a live one."""
    store = case.make()
    if case.again is None:
        return
    await store.acquire(TARGET, KEY)
    await store.save(TARGET, KEY, CHECKPOINT)
    later = case.again(store)
    await raises(
        StoreLocked, later.acquire(TARGET, KEY), "another process cannot acquire a held checkpoint"
    )
    await store.release(TARGET, KEY)
    found = await later.acquire(TARGET, KEY)
    expect(found == CHECKPOINT, "a later process finds the checkpoint")
    await later.release(TARGET, KEY)


STORE_CHECKS: tuple[StoreCheck, ...] = (
    has_the_attributes_of_the_interface,
    gives_back_what_was_saved,
    replaces_jobs_and_keeps_their_order,
    keeps_large_checkpoints,
    deletes_a_checkpoint_and_no_other,
    lets_one_holder_in_at_a_time,
    a_cancelled_acquire_holds_nothing,
    names_a_directory_for_results_or_none,
    a_durable_store_outlives_its_process,
)
"""The checks of `check_store`, to run each as a test of its own with a `StoreCase`."""


async def check_store(
    make: Callable[[], CheckpointStore],
    *,
    again: Callable[[CheckpointStore], CheckpointStore] | None = None,
) -> None:
    """Check that a store does what a client relies on.

    Not checked: that a lock ends with its process, also after ``kill -9``, and that a crash during
    a save leaves the old checkpoint or the new one.

    Args:
        make: makes a new and empty store; called once for each check.
        again: opens the data of a store that ``make`` returned once more, as a later process would.
            Without it, nothing is checked about a restart.

    Raises:
        AssertionError: the store violates a rule; the message says which, a note names the check.
    """
    case = StoreCase(make, again)
    names = [check.__name__ for check in STORE_CHECKS]
    await run_all([partial(check, case) for check in STORE_CHECKS], names)
