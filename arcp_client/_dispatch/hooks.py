"""Calls the hooks of a client, the functions given to ``on_error``, ``on_slow`` and ``on_state``.

A hook is called for one value at a time, in order, in a task of its own. It may be sync or async.
It may use the client, because the delivery of events does not wait for hooks.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextvars import Context, copy_context
from typing import Any, Generic, TypeVar

import msgspec
from reactivex import abc

from arcp_client import _arguments as check
from arcp_client.rx import EventChannel, concat_map_async

__all__ = ["Hooks"]

T = TypeVar("T")

_log = logging.getLogger("arcp_client.hooks")

_WAITING = 1024


class _Hook(msgspec.Struct, Generic[T], eq=False):
    """One hook, with its queued values and the context of its calls."""

    function: Callable[[T], Any]
    channel: EventChannel[T]
    context: Context
    subscription: abc.DisposableBase | None = None


class Hooks(Generic[T]):
    """The hooks of one kind."""

    __slots__ = ("_hooks", "_name")

    def __init__(self, name: str) -> None:
        self._name = name
        self._hooks: tuple[_Hook[T], ...] = ()

    def __len__(self) -> int:
        return len(self._hooks)

    def add(self, hook: Callable[[T], Awaitable[Any] | Any]) -> None:
        """Register a hook for later values, with the context variables of this call (rule D19)."""
        check.a_function(f"the hook of {self._name}", hook)
        channel: EventChannel[T] = EventChannel(_WAITING, overflow="drop_oldest")
        self._hooks += (_Hook(hook, channel, copy_context()),)

    def emit(self, value: T) -> None:
        """Queue a value for every hook. Needs a running loop."""
        for hook in self._hooks:
            if hook.subscription is None:
                operator = concat_map_async(hook.function, on_error=self._failed)
                source = hook.channel.observable().pipe(operator)
                hook.subscription = hook.context.run(source.subscribe)
            hook.channel.push_nowait(value)

    def _failed(self, value: T, error: Exception) -> None:
        _log.error("a hook of %s raised", self._name, exc_info=error)

    def close(self) -> None:
        """Stop the hooks after their queued calls."""
        for hook in self._hooks:
            hook.channel.complete()
