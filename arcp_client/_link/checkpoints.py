"""Writes checkpoints to a store, and delays events until the store covers them (S10).

Two numbers are written. A *reservation* is written ahead of delivery: no handler sees an event
above it. After a crash, unprocessed events up to the reservation may have been seen; those above it
were not. A *checkpoint* is the number up to which all events were processed.

A reservation reaches ``every`` events beyond the last event that the fastest consumer has
processed. Events above it wait here. A slow consumer does not delay it. So a crash repeats at most
``every`` events of a lane, and marks at most ``every`` events that no handler has seen.

======  ================================================  =======
events  on                                                next
======  ================================================  =======
FLOW    events that are reserved                          FLOW
FLOW    an event that is not reserved                     WAIT
FLOW    a welcome                                         TOKEN
WAIT    events                                            WAIT
WAIT    saved, and some of what waits is reserved         WAIT
WAIT    saved, and all of what waits is reserved          FLOW
WAIT    a save that failed                                WAIT
WAIT    a welcome                                         TOKEN
TOKEN   events                                            TOKEN
TOKEN   a save that failed                                TOKEN
TOKEN   a welcome                                         TOKEN
TOKEN   saved, and all of what waits is reserved          FLOW
TOKEN   saved, and an event that waits is not reserved    WAIT
any     stopped                                           STOPPED
======  ================================================  =======

In FLOW an event is published when it arrives; in the other states it waits, in STOPPED for ever. A
welcome of another session first publishes all that waits, because no resume would bring it again.
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
    """Writes the checkpoints of one client, and holds back what is not reserved yet.

    While saving fails nothing new is delivered or acknowledged: it is reported once, and tried
    again every second. A store that raises StoreLocked is tried no more.

    Args:
        save: puts a checkpoint into the store.
        snapshot: the checkpoint as it stands, with the reservation that it is given; ``None``
            before the first welcome.
        saved: told of every checkpoint that was saved.
        fenced: told that somebody else holds the store now: nothing is saved any more.
        publish: takes the events that may be seen now.
        whole: gives the last number of those that are reserved together with a number.
        idle: whether all consumers are done with all that was published.
        urgent: whether a running handler waits for what only later events bring; then they are
            reserved however far the handlers are.
        every: events between two checkpoints, and the length of a reservation.
        interval: seconds between two checkpoints.
    """

    def __init__(
        self,
        *,
        save: Callable[[Checkpoint], Awaitable[None]],
        snapshot: Callable[[int], Checkpoint | None],
        saved: Callable[[Checkpoint], None],
        publish: Callable[[list[Event]], None],
        whole: Callable[[int], int],
        idle: Callable[[], bool],
        urgent: Callable[[], bool],
        every: int,
        interval: float,
        fenced: Callable[[StoreLocked], None] = lambda _error: None,
    ) -> None:
        self._save_to = save
        self._snapshot = snapshot
        self._told = saved
        self._fenced = fenced
        self._publish = publish
        self._whole = whole
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
        self._passing: list[tuple[int, asyncio.Future[None]]] = []
        self._token_waits = False
        self._epoch = 0
        self._wanted = 0
        self._tried = 0
        self._flushing: list[tuple[int, asyncio.Future[bool]]] = []
        self._news = asyncio.Event()
        self._hurry = asyncio.Event()
        self._failing = False
        self._last: Checkpoint | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._owner = TaskOwner("arcp_client.checkpoints")
        self._stopped = False

    # -- questions

    @property
    def held(self) -> int:
        """Events that wait for their reservation."""
        return len(self._held)

    @property
    def first_held(self) -> int | None:
        """The lowest number among them."""
        return next((n for n in map(self._number, self._held) if n is not None), None)

    @property
    def last(self) -> Checkpoint | None:
        """What was saved last."""
        return self._last

    @property
    def seen(self) -> int:
        """No event above it was published, in this life or an earlier one."""
        return max(self._inherited, self._top)

    # -- what happens

    def start(self, checkpoint: Checkpoint | None) -> None:
        """Begin, from what an earlier life saved."""
        if checkpoint is not None:
            self._session = checkpoint.session_id
            self._reserved = self._inherited = checkpoint.reserved
            self._top = self._done = self._done_saved = checkpoint.mark
            self._last = checkpoint
        self._owner.spawn(self._write(), name="writer")

    def offer(self, events: list[Event]) -> None:
        """Events arrived, in order: publish those that are reserved, hold the others back."""
        self._offered += len(events)
        if not self._held and not self._token_waits and not self._stopped:
            last = max((n for n in map(self._number, events) if n is not None), default=0)
            if self._whole(last) <= self._reserved:
                self._pass(events)
                self._look_ahead()
                return
        self._held += events
        self._release()

    def after(self, action: Callable[[], None]) -> None:
        """Do something after all events that were offered were published."""
        if self._held:
            self._offered += 1
            self._held.append(action)
        else:
            action()

    def finished(self, event: Event | None) -> None:
        """A consumer is done with an event; ``None``: look again at how far events may go."""
        if event is not None:
            number = self._number(event)
            if number is not None and number > self._done:
                self._done = number
        if self._held:
            self._ask()
        elif self._done - self._done_saved >= self._step:
            self._want()

    def renewed(self, session_id: str, *, fresh: bool) -> None:
        """A welcome brought a new token: it is saved before anything else is delivered (S5)."""
        self._epoch += 1
        if fresh or session_id != self._session:
            while self._held:
                self._pass_item(self._held.popleft())  # no resume brings them any more
            self._session = session_id
            self._reserved = self._inherited = 0
            self._top = self._done = self._done_saved = 0
        self._token_waits = True
        self._want()

    def changed(self) -> None:
        """Something is going on: save it before long."""
        if self._timer is None and not self._stopped:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._interval, self._due)

    async def flush(self) -> bool:
        """Save now; returns after the attempt, with whether it succeeded."""
        if self._stopped:
            return False
        self._hurry.set()
        self._want()
        settled: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._flushing.append((self._wanted, settled))
        return await settled

    def passed(self) -> asyncio.Future[None]:
        """Done when everything that was offered until now is published."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self._held:
            self._passing.append((self._offered, future))
        else:
            future.set_result(None)
        return future

    async def stop(self, deadline: Deadline | None = None) -> None:
        """Save no more, and publish nothing more.

        Args:
            deadline: when to wait no longer for a save that swallows its cancellation.
        """
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._held.clear()
        for _, waiter in self._passing:
            waiter.cancel()
        await self._owner.close(deadline=deadline)
        for _, settled in self._flushing:
            if not settled.done():
                settled.set_result(False)

    # -- how far events may go

    def _number(self, item: Item) -> int | None:
        """The number that counts; a `Gap` has none, nor what another session numbered."""
        if not isinstance(item, Event) or type(item) is Gap or item.session_id != self._session:
            return None
        return item.seq

    def _goal(self) -> int:
        """How far a reservation may reach now."""
        reached = self._top if self._idle() else self._done
        if self._urgent():
            reached = max(reached, self._reserved)
        return max(self._reserved, self._whole(reached + self._every))

    def _ask(self) -> None:
        """Ask for a reservation if events wait for one that can be had."""
        if self._token_waits or self._goal() > self._reserved:
            self._want()

    def _look_ahead(self) -> None:
        """The next block is on its way before this one is used up."""
        if self._top - self._done_saved >= self._step and self._idle():
            self._done = self._top
            self._want()

    def _release(self) -> None:
        """Publish what is reserved of what was held back."""
        if self._token_waits or self._stopped:
            return
        ready: list[Event] = []
        while self._held:
            item = self._held[0]
            number = self._number(item)
            if number is not None and self._whole(number) > self._reserved:
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
            self._ask()

    def _pass(self, events: list[Event]) -> None:
        if not events:
            return
        for event in reversed(events):
            number = self._number(event)
            if number is not None:
                self._top = max(self._top, self._whole(number))
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
        while self._passing and self._passing[0][0] <= self._passed:
            waiter = self._passing.pop(0)[1]
            if not waiter.done():
                waiter.set_result(None)

    # -- writing

    def _due(self) -> None:
        self._timer = None
        self._want()

    def _want(self) -> None:
        self._wanted += 1
        self._news.set()

    async def _write(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            self._hurry.clear()
            wanted = self._wanted
            try:
                succeeded = await self._save()
            except StoreLocked as error:
                self._stopped = True  # a retry would not help, nor may anything be delivered
                self._tried = self._wanted
                self._settle(False)
                self._fenced(error)
                return
            self._tried = wanted
            self._settle(succeeded)
            if not succeeded:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY):
                        await self._hurry.wait()
                self._news.set()

    async def _save(self) -> bool:
        epoch, goal, done = self._epoch, self._goal(), self._done
        checkpoint = self._snapshot(goal)
        if checkpoint is None:
            return True
        if checkpoint != self._last:
            task = asyncio.current_task()
            try:
                await self._save_to(checkpoint)
            except StoreLocked:
                raise
            except BaseException as error:  # noqa: BLE001  a store of the user's may raise anything
                pass_on(error, task)
                self._failed(error)
                return False
            self._last = checkpoint
            if self._failing:
                _log.warning("checkpoints can be saved again")
                self._failing = False
        if epoch == self._epoch:  # else another welcome came meanwhile, and its token waits
            self._reserved = goal
            self._done_saved = max(self._done_saved, done)
            self._token_waits = False
            self._told(checkpoint)
            self._release()
        return True

    def _failed(self, error: BaseException) -> None:
        if not self._failing:
            self._failing = True
            # The message of a store may quote the row, and with it the token.
            _log.error(
                "a checkpoint cannot be saved (%s): nothing is acknowledged, and new events wait,"
                " until it can",
                type(error).__name__,
            )

    def _settle(self, succeeded: bool) -> None:
        waiting, self._flushing = self._flushing, []
        for count, settled in waiting:
            if count > self._tried:
                self._flushing.append((count, settled))
            elif not settled.done():
                settled.set_result(succeeded)
