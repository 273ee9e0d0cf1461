"""Runs an agent's coroutine so that it can be abandoned when it ignores every cancellation.

``asyncio.run`` waits for ever for a task that suppresses cancellations. An abandoned coroutine is
not resumed any more, so its task ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Generator
from typing import Any, Generic, TypeVar

__all__ = ["Abandonable"]

_log = logging.getLogger("arcp_client.runtime")

T = TypeVar("T")


class Abandonable(Generic[T]):
    """Awaits a coroutine, once. After `abandon`, the next cancellation ends the wait.

    Args:
        coroutine: the coroutine to run.
        name: its name in the log.
        fields: the ``extra`` of its log records.
    """

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], name: str, fields: dict[str, Any]
    ) -> None:
        self._coroutine = coroutine
        self._name = name
        self._fields = fields
        self._gone = False

    def abandon(self) -> None:
        """Stop forwarding cancellations: the next cancellation ends the awaiting task in any case.

        That cancellation also closes the coroutine, whose ``finally`` blocks run up to their first
        ``await``.
        """
        self._gone = True

    def __await__(self) -> Generator[Any, Any, T]:
        step: Any = self._coroutine.send
        value: Any = None
        while True:
            try:
                waited = step(value)
            except StopIteration as done:
                result: T = done.value
                return result
            try:
                value = yield waited
                step = self._coroutine.send
            except BaseException as error:
                if self._gone and isinstance(error, asyncio.CancelledError):
                    self._drop()
                    raise
                step, value = self._coroutine.throw, error

    def _drop(self) -> None:
        try:
            self._coroutine.close()
        except BaseException as error:  # noqa: BLE001 - it had its chance; its task ends now
            _log.error(
                "%s did not clean up when it was abandoned: %s",
                self._name,
                error,
                extra=self._fields,
            )
