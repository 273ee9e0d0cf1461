"""Calls handlers in transactions of a store, for exactly-once effects.

``consumers`` is the layer above. The store's `Transactions` make the transactions and record which
events were handled; this module names the handlers and the events.

See rule D22 in docs/explanation/rules.md.
"""

from __future__ import annotations

import asyncio
import functools
import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from arcp_client import _arguments as check
from arcp_client._dispatch.registration import Handler
from arcp_client._rx.handling import name_of
from arcp_client.events import Event, Gap
from arcp_client.stores.base import CheckpointStore

__all__ = ["TransactionHandlers"]

_LONGEST = 128


class HandlerTransactions(Protocol):
    """What ``PostgresStore.transactions`` returns."""

    async def check(self) -> None:
        """Raise StorageError unless the pool leads to the database of the store."""

    async def run(
        self,
        handler: str,
        events: Sequence[tuple[str, str]],
        call: Callable[[Any, list[int]], Awaitable[object]],
    ) -> None:
        """Call a handler in a transaction, for those of the events that it has not handled."""


class TransactionHandlers:
    """The handlers of one client that are called in transactions.

    Args:
        store: the client's store.
        target: the address of the runtime.
        key: the client's key.
        timeout: seconds for each call of a handler.
    """

    def __init__(
        self, store: CheckpointStore | None, target: str, key: str, timeout: float | None
    ) -> None:
        self._store = store
        self._checkpoint = target, key
        self._timeout = timeout
        self._names: dict[str, None] = {}  # an empty set is three times as large
        self._pools: dict[int, tuple[Any, HandlerTransactions]] = {}

    def check_argument(self, tx: Any) -> None:
        """Check the argument ``tx``.

        Raises:
            TypeError: it is no pool.
            ValueError: the client has no store that makes transactions.
        """
        if tx is not None:
            self._of(tx)

    def wrap(self, handler: Callable[..., Any], tx: Any, *, batch: bool) -> Handler:
        """Return a handler of events, or of lists of events, that calls this one in a transaction.

        Raises:
            TypeError: the handler is no coroutine function.
            ValueError: another handler with this name is registered with ``tx``.
        """
        name = name_of(handler)
        if not check.is_coroutine_function(handler):
            raise TypeError(
                f"a handler with tx must be a coroutine function, and {name} is not: the"
                " connection that it gets is asynchronous"
            )
        if name in self._names:
            raise ValueError(
                f"a handler {name} is registered with tx already: what a handler with tx has"
                " handled is recorded under its name, so give each another name"
            )
        transactions = self._of(tx)
        self._names[name] = None

        @functools.wraps(handler)
        async def in_transaction(given: Any) -> None:
            events: list[Event] = given if batch else [given]

            async def call(connection: Any, new: list[int]) -> None:
                item = [events[position] for position in new] if batch else given
                limit = asyncio.timeout(self._timeout)
                try:
                    async with limit:
                        await handler(item, connection)
                except TimeoutError as error:
                    if limit.expired():
                        text = f"{name} took longer than {self._timeout} s"
                        raise TimeoutError(text) from error
                    raise

            await transactions.run(name, [_identity(event) for event in events], call)

        in_transaction.__qualname__ = name
        return in_transaction

    def release(self, name: str) -> None:
        """Forget a handler whose registration has ended."""
        self._names.pop(name, None)

    async def check(self) -> None:
        """Check that all pools lead to the database of the store.

        Raises:
            StorageError: one does not, or its database cannot be used.
            StoreLocked: another client holds the checkpoint.
        """
        for _, transactions in tuple(self._pools.values()):
            await transactions.check()

    def _of(self, tx: Any) -> HandlerTransactions:
        made = self._pools.get(id(tx))
        if made is None:
            make = getattr(self._store, "transactions", None)
            if make is None:
                raise ValueError(
                    "tx needs a client with store=PostgresStore(…): a handler and the record of"
                    " what it has handled share one transaction"
                )
            made = self._pools[id(tx)] = tx, make(*self._checkpoint, tx)
        return made[1]


def _identity(event: Event) -> tuple[str, str]:
    """Name an event such that a repeat has the same name, also in a later session."""
    if event.terminal:
        mark = "end"
    elif type(event) is Gap:
        mark = f"gap {event.session_id} {event.first} {event.last}"
    elif event.id:
        mark = f"id {event.id}"
    else:
        mark = f"seq {event.session_id} {event.seq}"
    return _column(event.job_id or ""), _column(mark)


def _column(text: str) -> str:
    """The text, or a hash of one that is long or that PostgreSQL does not take."""
    if len(text) <= _LONGEST and text.isascii() and text.isprintable():
        return text
    return f"sha256 {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"
