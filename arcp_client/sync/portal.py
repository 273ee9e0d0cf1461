"""Runs an event loop in a thread of its own, which serves blocking calls of other threads.

`Client` of `arcp_client.sync` runs an asynchronous client through a portal. The portal knows
neither clients nor the protocol.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
import warnings
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from arcp_client import _arguments as check
from arcp_client._tasks import TaskOwner
from arcp_client.errors import ClientClosed, LocalProtocolError, WouldDeadlock

__all__ = ["Portal"]

P = ParamSpec("P")
T = TypeVar("T")

_log = logging.getLogger("arcp_client.sync")

GRACE = 1.0
"""Seconds for an interrupted call to end, and for an open portal at the end of the program."""
PATIENCE = 5.0
"""Seconds for the loop and its tasks to end."""

_portals: weakref.WeakSet[Portal] = weakref.WeakSet()


class Portal:
    """An event loop in a thread of its own, for the clients of `arcp_client.sync`.

    A client makes a portal for itself unless it is given one. Share one to have many clients on one
    thread, or to let several clients use one embedded ``Runtime``, which belongs to one loop::

        with Portal() as portal:
            first = Client(runtime, portal=portal)
            ...
            portal.run(runtime.close)

    The thread starts with the first call and ends in `close`. It is a daemon thread: a portal that
    is still open at the end of the program is closed, with a ResourceWarning, and does not delay
    the end by more than a second. Close the clients before the portal.

    All methods may be called from any thread without a running event loop.

    Attributes:
        users: the clients that are connected and not closed, each with a function that ends it at
            once.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._process = os.getpid()
        self._stopping = asyncio.Event()
        self._owner = TaskOwner("arcp_client.sync")
        self._calls: set[_Call[Any]] = set()
        self.users: weakref.WeakKeyDictionary[object, Callable[[], Awaitable[None]]] = (
            weakref.WeakKeyDictionary()
        )
        self._closed = False
        _portals.add(self)

    def __repr__(self) -> str:
        state = "closed" if self._closed else "new" if self._thread is None else "open"
        return f"<Portal {state}>"

    # ------------------------------------------------------------------ calls

    def run(self, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call an async function in the loop, and wait for its result.

        If the wait is interrupted, by KeyboardInterrupt or another exception of a signal handler,
        the call is cancelled, and the exception continues once the call has ended, at most a second
        later.

        Raises:
            ClientClosed: the portal was closed before or during the call.
            WouldDeadlock: called in the loop's own thread.
            LocalProtocolError: this thread runs an event loop, or this process is a fork of the one
                that started the portal.
            Exception: whatever the function raised.
        """
        return self._served(_AsyncCall(partial(function, *args, **kwargs)), None)

    def run_within(
        self, seconds: float, function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """As `run`, but wait no longer than some seconds, even if the loop does not respond.

        Raises:
            TimeoutError: the call has not ended in time. It is cancelled.
        """
        return self._served(_AsyncCall(partial(function, *args, **kwargs)), seconds)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function, which must not block, in the loop's thread; returns its result.

        Called in that thread, it calls the function at once.

        Raises:
            ClientClosed, LocalProtocolError, Exception: as for `run`.
        """
        if self.inside:
            return function(*args, **kwargs)
        return self._served(_PlainCall(partial(function, *args, **kwargs)), None)

    def post(self, function: Callable[[], object]) -> bool:
        """Call a function in the loop's thread later; False if that thread does not run.

        This method never blocks, so finalizers may use it in any thread.
        """
        loop = self._loop
        if loop is None or self._closed or self.forked:
            return False
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError:  # the loop was closed meanwhile
            return False
        return True

    def start_soon(self, function: Callable[[], Awaitable[object]]) -> None:
        """Start an async function in the loop and return at once."""

        async def run() -> None:
            await function()

        self.post(lambda: self.spawn(run()))

    # ------------------------------------------------------------------ state

    @property
    def inside(self) -> bool:
        """Whether the caller is in the loop's thread."""
        thread = self._thread
        return thread is not None and thread.ident == threading.get_ident() and not self.forked

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    @property
    def running(self) -> bool:
        """Whether the thread has started, and `close` was not called."""
        return self._thread is not None and not self._closed

    @property
    def forked(self) -> bool:
        """Whether this process is a fork of the one in which the portal's thread runs."""
        return self._thread is not None and self._process != os.getpid()

    def check_caller(self) -> None:
        """Check that the caller may block.

        Raises:
            WouldDeadlock, LocalProtocolError: as for `run`.
        """
        if self.forked:
            raise LocalProtocolError(
                f"the client was connected in process {self._process}, and this is a fork of it,"
                f" process {os.getpid()}: make and connect a client after the fork"
            )
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        if loop is self._loop:
            raise WouldDeadlock(
                "a handler on the client's loop thread made a blocking call, which that thread"
                " would have to answer: register the handler with thread=True"
            )
        raise LocalProtocolError(
            "arcp_client.sync blocks, and this thread runs an event loop: use arcp_client.Client"
            " here, or call it in another thread, as with asyncio.to_thread"
        )

    # ------------------------------------------------------------------ the end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self.forked:
            self.close()

    def close(self, *, timeout: float = PATIENCE) -> None:
        """Cancel what runs in the loop, and end its thread. Idempotent.

        Calls that other threads wait for raise ClientClosed.

        Args:
            timeout: seconds to wait for the thread. A thread that does not end in time, because a
                handler blocks it, is left to itself with a warning in the log.

        Raises:
            WouldDeadlock: called in the loop's own thread.
            LocalProtocolError: as for `run`.
        """
        check.seconds("timeout", timeout)
        self.check_caller()
        self.stop()
        thread = self._thread
        if thread is None:
            return
        thread.join(timeout)
        if thread.is_alive():
            _log.warning("the loop thread did not end: a handler or a task still blocks it")
            self._fail_calls()

    def stop(self) -> None:
        """Begin to end the thread. This method never blocks, so finalizers may use it."""
        if not self.forked:
            self.post(self._stopping.set)
            self._closed = True

    def abandon(self) -> None:
        """Close a portal that is open at the end of the program."""
        if not self.running or self.forked:
            return
        for one in tuple(self.users) or (self,):
            warnings.warn(f"{one!r} was not closed", ResourceWarning, source=one, stacklevel=1)
            _log.warning("%r was not closed before the end of the program, which ends it", one)
        self.stop_users()
        self.close(timeout=GRACE)

    def stop_users(self) -> None:
        """End the clients that are not closed, without waiting for their handlers."""

        async def stop() -> None:
            await asyncio.gather(*(leave() for leave in tuple(self.users.values())))

        with suppress(Exception):  # the program ends
            self.run_within(GRACE, stop)

    def forget_locks(self) -> None:
        """Replace the lock, in a fork: another thread of the parent may have held it."""
        self._lock = threading.Lock()

    # ------------------------------------------------------------------ the loop

    def _served(self, call: _Call[T], patience: float | None) -> T:
        self.check_caller()
        try:
            self._begin(call)
            if not call.wait(patience):
                raise TimeoutError(f"the loop thread has not answered within {patience:g} s")
        except BaseException:
            # Interrupted: the call ends before the exception continues, so that the client and its
            # iterators can be used again at once.
            if call in self._calls and self.post(call.cancel):
                call.wait(GRACE)
                self._calls.discard(call)
            raise
        return call.outcome()

    def start(self) -> None:
        """Start the thread, if it has not started yet.

        Raises:
            ClientClosed, LocalProtocolError: as for `run`.
        """
        self.check_caller()
        with self._lock:
            self._started()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise ClientClosed("the portal of the client was closed")
        return self._loop or self._start()

    def _begin(self, call: _Call[T]) -> None:
        with self._lock:
            loop = self._started()
            self._calls.add(call)
            loop.call_soon_threadsafe(call.begin, self, context=copy_context())

    def _start(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        thread = threading.Thread(
            target=self._serve, args=(loop,), name="arcp_client.sync", daemon=True
        )
        try:
            thread.start()
        except BaseException:
            loop.close()
            raise
        self._loop, self._thread, self._process = loop, thread, os.getpid()
        return loop

    def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            with asyncio.Runner(loop_factory=lambda: loop) as runner:
                runner.run(self._stopped())
        finally:
            with self._lock:
                self._closed = True
            self._fail_calls()

    async def _stopped(self) -> None:
        await self._stopping.wait()

    def _fail_calls(self) -> None:
        for call in tuple(self._calls):
            self.finish(call, error=ClientClosed("the portal of the client was closed"))

    def spawn(self, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task, which the portal keeps. Called in the loop."""
        return self._owner.spawn(coro, name="call")

    def finish(self, call: _Call[T], value: Any = None, error: BaseException | None = None) -> None:
        """Wake the thread that waits for a call; once for each call."""
        try:
            self._calls.remove(call)  # atomic: the loop and a closing thread may compete
        except KeyError:
            return
        call.finish(value, error)


class _Call(Generic[T]):
    """One call in the loop, which the calling thread waits for."""

    def __init__(self) -> None:
        self._done = threading.Lock()
        self._done.acquire()
        self._value: Any = None
        self._error: BaseException | None = None

    # -- in the calling thread

    def wait(self, seconds: float | None) -> bool:
        """Wait for the end; False if it does not come in time."""
        return self._done.acquire(timeout=-1 if seconds is None else seconds)

    def outcome(self) -> T:
        """Return or raise what the function returned or raised."""
        error, self._error = self._error, None
        if error is None:
            value: T = self._value
            return value
        try:
            raise error
        finally:
            del error  # no cycle of the exception and this frame

    # -- in the loop, in the context of the calling thread

    def begin(self, portal: Portal) -> None:
        """Start the call."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Cancel the call."""

    def finish(self, value: Any, error: BaseException | None) -> None:
        """Wake the calling thread."""
        self._value, self._error = value, error
        self._done.release()


class _AsyncCall(_Call[T]):
    """A call of an async function, in a task."""

    def __init__(self, function: Callable[[], Awaitable[T]]) -> None:
        super().__init__()
        self._function = function
        self._task: asyncio.Task[None] | None = None

    def begin(self, portal: Portal) -> None:
        self._task = portal.spawn(self._serve(portal))

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _serve(self, portal: Portal) -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = await self._function()
        except asyncio.CancelledError:
            failure = ClientClosed("the call was cancelled, because the loop thread ends")
        except BaseException as error:  # noqa: BLE001  the calling thread raises it
            failure = _without_first_frame(error)
        portal.finish(self, value, failure)
        del failure  # no cycle of the exception and this frame


class _PlainCall(_Call[T]):
    """A call of a function that does not wait."""

    def __init__(self, function: Callable[[], T]) -> None:
        super().__init__()
        self._function = function

    def begin(self, portal: Portal) -> None:
        value: Any = None
        failure: BaseException | None = None
        try:
            value = self._function()
        except BaseException as error:  # noqa: BLE001  the calling thread raises it
            failure = _without_first_frame(error)
        portal.finish(self, value, failure)
        del failure  # no cycle of the exception and this frame


def _without_first_frame(error: BaseException) -> BaseException:
    """Shorten the traceback by the frame of the portal, so that it shows the caller's code."""
    traceback = error.__traceback__
    return error.with_traceback(None if traceback is None else traceback.tb_next)


@atexit.register
def _at_exit() -> None:
    for portal in tuple(_portals):
        with suppress(Exception):  # the program ends
            portal.abandon()


def _after_fork() -> None:
    for portal in tuple(_portals):
        portal.forget_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
