"""Serves text files under one directory (``fs/*``).

The symlinks of a path are resolved, and the result must lie under the root. Then the resolved path
is opened step by step from the descriptor of the root, without following links. So a link that is
created after the check is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any, Protocol, TypeVar, runtime_checkable

from arcp_client import _arguments as check
from arcp_client._tasks import TaskOwner
from arcp_client.acp.errors import INVALID_PARAMS, NOT_FOUND, Refusal

__all__ = ["FileSystem", "LocalFiles"]

T = TypeVar("T")

_MIB = 1024 * 1024


@runtime_checkable
class FileSystem(Protocol):
    """The interface of services for ``fs/*``. Methods raise `Refusal` to refuse.

    The attribute ``max_bytes``, if present, bounds the returned texts in UTF-8: requests wait until
    `AcpLimits.answers` has room for that size. The default is 1 MiB.
    """

    @property
    def writable(self) -> bool:
        """Whether ``fs/write_text_file`` is offered to the agent."""

    async def read_text_file(
        self, path: str, *, line: int | None, limit: int | None, session_id: str
    ) -> str:
        """Return the text of a file, or ``limit`` lines from ``line`` on, counted from 1."""

    async def write_text_file(self, path: str, content: str, *, session_id: str) -> None:
        """Replace the text of a file by ``content``."""


class LocalFiles:
    """Serves text files under one directory. Files outside of it are never read or written.

    Symlinks are followed if they stay inside. Writing creates missing directories and replaces a
    file atomically, keeping its mode and owner. A file is written in place if replacing it would
    lose information or is not possible: it has several hard links, attributes such as an access
    control list, or an owner that this process cannot set; it is a mount point; its directory is
    not writable.

    Args:
        root: the directory.
        writable: whether the agent may write.
        max_bytes: files that are larger are neither read nor written.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        writable: bool = True,
        max_bytes: int = 16 * _MIB,
    ) -> None:
        check.a_path("root", root)
        check.a_flag("writable", writable)
        check.a_number("max_bytes", max_bytes, least=1)
        self._root = Path(os.path.realpath(root))
        if not self._root.is_dir():
            raise NotADirectoryError(f"the directory {self._root} does not exist")
        self._writable = writable
        self._max_bytes = max_bytes
        # Failures are awaited, or the caller was cancelled.
        self._owner = TaskOwner("arcp_client.acp.files", on_failure=lambda _: None)

    def __repr__(self) -> str:
        return f"<LocalFiles {self._root}>"

    @property
    def root(self) -> Path:
        """The directory, without symlinks."""
        return self._root

    @property
    def max_bytes(self) -> int:
        """The size of the largest file that is read or written."""
        return self._max_bytes

    @property
    def writable(self) -> bool:
        """Whether the agent may write."""
        return self._writable

    async def read_text_file(
        self,
        path: str,
        *,
        line: int | None = None,
        limit: int | None = None,
        session_id: str = "",
    ) -> str:
        """Return the text of a file, or ``limit`` lines from ``line`` on, counted from 1.

        Raises:
            Refusal: the path is not absolute or leads outside; the file does not exist, is not a
                regular file, is too large, or is not UTF-8.
        """
        parts = await asyncio.to_thread(self._parts, path)
        self.allow(str(self._root.joinpath(*parts)), writing=False)
        text = await self._thread(self._read, path, parts)
        if line is None and limit is None:
            return text
        lines = text.split("\n")
        ended = bool(lines) and lines[-1] == ""
        if ended:
            lines.pop()
        first = max((line or 1) - 1, 0)
        last = len(lines) if limit is None else first + limit
        chosen = lines[first:last]
        tail = "\n" if chosen and (ended or last < len(lines)) else ""
        return "\n".join(chosen) + tail

    async def write_text_file(self, path: str, content: str, *, session_id: str = "") -> None:
        """Replace the text of a file by ``content``; create the file if it is missing.

        Raises:
            Refusal: as for reading, or writing is not allowed.
        """
        if not self._writable:
            raise Refusal("writing is not allowed here", number=INVALID_PARAMS)
        parts = await asyncio.to_thread(self._parts, path)
        self.allow(str(self._root.joinpath(*parts)), writing=True)
        await self._thread(self._write, path, parts, content)

    def allow(self, path: str, *, writing: bool) -> None:
        """Hook for subclasses: raise `Refusal` to refuse a file. The path has no symlinks."""

    async def _thread(self, function: Callable[..., T], *arguments: Any) -> T:
        """Run a function in a thread. A cancelled caller still waits for the thread's end.

        A thread cannot be stopped, and until it ends, it uses memory and keeps its file open.
        """
        work = self._owner.spawn(asyncio.to_thread(function, *arguments), name=function.__name__)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            await asyncio.wait({work})
            raise

    # ------------------------------------------------------------------ in a thread

    def _read(self, path: str, parts: tuple[str, ...]) -> str:
        with self._refusing(path), self._parent(parts, make=False) as parent:
            # O_NONBLOCK: opening a pipe would wait for its other end.
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            fd = os.open(parts[-1], flags, dir_fd=parent)
            with os.fdopen(fd, "rb") as file:
                self._check(os.fstat(fd), path)
                data = file.read(self._max_bytes + 1)
        if len(data) > self._max_bytes:
            raise Refusal(f"{path} has more than {self._max_bytes} bytes", number=INVALID_PARAMS)
        try:
            return data.decode()
        except UnicodeDecodeError:
            raise Refusal(f"{path} is not UTF-8 text", number=INVALID_PARAMS) from None

    def _write(self, path: str, parts: tuple[str, ...], content: str) -> None:
        data = content.encode("utf-8", "surrogatepass")
        if len(data) > self._max_bytes:
            raise Refusal(f"more than {self._max_bytes} bytes", number=INVALID_PARAMS)
        with self._refusing(path), self._parent(parts, make=True) as parent:
            found = None
            with contextlib.suppress(FileNotFoundError):
                found = os.stat(parts[-1], dir_fd=parent, follow_symlinks=False)
            if found is None:
                _replace(parent, parts[-1], data, None)
                return
            self._check(found, path)
            if found.st_nlink == 1 and not _has_attributes(parent, parts[-1]):
                with contextlib.suppress(_IrreplaceableError):
                    _replace(parent, parts[-1], data, found)
                    return
            _write_in_place(parent, parts[-1], data, found)

    def _parts(self, path: str) -> tuple[str, ...]:
        if not PurePath(path).is_absolute() or "\0" in path:
            raise Refusal(f"{path!r} is not an absolute path", number=INVALID_PARAMS)
        try:
            real = Path(os.path.realpath(path))
            parts = real.relative_to(self._root).parts
        except (ValueError, OSError):
            raise Refusal(f"{path} is outside the workspace", number=INVALID_PARAMS) from None
        if not parts:
            raise Refusal(f"{path} is a directory", number=INVALID_PARAMS)
        return parts

    @contextlib.contextmanager
    def _parent(self, parts: tuple[str, ...], *, make: bool) -> Iterator[int]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._root, flags)
        try:
            for part in parts[:-1]:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                inner = os.open(part, flags, dir_fd=fd)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def _check(self, found: os.stat_result, path: str) -> None:
        if not stat.S_ISREG(found.st_mode):
            raise Refusal(f"{path} is not a regular file", number=INVALID_PARAMS)

    @contextlib.contextmanager
    def _refusing(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileNotFoundError:
            raise Refusal(f"{path} does not exist", number=NOT_FOUND) from None
        except OSError as error:
            text = f"{path}: {error.strerror or error}"
            raise Refusal(text, number=INVALID_PARAMS) from None


class _IrreplaceableError(Exception):
    """Replacing the file would lose information."""


# Errors of creating the new file next to the old one, and of renaming it: the directory is not
# writable, sticky or mounted read-only, or the file is a mount point.
_IRREPLACEABLE = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY, errno.EXDEV})


def _replace(parent: int, name: str, data: bytes, found: os.stat_result | None) -> None:
    """Write a new file and rename it to the final name, over an old file if there is one.

    Raises:
        _IrreplaceableError: the old file must be written in place.
        OSError: any other failure. The old file is unchanged.
    """
    new = f".arcp-{secrets.token_hex(8)}"
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(new, flags, 0o666 if found is None else 0o600, dir_fd=parent)
        try:
            with os.fdopen(fd, "wb") as file:
                if found is not None:
                    _dress(fd, found)
                file.write(data)
            os.replace(new, name, src_dir_fd=parent, dst_dir_fd=parent)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(new, dir_fd=parent)
            raise
    except OSError as error:
        if found is not None and error.errno in _IRREPLACEABLE:
            raise _IrreplaceableError from error
        raise


def _dress(fd: int, found: os.stat_result) -> None:
    """Give the new file the owner and the mode of the file that it replaces."""
    made = os.fstat(fd)
    if (made.st_uid, made.st_gid) != (found.st_uid, found.st_gid):
        # before the mode, because chown clears bits of it
        os.fchown(fd, found.st_uid, found.st_gid)
    os.fchmod(fd, stat.S_IMODE(found.st_mode))


def _has_attributes(parent: int, name: str) -> bool:
    """Whether a file has attributes that a new file would lack, such as an access control list."""
    if not hasattr(os, "listxattr"):
        return False
    try:
        fd = os.open(
            name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent
        )
    except OSError:
        return False  # not readable, so its attributes are unknown
    try:
        return bool(os.listxattr(fd))
    except OSError:
        return False  # the file system does not support attributes
    finally:
        os.close(fd)


def _write_in_place(parent: int, name: str, data: bytes, found: os.stat_result) -> None:
    """Overwrite a file, after allocating the additional space that it needs."""
    fd = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=parent)
    with os.fdopen(fd, "wb", buffering=0) as file:
        now = os.fstat(fd)
        if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino):
            raise OSError(errno.EAGAIN, "the file was replaced in the meantime")
        if len(data) > now.st_size and hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(fd, 0, len(data))
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENODEV):
                    os.ftruncate(fd, now.st_size)
                    raise
        left = memoryview(data)
        while left:
            left = left[file.write(left) or 0 :]
        os.ftruncate(fd, len(data))
