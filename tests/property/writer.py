"""Checkpoints of a client that may be killed at any moment, a store that takes its time, lanes."""

from __future__ import annotations

import asyncio
import logging

from arcp_client._link.checkpoints import Checkpointer
from arcp_client._tasks import TaskOwner
from arcp_client.events import Event, Log
from arcp_client.models import Checkpoint

__all__ = ["INTERVAL", "Life"]

INTERVAL = 5.0


class Life:
    """A client's writer, from its start to its end or to the death of its process.

    Args:
        disk: what an earlier life saved.
        every: the length of a reservation.
        group: so many numbers are only reserved together.
        lanes: how many consumers there are.

    Attributes:
        disk: what is in the store.
        offered: events and actions, in order; `published` should become the same.
        done: for each lane, how many of the published events it is done with.
        wrong: what the writer would take for the store's fault.
        steps: each state that the events were in, and the next one.
        failures: how often saving began to fail.
    """

    def __init__(self, disk: Checkpoint | None, *, every: int, group: int, lanes: int) -> None:
        self.disk = disk
        self.every = every
        self.group = group
        self.offered: list[Event | str] = []
        self.published: list[Event | str] = []
        self.done = [0] * lanes
        self.session = disk.session_id if disk is not None else ""
        self.token = ""
        self.base = disk.mark if disk is not None else 0
        self.sent = self.base
        self.urgent = False
        self.failing = False
        self.failures = 0
        self.stopped = False
        self.state = "FLOW"
        self.wrong: list[str] = []
        self.steps: list[tuple[str, str]] = []
        self.saving: tuple[Checkpoint, asyncio.Future[None]] | None = None
        self.flushes: list[asyncio.Task[bool]] = []
        self.passes: list[tuple[int, asyncio.Future[None]]] = []
        self._letting_go = False
        self._attempts = 0
        self.writer = Checkpointer(
            save=self._save,
            snapshot=self._snapshot,
            saved=self._saved,
            publish=self._publish,
            reorder_block_end=self.reorder_block_end,
            idle=lambda: all(done == len(self.events) for done in self.done),
            urgent=lambda: self.urgent,
            every=every,
            interval=INTERVAL,
        )
        self._tasks = TaskOwner("life")
        self.writer.start(disk)

    # -- what the writer asks for

    def reorder_block_end(self, number: int) -> int:
        return -(-number // self.group) * self.group

    async def _save(self, checkpoint: Checkpoint) -> None:
        if self.saving is not None:
            self.wrong.append("one save at a time")
        # A crash repeats no more than a reservation of what any lane has got to.
        reached = max(
            self.reorder_block_end(self.furthest), self.disk_reserved if self.urgent else 0
        )
        if checkpoint.reserved > max(
            self.disk_reserved, self.reorder_block_end(reached + self.every)
        ):
            self.wrong.append(f"{checkpoint} reserves too much")
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.saving = checkpoint, future
        try:
            await future
        finally:
            self.saving = None

    def _snapshot(self, reserved: int) -> Checkpoint | None:
        self._attempts += 1
        if not self.session:
            return None
        return Checkpoint(self.session, self.token, mark=self.mark, reserved=reserved)

    def _saved(self, checkpoint: Checkpoint) -> None:
        assert checkpoint == self.disk
        if checkpoint.mark < self.sent:
            self.writer.schedule()

    def _publish(self, events: list[Event]) -> None:
        assert not self.stopped, "nothing is published after the end"
        assert events
        for event in events:
            if not self._letting_go:
                assert self.disk is not None
                assert self.disk.resume_token == self.token, "the token is saved first"
                assert event.seq is not None
                assert event.seq <= self.disk.reserved, "a restart would not know of it"
            self.published.append(event)
        self.writer.schedule()  # as the fan-out says that something is going on

    # -- how far everybody is

    @property
    def events(self) -> list[Event]:
        """What was published of the present session."""
        return [one for one in self.published if isinstance(one, Event) and self._is_present(one)]

    def _is_present(self, event: Event) -> bool:
        return event.session_id == self.session

    def _number(self, count: int) -> int:
        events = self.events
        return self.base if not count else (events[count - 1].seq or 0)

    @property
    def mark(self) -> int:
        """Every lane is done with what is not above it."""
        counts = self.done or [len(self.events)]
        return self._number(min(counts))

    @property
    def furthest(self) -> int:
        """How far the fastest lane is."""
        counts = self.done or [len(self.events)]
        return self._number(max(counts))

    @property
    def disk_reserved(self) -> int:
        disk = self.disk
        return disk.reserved if disk is not None and disk.session_id == self.session else 0

    # -- what happens

    def note(self) -> None:
        """Look in which state the events are."""
        writer = self.writer
        if self.state == "STOPPED":
            return
        if self.stopped:
            state = "STOPPED"
        elif self.token and (self.disk is None or self.disk.resume_token != self.token):
            state = "TOKEN"
        else:
            state = "WAIT" if writer.held else "FLOW"
        self.steps.append((self.state, state))
        self.state = state

    def welcome(self, *, fresh: bool, token: str) -> None:
        """A welcome opens a session, or resumes it."""
        if fresh or not self.session:
            self._letting_go = True
            session = f"{self.session}+"
            self.writer.hold_until_saved(session, fresh=True)
            self._letting_go = False
            assert self.published == self.offered, "no resume brings what was held"
            self.session, self.base, self.sent = session, 0, 0
            self.done = [0] * len(self.done)
        else:
            self.writer.hold_until_saved(self.session, fresh=False)
        self.token = token
        self.note()

    def offer(self, count: int) -> None:
        """Events come."""
        events: list[Event] = []
        for _ in range(count):
            self.sent += 1
            events.append(Log(seq=self.sent, session_id=self.session, message=str(self.sent)))
        self.offered += events
        self.writer.offer(events)
        self.note()

    def after(self) -> None:
        """Something is to be done behind the events that came until now."""
        name = f"action {len(self.offered)}"
        self.offered.append(name)
        self.writer.after(lambda: self.published.append(name))

    def finish(self, lane: int, count: int) -> None:
        """A lane is done with some more."""
        for _ in range(count):
            events = self.events
            if self.done[lane] < len(events):
                self.done[lane] += 1
                self.writer.processed(events[self.done[lane] - 1])

    def want(self, urgent: bool) -> None:
        """A handler waits for what later events bring, or no longer."""
        self.urgent = urgent
        self.writer.processed(None)

    def answer(self, works: bool) -> None:
        """The store is done with a save."""
        assert self.saving is not None
        checkpoint, future = self.saving
        if works:
            self.disk = checkpoint
            self.failing = False
            future.set_result(None)
        else:
            self.failures += not self.failing
            self.failing = True
            future.set_exception(OSError("no room"))

    def flush(self) -> None:
        self.flushes.append(self._tasks.spawn(self._flush()))

    async def _flush(self) -> bool:
        before = self._attempts
        saved = await self.writer.flush()
        finished = self._attempts - (self.saving is not None)
        if saved and finished <= before:
            self.wrong.append("a flush is not done by an attempt that began before it")
        return saved

    def passed(self) -> None:
        self.passes.append((len(self.offered), self.writer.passed()))

    async def stop(self) -> None:
        """An orderly end."""
        self.stopped = True
        await self.writer.stop()
        self.note()

    async def kill(self, *, saved: bool) -> None:
        """The process is gone; ``saved``: what was being saved is in the store all the same."""
        if saved and self.saving is not None:
            self.disk = self.saving[0]
        self.stopped = True
        await self.writer.stop()
        await self._tasks.close()
        for _, future in self.passes:
            future.cancel()


class Reports(logging.Handler):
    """Counts what is said of saving."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.count = 0

    def emit(self, record: logging.LogRecord) -> None:
        self.count += "cannot be saved" in record.getMessage()
