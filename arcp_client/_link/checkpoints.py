"""Writes checkpoints to a store, and delays events until they are reserved.

A checkpoint has two numbers. All events up to the *watermark* are processed by all consumers. The
*reserved number* is saved before events are delivered: no handler gets an event above it (with one
exception: see below the table). So the client that starts after a crash knows which unprocessed
events a handler may have seen: those up to the reserved number.

A save sets the reserved number to *n* above the last event that the fastest consumer has processed,
where *n* is the parameter ``every``. So a slow consumer does not delay a fast one. Later events
wait here. The slowest consumer sets the watermark. After a crash, all lanes get the events above
the saved watermark again. Of these events:

- At most *n* were processed by every consumer. A fast consumer can get more repeats.
- At most *n* are marked as redelivered although no handler has seen them.

The stream of events has one of four states. In FLOW, an event is published when it arrives. In
WAIT, events wait until they are reserved. In TOKEN, they wait until the resume token of a new
welcome is saved. In STOPPED, they wait for ever.

======  ================================================  =======
events  on                                                next
======  ================================================  =======
FLOW    events that are reserved                          FLOW
FLOW    an event that is not reserved                     WAIT
FLOW    a welcome                                         TOKEN
WAIT    events                                            WAIT
WAIT    saved, and some waiting events are reserved       WAIT
WAIT    saved, and all waiting events are reserved        FLOW
WAIT    a failed save                                     WAIT
WAIT    a welcome                                         TOKEN
TOKEN   events                                            TOKEN
TOKEN   a failed save                                     TOKEN
TOKEN   a welcome                                         TOKEN
TOKEN   saved, and all waiting events are reserved        FLOW
TOKEN   saved, and a waiting event is not reserved        WAIT
any     stopped                                           STOPPED
======  ================================================  =======

The exception: if a welcome begins another session, all waiting events are published first, reserved
or not, because the runtime does not send the events of the earlier session again.

See rule S10 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from arcp_client._deadline import Deadline
from arcp_client._tasks import TaskOwner, pass_on
from arcp_client.errors import StoreLocked
from arcp_client.events import Event, Gap
from arcp_client.models import Checkpoint

__all__ = ["Checkpointer"]

_log = logging.getLogger("arcp_client.checkpoints")

RETRY = 1.0
"""Seconds until a failed save is tried again."""

Item = Event | Callable[[], None]


class Checkpointer:
    """Writes the checkpoints of one client, and holds events back until they are reserved.

    While saves fail, no events above the reserved number are delivered, and no events above the
    saved watermark are acknowledged. A failure is logged once, and the save is retried every
    second. After StoreLocked, which means that another client has taken the lock of the store, the
    save is not retried.

    Args:
        save: writes a checkpoint to the store.
        snapshot: returns the current checkpoint with a given reserved number; ``None`` before the
            first welcome.
        saved: called with every saved checkpoint.
        fenced: called with StoreLocked when another client has taken the lock. Saving then ends.
        publish: publishes reserved events.
        held_back: called when events have to wait to be reserved, perhaps until handlers have
            processed earlier events.
        reorder_block_end: some runtimes send the events of a range of numbers, a block, in mixed
            order, so a block is reserved as a whole. Returns the last number of the block of a
            given number.
        idle: whether all consumers have processed all published events.
        urgent: whether a running handler waits for a later event. If so, events are reserved
            independently of the progress of handlers.
        every: events between two checkpoints, and events that are reserved at a time.
        interval: seconds between two checkpoints.
    """

    def __init__(
        self,
        *,
        save: Callable[[Checkpoint], Awaitable[None]],
        snapshot: Callable[[int], Checkpoint | None],
        saved: Callable[[Checkpoint], None],
        publish: Callable[[list[Event]], None],
        reorder_block_end: Callable[[int], int],
        idle: Callable[[], bool],
        urgent: Callable[[], bool],
        every: int,
        interval: float,
        held_back: Callable[[], None] = lambda: None,
        fenced: Callable[[StoreLocked], None] = lambda _error: None,
    ) -> None:
        self._save_to = save
        self._snapshot = snapshot
        self._saved_hook = saved
        self._fenced = fenced
        self._publish = publish
        self._held_back = held_back
        self._reorder_block_end = reorder_block_end
        self._idle = idle
        self._urgent = urgent
        self._every = every
        self._step = max(every // 2, 1)
        self._interval = interval
        self._session = ""
        self._reserved = 0
        self._inherited = 0
        self._top = 0
        self._done = 0
        self._done_saved = 0
        self._held: deque[Item] = deque()
        self._offered = 0
        self._passed = 0
        self._passed_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self._token_waits = False
        self._epoch = 0
        self._requests = 0
        self._flushing: list[tuple[int, asyncio.Future[bool]]] = []
        self._save_requested = asyncio.Event()
        self._flush_requested = asyncio.Event()
        self._failing = False
        self._last: Checkpoint | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._owner = TaskOwner("arcp_client.checkpoints")
        self._stopped = False

    # -- state

    @property
    def held(self) -> int:
        """The number of events that wait to be reserved."""
        return len(self._held)

    @property
    def first_held(self) -> int | None:
        """The lowest number of the events that wait."""
        return next((n for n in map(self._number, self._held) if n is not None), None)

    @property
    def last(self) -> Checkpoint | None:
        """The last saved checkpoint."""
        return self._last

    @property
    def seen(self) -> int:
        """The highest number that this process has published, or an earlier one may have."""
        return max(self._inherited, self._top)

    # -- changes

    def start(self, checkpoint: Checkpoint | None) -> None:
        """Start to write, from the checkpoint of an earlier process if there is one."""
        if checkpoint is not None:
            self._session = checkpoint.session_id
            self._reserved = self._inherited = checkpoint.reserved
            self._top = self._done = self._done_saved = checkpoint.mark
            self._last = checkpoint
        self._owner.spawn(self._write(), name="writer")

    def offer(self, events: list[Event]) -> None:
        """Publish the events that are reserved, in order, and hold the others back."""
        self._offered += len(events)
        if not self._held and not self._token_waits and not self._stopped:
            last = max((n for n in map(self._number, events) if n is not None), default=0)
            if self._reorder_block_end(last) <= self._reserved:
                self._pass(events)
                self._reserve_ahead()
                return
        self._held += events
        self._release()

    def after(self, action: Callable[[], None]) -> None:
        """Call a function after all offered events have been published."""
        if self._held:
            self._offered += 1
            self._held.append(action)
        else:
            action()

    def processed(self, event: Event | None) -> None:
        """Count a processed event. With ``None``, only check whether more can be reserved."""
        if event is not None:
            number = self._number(event)
            if number is not None and number > self._done:
                self._done = number
        if self._held:
            self._request_reservation()
        elif self._done - self._done_saved >= self._step:
            self._request_save()

    def hold_until_saved(self, session_id: str, *, fresh: bool) -> None:
        """Hold events back until the resume token of a new welcome is saved (rule S5)."""
        self._epoch += 1
        if fresh or session_id != self._session:
            while self._held:
                self._pass_item(self._held.popleft())  # no resume would replay them
            self._session = session_id
            self._reserved = self._inherited = 0
            self._top = self._done = self._done_saved = 0
        self._token_waits = True
        self._request_save()

    def schedule(self) -> None:
        """Schedule a save after ``interval``."""
        if self._timer is None and not self._stopped:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval, self._due)

    async def flush(self) -> bool:
        """Save now. Returns after the attempt: whether it succeeded."""
        if self._stopped:
            return False
        self._flush_requested.set()
        self._request_save()
        settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flushing.append((self._requests, settled))
        return await settled

    def passed(self) -> asyncio.Future[None]:
        """A future that resolves when all events offered so far have been published."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._held:
            self._passed_waiters.append((self._offered, future))
        else:
            future.set_result(None)
        return future

    async def stop(self, deadline: Deadline | None = None) -> None:
        """Stop saving and publishing.

        Args:
            deadline: until when to wait for a save that does not react to its cancellation.
        """
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
        self._held.clear()
        for _, waiter in self._passed_waiters:
            waiter.cancel()
        await self._owner.close(deadline=deadline)
        for _, settled in self._flushing:
            if not settled.done():
                settled.set_result(False)

    # -- reservations

    def _number(self, item: Item) -> int | None:
        """The number of an event; ``None`` for a `Gap`, an action, or another session's event."""
        if not isinstance(item, Event) or type(item) is Gap or item.session_id != self._session:
            return None
        return item.seq

    def _reservable(self) -> int:
        """The number up to which events may be reserved now."""
        reached = self._done
        if self._idle():
            # Numbers below the first waiting event that were not published need no handling: they
            # are repeats, for example in the history of a job after a new session was begun.
            reached = max(self._top, (self.first_held or 0) - 1)
        if self._urgent():
            reached = max(reached, self._reserved)
        return max(self._reserved, self._reorder_block_end(reached + self._every))

    def _request_reservation(self) -> None:
        """Request a save if it raises the reserved number or stores a new token."""
        if self._token_waits or self._reservable() > self._reserved:
            self._request_save()

    def _reserve_ahead(self) -> None:
        """Request the next reserved number before events reach the present one."""
        if self._top - self._done_saved >= self._step and self._idle():
            self._done = self._top
            self._request_save()

    def _release(self) -> None:
        """Publish the held events that are now reserved."""
        if self._token_waits or self._stopped:
            return
        ready: list[Event] = []
        while self._held:
            item = self._held[0]
            number = self._number(item)
            if number is not None and self._reorder_block_end(number) > self._reserved:
                break
            self._held.popleft()
            if isinstance(item, Event):
                ready.append(item)
            else:
                self._pass(ready)
                ready = []
                self._pass_item(item)
        self._pass(ready)
        if self._held:
            self._request_reservation()
            self._held_back()

    def _pass(self, events: list[Event]) -> None:
        if not events:
            return
        for event in reversed(events):
            number = self._number(event)
            if number is not None:
                self._top = max(self._top, self._reorder_block_end(number))
                break
        self._publish(events)
        self._count(len(events))

    def _pass_item(self, item: Item) -> None:
        if isinstance(item, Event):
            self._publish([item])
        else:
            item()
        self._count(1)

    def _count(self, passed: int) -> None:
        self._passed += passed
        while self._passed_waiters and self._passed_waiters[0][0] <= self._passed:
            waiter = self._passed_waiters.pop(0)[1]
            if not waiter.done():
                waiter.set_result(None)

    # -- writing

    def _due(self) -> None:
        self._timer = None
        self._request_save()

    def _request_save(self) -> None:
        self._requests += 1
        self._save_requested.set()

    async def _write(self) -> None:
        while True:
            await self._save_requested.wait()
            self._save_requested.clear()
            self._flush_requested.clear()
            requests = self._requests
            try:
                succeeded = await self._save()
            except StoreLocked as error:
                self._stopped = True  # a retry cannot succeed, and no more events may be delivered
                self._settle(self._requests, False)
                self._fenced(error)
                return
            self._settle(requests, succeeded)
            if not succeeded:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY):
                        await self._flush_requested.wait()
                self._save_requested.set()

    async def _save(self) -> bool:
        epoch, goal, done = self._epoch, self._reservable(), self._done
        checkpoint = self._snapshot(goal)
        if checkpoint is None:
            return True
        if checkpoint != self._last:
            task = asyncio.current_task()
            try:
                await self._save_to(checkpoint)
            except StoreLocked:
                raise
            except BaseException as error:  # noqa: BLE001  a user's store may raise anything
                pass_on(error, task)
                self._failed(error)
                return False
            self._last = checkpoint
            if self._failing:
                _log.warning("checkpoints can be saved again")
                self._failing = False
        if epoch == self._epoch:  # otherwise the token of a later welcome must be saved first
            self._reserved = goal
            self._done_saved = max(self._done_saved, done)
            self._token_waits = False
            self._saved_hook(checkpoint)
            self._release()
        return True

    def _failed(self, error: BaseException) -> None:
        if not self._failing:
            self._failing = True
            # The store's error message may quote the row, and with it the token.
            _log.error(
                "a checkpoint cannot be saved (%s): until it can, no events are acknowledged and"
                " new events wait",
                type(error).__name__,
            )

    def _settle(self, attempted: int, succeeded: bool) -> None:
        waiting, self._flushing = self._flushing, []
        for count, settled in waiting:
            if count > attempted:
                self._flushing.append((count, settled))
            elif not settled.done():
                settled.set_result(succeeded)
