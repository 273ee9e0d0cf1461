"""Shows a recorded job as ``watch`` showed it, or serves a recording as a runtime."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from arcp_client import ArcpError, Lease, LeaseConstraints, Result, events
from arcp_client import _digits as digits
from arcp_client.cli.actions.exact_outcome import exact_error, exact_result
from arcp_client.cli.errors import command_error, loses_events
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.host_names import check_host_names
from arcp_client.cli.interrupts import Interrupts, beside, execute
from arcp_client.cli.output_format import Output
from arcp_client.cli.tokens import served_token
from arcp_client.cli.view import terminal
from arcp_client.cli.view.job_tree import JobTree
from arcp_client.cli.view.render import count
from arcp_client.cli.view.report import JobReport, reporter
from arcp_client.errors import ResultIncomplete, ResultUnavailable, job_error
from arcp_client.projection import JobProjection
from arcp_client.testing import ReplayedRuntime
from arcp_client.transcripts import EventLine, JobLine, OutcomeLine, Reader, read

__all__ = ["read_speed", "replay", "serve"]

_CUT = "the transcript is incomplete: its recorder did not finish it"


def read_speed(text: str) -> float | None:
    """Parse ``--speed``; ``None`` means as fast as possible."""
    if text == "max":
        return None
    try:
        speed = float(text)
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise CommandError(
            Exit.USAGE, f"--speed {text} is not a speed", "give a factor such as 2 or 0.5, or max"
        )
    return speed


def replay(
    path: Path, *, job_id: str | None, speed: float | None, start: int, output: Output
) -> Exit:
    """Show a recorded job like ``watch``.

    Args:
        path: the transcript.
        job_id: the job to show; by default the first one.
        speed: recorded seconds per second.
        start: the number of the first event to show, from 1.
        output: as for every command.
    """
    scene = _scene(path, job_id)
    report = reporter(output)

    async def body(interrupts: Interrupts) -> Exit:
        return await _Replay(path, scene, report, speed=speed, start=start).play(interrupts)

    return execute(body)


@dataclass(slots=True)
class _Scene:
    """The lines of a transcript about one job and its children.

    Attributes:
        root: the line of the job.
        cast: the lines of all jobs in the transcript, by id.
        members: the ids of the job and its children.
        outcome: the recorded outcome.
        complete: whether the transcript has its end line.
    """

    root: JobLine
    cast: dict[str, JobLine]
    members: set[str] = field(default_factory=set)
    outcome: OutcomeLine | None = None
    complete: bool = False


def _opened(path: Path) -> Reader:
    try:
        return read(path)
    except OSError as error:
        if isinstance(error, ArcpError):
            raise
        raise CommandError(Exit.USAGE, f"{path} cannot be read: {error.strerror}") from None


def _scene(path: Path, job_id: str | None) -> _Scene:
    cast: dict[str, JobLine] = {}
    outcomes: dict[str, OutcomeLine] = {}
    parents: dict[str, str] = {}
    try:
        with _opened(path) as reader:
            for line in reader:
                if isinstance(line, JobLine):
                    cast.setdefault(line.job_id, line)
                    if line.parent_job_id:
                        parents[line.job_id] = line.parent_job_id
                elif isinstance(line, OutcomeLine):
                    outcomes[line.job_id] = line
                elif isinstance(line, EventLine) and isinstance(line.event, events.Delegate):
                    parents[line.event.child_job_id or ""] = line.job_id or ""
            complete = reader.complete
    except ArcpError as error:
        raise command_error(error) from error
    if not cast or (job_id is not None and job_id not in cast):
        raise CommandError(
            Exit.NOT_FOUND,
            f"{path} contains no job" if not cast else f"{path} does not contain the job {job_id}",
            "" if not cast else f"it contains {', '.join(list(cast)[:5])}",
        )
    root = cast[job_id] if job_id is not None else next(iter(cast.values()))
    members, strangers = {root.job_id}, set[str]()
    for each in cast:
        way: set[str] = set()
        up: str | None = each
        while up is not None and up not in members and up not in strangers and up not in way:
            way.add(up)
            up = parents.get(up)
        (members if up in members else strangers).update(way)
    others = [each for each in cast if each not in members]
    if others:
        more = f" and {len(others) - 3} more" if len(others) > 3 else ""
        terminal.tell(
            terminal.err(),
            f"it contains other jobs: {', '.join(others[:3])}{more}; see --job",
            "dim",
        )
    return _Scene(root, cast, members, outcomes.get(root.job_id), complete)


def _projection(line: JobLine) -> JobProjection:
    try:
        lease = Lease({name: list(found) for name, found in line.lease.items()})
    except ValueError:
        lease = Lease({})
    return JobProjection(
        line.job_id,
        agent=line.agent,
        status=line.status or "running",
        lease=lease,
        constraints=LeaseConstraints(expires_at=line.expires_at),
    )


class _Replay:
    """Replays one job of a transcript, event by event, up to its end.

    Args:
        path: the transcript.
        scene: the lines of the job.
        report: shows events and outcome.
        speed: recorded seconds per second; ``None`` does not wait.
        start: the number of the first event to show.
    """

    def __init__(
        self, path: Path, scene: _Scene, report: JobReport, *, speed: float | None, start: int
    ) -> None:
        self._path = path
        self._scene = scene
        self._report = report
        self._speed = speed
        self._start = start
        self._holes: list[events.Gap] = []
        self._chunks: list[events.ResultChunk] = []
        self._end: events.Completed | events.Failed | None = None

    async def play(self, interrupts: Interrupts) -> Exit:
        """Replay the job; return the exit code for its outcome."""
        report, scene = self._report, self._scene
        report.began(JobTree(_projection(scene.root), self._described))
        try:
            async with interrupts.stop():
                async with beside(report.refresh()):
                    async for event in self._events():
                        report.event(event)
                report.flush()
                self._deliver()
                return Exit.SUCCESS
        except ArcpError as error:
            problem = command_error(error)
            report.close()
            report.failed(problem, error)
            raise problem from error
        except CommandError as problem:
            report.close()
            report.failed(problem, None)
            raise
        finally:
            report.close()
        report.failed(CommandError(Exit.INTERRUPTED, "stopped replaying"), None)
        return Exit.INTERRUPTED

    def _described(self, job_id: str) -> JobProjection:
        line = self._scene.cast.get(job_id)
        return JobProjection(job_id) if line is None else _projection(line)

    async def _events(self) -> AsyncIterator[events.Event]:
        """Yield the events to show, each at its time."""
        loop = asyncio.get_running_loop()
        began, base = loop.time(), None
        number = 0
        with _opened(self._path) as reader:
            for line in reader:
                if not isinstance(line, EventLine) or not self._concerns(line):
                    continue
                own = line.job_id in (None, self._scene.root.job_id)
                number += own
                event = self._of_a_job(line)
                if number < self._start:
                    self._note(event, own=own)
                    continue
                base = line.at if base is None else base
                if self._speed is not None:
                    await asyncio.sleep(began + (line.at - base) / self._speed - loop.time())
                elif number % 64 == 0:
                    await asyncio.sleep(0)  # lets signals be handled and the view be drawn
                yield event
                self._note(event, own=own)
                if own and event.terminal:
                    return

    def _of_a_job(self, line: EventLine) -> events.Event:
        """Return the event with its job's id, which some lines have outside the event.

        Its numbers have the digits of the line (W1).
        """
        event = line.event if line.fields is None else digits.with_fields(line.event, line.fields)
        if event.job_id is not None or line.job_id is None:
            return event
        return msgspec.structs.replace(event, job_id=line.job_id)

    def _concerns(self, line: EventLine) -> bool:
        if line.job_id is None:
            return isinstance(line.event, events.Gap)
        return line.job_id in self._scene.members

    def _note(self, event: events.Event, *, own: bool) -> None:
        if not own:
            return
        if isinstance(event, events.Gap) and loses_events(event):
            self._holes.append(event)
        elif isinstance(event, events.ResultChunk):
            self._chunks.append(event)
        elif isinstance(event, events.Completed | events.Failed):
            self._end = event

    def _deliver(self) -> None:
        """Report the result, or the reason why there is none.

        Raises:
            ArcpError: the recorded outcome.
            CommandError: the result is unknown or incomplete.
        """
        scene, end = self._scene, self._end
        error = scene.outcome.to_error() if scene.outcome is not None else None
        if error is None and isinstance(end, events.Failed):
            error = job_error(
                end.code, end.message, status=end.status, retryable=end.retryable,
                details=end.details, job_id=scene.root.job_id,
            )  # fmt: skip
        if error is not None:
            raise exact_error(error, end)
        if not isinstance(end, events.Completed):
            raise CommandError(
                Exit.GAP,
                "the recording ends before the job does",
                "the recording was interrupted" if scene.complete else _CUT,
            )
        self._report.succeeded(exact_result(self._result(end), end), None)
        if self._holes:
            raise CommandError(
                Exit.GAP,
                f"the job succeeded, but {count(len(self._holes), 'gap')} recorded with it",
                "its events are not complete",
            )
        if not scene.complete:
            raise CommandError(Exit.GAP, f"the job succeeded, but {_CUT}", "later events are lost")

    def _result(self, end: events.Completed) -> Result:
        value: Any = end.value
        if end.result_id is not None:
            value = self._joined(end.result_id)
        return Result(
            value=value, result_id=end.result_id, size=end.result_size, summary=end.summary,
            completed_at=end.completed_at,
        )  # fmt: skip

    def _joined(self, result_id: str) -> str | bytes:
        chunks = {chunk.chunk_seq: chunk for chunk in self._chunks if chunk.result_id == result_id}
        job_id = self._scene.root.job_id
        if not chunks:
            raise ResultUnavailable("no chunk of the result was recorded", job_id=job_id)
        holes = (n for n in range(max(chunks) + 1) if n not in chunks)
        missing = tuple(islice(holes, 1000))  # the file may hold any number
        if missing or all(chunk.more for chunk in chunks.values()):
            raise ResultIncomplete(
                "chunks of the result were not recorded", missing=missing, job_id=job_id
            )
        pieces = [chunks[n] for n in sorted(chunks)]
        if all(piece.encoding == "utf8" for piece in pieces):
            return _whole("".join(piece.data for piece in pieces))
        try:
            return b"".join(map(_bytes, pieces))
        except ValueError:
            raise ResultIncomplete("a chunk cannot be decoded", job_id=job_id) from None


def _whole(text: str) -> str:
    """Replace lone surrogates by U+FFFD, like `JobHandle.result`."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _bytes(piece: events.ResultChunk) -> bytes:
    if piece.encoding == "utf8":
        return _whole(piece.data).encode()
    return base64.b64decode(piece.data, validate=True)


def serve(path: Path, *, port: int, speed: float | None, allowed_hosts: Sequence[str] = ()) -> Exit:
    """Serve a transcript as a runtime, until stopped."""
    check_host_names(allowed_hosts)
    token = served_token(None)
    console = terminal.err()

    def begun(line: JobLine, job_id: str) -> None:
        terminal.tell(console, f"job {job_id} plays {line.job_id} · {line.agent}", "dim")

    async def body(interrupts: Interrupts) -> Exit:
        _opened(path).close()
        auth = {token.get_secret_value(): "owner"} if token is not None else None
        runtime = ReplayedRuntime(path, speed=speed, auth=auth, on_job=begun)
        async with runtime:
            try:
                async with runtime.serve(port=port, allowed_hosts=allowed_hosts) as server:
                    terminal.tell(console, f"replaying {path} on {server.url}", "green")
                    async with interrupts.stop():
                        await runtime.played()
                        terminal.tell(console, "all jobs replayed; press Ctrl-C to stop", "dim")
                        await asyncio.get_running_loop().create_future()
            except OSError as error:
                if isinstance(error, ArcpError):
                    raise
                raise CommandError(
                    Exit.CONNECTION,
                    f"cannot listen on port {port}: {error.strerror or error}",
                    "--port 0 selects a free port",
                ) from None
        if not runtime.complete:
            raise CommandError(Exit.GAP, _CUT, "the lines before it were replayed")
        return Exit.SUCCESS

    return execute(body)
