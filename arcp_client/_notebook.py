"""Adapts jobs and clients to notebooks: live views of jobs, and cells that are run again.

Nothing here is used outside of a Jupyter kernel, which a program recognises by ``ipykernel`` having
been imported.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple, Protocol

from arcp_client._html import escaped, table
from arcp_client._tasks import TaskOwner
from arcp_client.errors import ArcpError
from arcp_client.events import Event, Progress
from arcp_client.models import Verdict

__all__ = ["in_kernel", "job_html", "leave_earlier", "show_live"]

_INTERVAL = 0.25
"""Seconds between two updates of a live view."""
_EVENTS = 8
"""Number of events that a live view shows."""
_ENDED = ("success", "error", "cancelled", "timed_out")

_owner = TaskOwner("arcp_client.notebook")


class ShownJob(Protocol):
    """The parts of a `JobHandle` that are shown."""

    @property
    def id(self) -> str: ...

    @property
    def agent(self) -> str: ...

    @property
    def status(self) -> str: ...

    @property
    def progress(self) -> Progress | None: ...

    @property
    def budget(self) -> Any: ...

    @property
    def children(self) -> list[str]: ...


class FollowedJob(ShownJob, Protocol):
    """A job whose events can be followed."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    @property
    def verdict(self) -> Verdict: ...


def _kernel_shell() -> Any:
    """The shell of the Jupyter kernel that runs this code; ``None`` elsewhere."""
    if "ipykernel" not in sys.modules:
        return None
    from IPython import get_ipython  # noqa: PLC0415  installed, since ipykernel needs it

    shell = get_ipython()
    return shell if getattr(shell, "kernel", None) is not None else None


def in_kernel() -> bool:
    """Whether this code runs in a Jupyter kernel."""
    return _kernel_shell() is not None


# ------------------------------------------------------------------------- jobs


def job_html(job: ShownJob, more: str = "", verdict: Verdict | None = None) -> str:
    """The present state of a job, and what it is doing, with the reason if it failed."""
    rows: list[tuple[str, object]] = [
        ("agent", job.agent or None),
        ("status", job.status),
        ("verdict", _words(verdict)),
        ("progress", _progress(job.progress)),
    ]
    rows += [(f"budget {unit}", str(left)) for unit, left in dict(job.budget).items()]
    rows.append(("children", ", ".join(job.children) or None))
    return table(f"{type(job).__name__} {job.id}", rows, more)


def _words(verdict: Verdict | None) -> str | None:
    if verdict is None or verdict.kind == "done":
        return None
    return verdict.words(datetime.now(UTC))


def _progress(progress: Progress | None) -> str | None:
    if progress is None:
        return None
    total = "" if progress.total is None else f" / {progress.total}"
    parts = [f"{progress.current}{total}", progress.units or "", progress.message or ""]
    return " ".join(part for part in parts if part)


def show_live(job: FollowedJob) -> None:
    """Display a job in the cell that runs, and keep the display up to date until the job ends.

    Raises:
        NotImplementedError: there is no kernel or no event loop, or the job has ended; IPython then
            shows the job as HTML or text.
    """
    if not in_kernel() or job.status in _ENDED:
        raise NotImplementedError
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise NotImplementedError from None
    _owner.spawn(_LiveView(job).run(), name="live view")


class _LiveView:
    """The display of one job."""

    def __init__(self, job: FollowedJob) -> None:
        import IPython.display  # noqa: PLC0415  only in a kernel

        display: Any = IPython.display.display
        self._job = job
        self._events: deque[Event] = deque(maxlen=_EVENTS)
        self._note = ""
        self._due: asyncio.TimerHandle | None = None
        self._handle = display(self._content(), raw=True, display_id=True)

    async def run(self) -> None:
        """Follow the job to its end."""
        loop = asyncio.get_running_loop()
        try:
            async for event in self._job:
                self._events.append(event)
                if self._due is None:
                    self._due = loop.call_later(_INTERVAL, self._update)
        except ArcpError as error:
            self._note = str(error).partition("\n")[0]
        finally:
            if self._due is not None:
                self._due.cancel()
            self._update()

    def _update(self) -> None:
        self._due = None
        self._handle.update(self._content(), raw=True)

    def _content(self) -> dict[str, str]:
        lines = "".join(f"<li><code>{escaped(repr(event))}</code></li>" for event in self._events)
        note = f"<p>{escaped(self._note)}</p>" if self._note else ""
        html = job_html(self._job, f"<ul>{lines}</ul>{note}", self._job.verdict)
        return {"text/html": html, "text/plain": repr(self._job)}


# ------------------------------------------------------------------------- cells


class _Connected(NamedTuple):
    """A client that a cell has connected."""

    client: object
    ended: Callable[[], bool]
    leave: Callable[[], Awaitable[str]]


_cells: dict[object, tuple[object, list[_Connected]]] = {}
"""The clients that each cell has connected, with the execution that did."""


async def leave_earlier(
    client: object, ended: Callable[[], bool], leave: Callable[[], Awaitable[str]]
) -> None:
    """Close the clients that an earlier run of this cell has connected, and print a notice.

    The cell keeps a reference to its clients, so that a variable that is assigned again does not
    end a client without its goodbye.

    Args:
        client: the client that is being connected.
        ended: returns whether it has ended.
        leave: closes it, or detaches it if a later client can resume its session; returns which.
    """
    shell = _kernel_shell()
    parent = shell.kernel.get_parent("shell") if shell is not None else None
    if not parent:
        return
    cell = parent.get("metadata", {}).get("cellId") or parent.get("content", {}).get("code")
    execution = parent.get("header", {}).get("msg_id")
    before, clients = _cells.pop(cell, (execution, []))
    if before != execution:
        for one in clients:
            if not one.ended():
                shown = repr(one.client)
                how = await one.leave()
                print(f"{how} the client of an earlier run of this cell: {shown}")  # noqa: T201
        clients = []
    if all(one.client is not client for one in clients):
        clients.append(_Connected(client, ended, leave))
    for key, (run, others) in tuple(_cells.items()):
        still = [one for one in others if not one.ended()]
        if still:
            _cells[key] = run, still
        else:
            del _cells[key]
    _cells[cell] = execution, clients
