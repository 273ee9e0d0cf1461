"""Registers handlers of updates, and selects the handlers of each update."""

from __future__ import annotations

import contextvars
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, TypeVar, overload

from arcp_client import _arguments as check
from arcp_client._rx.handling import name_of
from arcp_client.acp._base import Update

__all__ = ["Handler", "Handlers", "Listening", "UpdateRegistration"]

Handler: TypeAlias = Callable[[Any], Awaitable[object] | object]
F = TypeVar("F", bound=Callable[..., Any])
R = TypeVar("R")
A = TypeVar("A", bound=Update)
B = TypeVar("B", bound=Update)
C = TypeVar("C", bound=Update)
D = TypeVar("D", bound=Update)


class UpdateRegistration:
    """The registration of one handler; ``dispose`` ends it.

    Attributes:
        handler: the function.
        kinds: the classes of updates that it receives.
        context: the context variables at the registration; each call runs in a copy.
    """

    def __init__(
        self, handlers: Handlers, handler: Handler, kinds: tuple[type[Update], ...]
    ) -> None:
        self._handlers = handlers
        self.handler = handler
        self.kinds = kinds
        # Handlers see what the code that registered them saw (rule D19).
        self.context = contextvars.copy_context()

    def dispose(self) -> None:
        """Stop calling the handler. A running call is not interrupted. Idempotent."""
        self._handlers.remove(self)

    @property
    def name(self) -> str:
        """The handler's name, for messages."""
        return name_of(self.handler)


class Handlers:
    """The handlers of a session, which run after those of the client.

    Args:
        shared: the client's handlers, which run first.
        used: called after each registration.
    """

    def __init__(
        self, shared: Handlers | None = None, used: Callable[[], None] | None = None
    ) -> None:
        self._shared = shared
        self._used = used
        self._registrations: list[UpdateRegistration] = []
        self._by_kind: dict[type[Update], tuple[UpdateRegistration, ...]] = {}
        self._dependents: list[Handlers] = []
        if shared is not None:
            shared.add_dependent(self)

    def add_dependent(self, handlers: Handlers) -> None:
        """Whenever this table changes, clear the other one too."""
        self._dependents.append(handlers)

    def remove_dependent(self, handlers: Handlers) -> None:
        """Undo `add_dependent`."""
        if handlers in self._dependents:
            self._dependents.remove(handlers)

    def leave(self) -> None:
        """Discard this table."""
        if self._shared is not None:
            self._shared.remove_dependent(self)

    def add(self, handler: Handler, kinds: tuple[type[Update], ...]) -> UpdateRegistration:
        """Register a handler for updates of some kinds.

        Raises:
            TypeError: the handler is not callable, no kind is given, or a kind is not an update
                class.
        """
        check.a_function("a handler", handler)
        if not kinds:
            raise TypeError("name the kinds of updates; updates.Update selects all kinds")
        check_kinds(kinds)
        registration = UpdateRegistration(self, handler, kinds)
        self._registrations.append(registration)
        self._changed()
        if self._used is not None:
            self._used()
        return registration

    def on(self, kinds: tuple[Any, ...]) -> Callable[[F], F]:
        """Return a decorator that registers a function and returns it unchanged."""
        if len(kinds) == 1 and not isinstance(kinds[0], type):
            raise TypeError("pass the kinds of updates: @session.on(updates.…)")
        check_kinds(kinds)

        def register(function: F) -> F:
            self.add(function, kinds)
            return function

        return register

    def remove(self, registration: UpdateRegistration) -> None:
        """Remove a registration."""
        if registration in self._registrations:
            self._registrations.remove(registration)
            self._changed()

    def of(self, kind: type[Update]) -> tuple[UpdateRegistration, ...]:
        """Return the registrations for exactly this class, in order of registration."""
        found = self._by_kind.get(kind)
        if found is None:
            shared = () if self._shared is None else self._shared.of(kind)
            own = [r for r in self._registrations if issubclass(kind, r.kinds)]
            found = self._by_kind[kind] = (*shared, *own)
        return found

    def _changed(self) -> None:
        self._by_kind.clear()
        for dependent in self._dependents:
            dependent._changed()  # noqa: SLF001  # another object of this class


def check_kinds(kinds: tuple[Any, ...]) -> None:
    """Check that each kind is an update class.

    Raises:
        TypeError: one of the kinds is not an update class.
    """
    for kind in kinds:
        if not (isinstance(kind, type) and issubclass(kind, Update)):
            raise TypeError(f"{kind!r:.60} is not an update class")


class Listening:
    """Base of `AcpClient` and `AcpSession`: registers handlers of updates."""

    def __init__(self, handlers: Handlers) -> None:
        self._handlers = handlers

    @overload
    def on(self, a: type[A], /) -> Callable[[Callable[[A], R]], Callable[[A], R]]: ...

    @overload
    def on(
        self, a: type[A], b: type[B], /
    ) -> Callable[[Callable[[A | B], R]], Callable[[A | B], R]]: ...

    @overload
    def on(
        self, a: type[A], b: type[B], c: type[C], /
    ) -> Callable[[Callable[[A | B | C], R]], Callable[[A | B | C], R]]: ...

    @overload
    def on(
        self, a: type[A], b: type[B], c: type[C], d: type[D], /
    ) -> Callable[[Callable[[A | B | C | D], R]], Callable[[A | B | C | D], R]]: ...

    def on(self, *kinds: Any) -> Callable[[Any], Any]:
        """Register a handler for kinds of updates; ``updates.Update`` selects all kinds.

        Handlers run one after another, in the order of the updates. For one update, the client's
        handlers run before the session's, each in order of registration. If a handler raises, the
        error is reported and the next handler runs. A handler may be sync or async; a blocking sync
        handler blocks the event loop. It runs in the context (``contextvars``) of its registration.
        For more than four kinds, use `subscribe`.
        """
        return self._handlers.on(kinds)

    def subscribe(
        self, handler: Callable[[Any], object], *kinds: type[Update]
    ) -> UpdateRegistration:
        """Like `on`, without a decorator; ``dispose()`` of the result ends the registration."""
        return self._handlers.add(handler, kinds)
