"""Saves runs to files, so that a later process can continue or cancel them.

A *run* is one call of ``arcp-client run``, with its job. Each run has its own directory in the
user's state directory, with the arguments of the submit and the checkpoint of the session. So runs
never wait for one another, and a run can be continued after ``kill -9``, after a reboot, or from
another terminal. Only a session that has submitted a job can cancel it (§7.4). Therefore the submit
is saved: another process repeats it with the same idempotency key (§7.2), which makes its session a
submitter without starting a second job.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import os
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Annotated, Any, Literal, Self

import msgspec

from arcp_client import SqliteStore
from arcp_client.cli.environment import user_directory
from arcp_client.models import Checkpoint

__all__ = ["SavedRun", "begin", "find", "forget", "unfinished"]

_SCHEMA = "arcp-client.run/1"
_RECORD = "run.json"
_KEPT = 7 * 86_400.0
"""Seconds after which an unused run is removed."""
MOST_RUNS = 256
"""Maximum number of saved runs; the oldest are removed first."""
_EVERY = 16
_INTERVAL = 0.1
"""After a crash, at most this many events, or the events of this many seconds, are shown again."""


_ABSENT = (msgspec.UNSET, msgspec.Raw())


class _Submit(msgspec.Struct, forbid_unknown_fields=True):
    """The arguments of ``Client.submit``."""

    agent: str
    input: msgspec.Raw = msgspec.Raw()
    idempotency_key: str | msgspec.UnsetType = msgspec.UNSET
    lease: dict[str, list[str]] | msgspec.UnsetType | None = msgspec.UNSET
    max_runtime: float | msgspec.UnsetType | None = msgspec.UNSET
    retries: int | msgspec.UnsetType = msgspec.UNSET

    def arguments(self) -> dict[str, Any]:
        """The arguments that were given."""
        given = msgspec.structs.asdict(self)
        return {name: value for name, value in given.items() if value not in _ABSENT}


class _Record(msgspec.Struct, forbid_unknown_fields=True):
    schema: Literal["arcp-client.run/1"]
    url: str
    submit: _Submit
    began: Annotated[float, msgspec.Meta(ge=0, le=1e11)]
    profile: str | None = None
    save: str | None = None
    job_id: str | None = None


@dataclass(slots=True)
class SavedRun:
    """One submitted job, and its saved state.

    Attributes:
        directory: the directory of the run.
        url: the runtime.
        profile: the profile of the submit.
        submit: the arguments of ``Client.submit``.
        save: the file for the result.
        job_id: the job's id, once it was accepted.
        began: when it was submitted, in seconds since 1970.
    """

    directory: Path = field(repr=False)
    url: str
    submit: dict[str, Any] = field(repr=False)
    profile: str | None = None
    save: str | None = None
    job_id: str | None = None
    began: float = field(default_factory=time)
    _lock: int | None = field(default=None, repr=False)

    @property
    def agent(self) -> str:
        """The agent of the submit."""
        return str(self.submit.get("agent", ""))

    def hold(self) -> bool:
        """Lock the run; return False if another process follows the job, or the run was removed."""
        if self._lock is not None:
            return True
        try:
            lock = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            return False
        self._lock = lock
        if not (self.directory / _RECORD).exists():  # the holder removed the run in between
            self.release()
            return False
        return True

    def release(self) -> None:
        """Unlock the run. The system unlocks it when the process ends."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def accepted(self, job_id: str) -> None:
        """Record that the runtime accepted the job."""
        self.job_id = job_id
        self.keep()

    def finished(self) -> None:
        """Record that the outcome was delivered, so that no process continues the run.

        The checkpoint stays until `over`, because the client may still write to it.
        """
        with contextlib.suppress(OSError):
            (self.directory / _RECORD).unlink(missing_ok=True)

    def over(self) -> None:
        """Remove the finished run, unless another process follows it."""
        if self.hold():
            shutil.rmtree(self.directory, ignore_errors=True)
            self.release()

    def store(self, flush: Callable[[], None]) -> SqliteStore:
        """Return the store of the run's session.

        Args:
            flush: writes pending output before a checkpoint.
        """
        return _ShownFirst(self.directory / "session.db", flush)

    def keep(self) -> None:
        """Save the present state; a failed write is ignored."""
        fields = {each.name for each in dataclasses.fields(self)} - {"directory", "_lock"}
        record = {"schema": _SCHEMA, **{name: getattr(self, name) for name in sorted(fields)}}
        part = self.directory / f"{_RECORD}.part"
        # A full disk must not end the run, nor a path that is not UTF-8.
        with contextlib.suppress(OSError, ValueError):
            data = msgspec.json.encode(record)
            descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            part.replace(self.directory / _RECORD)

    @classmethod
    def read(cls, directory: Path) -> Self | None:
        """Read the run of a directory; None if there is none."""
        try:
            data = (directory / _RECORD).read_bytes()
            record = msgspec.json.decode(data, type=_Record)
        except (OSError, ValueError, RecursionError):  # damaged, or of a later version
            return None
        fields = msgspec.structs.asdict(record)
        del fields["schema"]
        return cls(directory=directory, **{**fields, "submit": record.submit.arguments()})


class _ShownFirst(SqliteStore):
    """Writes pending output before each checkpoint, so that a killed process loses no line."""

    def __init__(self, path: Path, flush: Callable[[], None]) -> None:
        super().__init__(path, every=_EVERY, interval=_INTERVAL)
        self._flush = flush

    async def save(self, target: str, key: str, checkpoint: Checkpoint) -> None:
        self._flush()
        await super().save(target, key, checkpoint)


def begin(
    *, url: str, submit: dict[str, Any], profile: str | None = None, save: Path | None = None
) -> SavedRun:
    """Save a submit before it is sent, in files that only the user can read, and lock the run.

    Raises:
        OSError: the run cannot be saved.
    """
    home = _home()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    _sweep()
    # Not named by the job's id: it does not exist yet, and the runtime could choose any text.
    directory = home / secrets.token_hex(8)
    directory.mkdir(mode=0o700)
    run = SavedRun(
        directory,
        url,
        submit,
        profile=profile,
        save=None if save is None else str(save.absolute()),
    )
    record = directory / _RECORD
    os.close(os.open(record, os.O_WRONLY | os.O_CREAT, 0o600))
    run.keep()
    if SavedRun.read(directory) is None or not run.hold():
        shutil.rmtree(directory, ignore_errors=True)
        raise OSError(f"files written to {directory} do not persist")
    return run


def unfinished() -> list[SavedRun]:
    """Return the unfinished runs, newest first. Other processes may be following some of them."""
    try:
        directories = list(_home().iterdir())
    except OSError:
        return []
    runs = (SavedRun.read(directory) for directory in directories)
    return sorted((run for run in runs if run is not None), key=lambda run: run.began, reverse=True)


def find(job_id: str) -> SavedRun | None:
    """Return the saved run of a job, if there is one."""
    return next((run for run in unfinished() if run.job_id == job_id), None)


def forget(job_id: str) -> None:
    """Remove the run of an ended job whose outcome was delivered."""
    run = find(job_id)
    if run is not None:
        run.over()


def _home() -> Path:
    directory = user_directory("state")
    if directory is None:
        raise OSError("no home directory is known")
    return directory / "runs"


def _sweep() -> None:
    """Remove expired runs."""
    for n, run in enumerate(unfinished()):
        if n >= MOST_RUNS or time() - run.began > _KEPT:
            run.over()
    # left by a process that was killed before it wrote the record
    for directory in _home().iterdir():
        with contextlib.suppress(OSError):
            if time() - directory.stat().st_mtime > _KEPT and SavedRun.read(directory) is None:
                shutil.rmtree(directory)
