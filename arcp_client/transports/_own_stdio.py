"""The transport over this process's own stdin and stdout, for a runtime that serves its parent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from typing import Any

from arcp_client._tasks import TaskOwner
from arcp_client.errors import LinkLost
from arcp_client.transports._ending import Ending, again, closed_here
from arcp_client.transports._lines import LineSplitter, one_line
from arcp_client.transports._pipe_inbox import FrameInbox
from arcp_client.transports.base import MAX_FRAME

__all__ = ["StdioServerTransport"]

_CHUNK = 64 * 1024
# a writable pipe takes this many bytes without blocking
_PIPE_BUF = getattr(select, "PIPE_BUF", 512)
_HIGH = 256 * 1024
_LOW = 64 * 1024
_CHUNKS_ON_THE_WAY = 4
_PEER = "the client"


class StdioServerTransport:
    """Frames over two file descriptors, one frame a line; by default over stdin and stdout.

    Two threads read and write. So pipes, files and terminals all work, and descriptors that are
    shared with other processes stay blocking.

    By default the transport takes over the descriptors of the process until it is closed. In the
    meantime stdout is redirected to stderr, so that a stray ``print`` cannot corrupt the stream,
    and stdin reads from the null device.

    Args:
        stdin: a descriptor to read from instead of 0; it is never closed.
        stdout: a descriptor to write to instead of 1; it is never closed.
        max_line: bytes; longer frames are refused, longer lines are dropped.
    """

    def __init__(
        self, *, stdin: int | None = None, stdout: int | None = None, max_line: int = MAX_FRAME
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._max_line = max_line
        self._splitter = LineSplitter(max_line)
        self._inbox = FrameInbox(pause=self._pause, resume=self._resume)
        self._write_failure: LinkLost | None = None
        self._unwritten = 0
        self._waiters: set[asyncio.Future[None]] = set()
        self._taken = _TakenOver(stdin, stdout)
        self._wake_read, self._wake_write = os.pipe()
        self._gate = threading.Event()
        self._gate.set()
        self._credit = threading.Semaphore(_CHUNKS_ON_THE_WAY)
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._stop = False
        self._reader_done: asyncio.Future[None] = self._loop.create_future()
        self._writer_done: asyncio.Future[None] = self._loop.create_future()
        self._ending = Ending(TaskOwner("stdio server"), teardown=self._close, abort=self._abort)
        for run in (self._read, self._write):
            # Daemon threads: a read that cannot be interrupted must not delay the end of the
            # process.
            threading.Thread(target=run, name=f"arcp stdio {run.__name__}", daemon=True).start()

    def __repr__(self) -> str:
        return "<StdioServerTransport>"

    async def send(self, frame: bytes) -> None:
        """Write one frame as a line, in call order; waits while the client does not read.

        A call that is cancelled while it waits still sends the frame.

        Raises:
            LinkLost: the client disconnected, or the link was closed.
            LocalProtocolError: the frame is larger than ``max_line`` or contains a line end.
        """
        self._check()
        line = one_line(frame, limit=self._max_line)
        self._unwritten += len(line)
        self._lines.put(line)
        if self._unwritten > _HIGH:
            await self._wait_for_writer()
            self._check()

    async def receive(self) -> bytes:
        """Return the next line. Cancelling the call loses none.

        Raises:
            LinkLost: the input has ended, or the link was closed; raised again by every later call.
            RemoteProtocolError: a line was too long or not UTF-8 and was dropped; call again.
        """
        return await self._inbox.get()

    async def close(self, *, timeout: float = 5.0) -> None:
        """Write pending frames, then restore stdin and stdout. Idempotent.

        If the client does not read, the transport gives up after about ``timeout`` seconds.
        """
        self._inbox.end(closed_here(_PEER), forget=True)
        self._gate.set()
        await self._ending.reach(timeout=timeout)

    def _check(self) -> None:
        lost = self._write_failure
        if lost is None and self._ending.begun:
            lost = self._inbox.lost
        if lost is not None:
            raise again(lost)

    async def _wait_for_writer(self) -> None:
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    async def _close(self, _timeout: float) -> None:
        try:
            self._lines.put(None)
            await asyncio.wait({self._writer_done})
        finally:
            self._abort()
            self._release()  # fail the senders whose frames were not written
            await asyncio.wait({self._reader_done, self._writer_done}, timeout=1.0)
            if self._reader_done.done() and self._writer_done.done():
                os.close(self._wake_read)
                os.close(self._wake_write)
                self._taken.give_back()

    def _abort(self) -> None:
        if not self._stop:
            self._stop = True
            self._gate.set()
            self._credit.release()
            self._lines.put(None)
            os.write(self._wake_write, b"\0")

    # ------------------------------------------------------------------ in the loop, for threads

    def _fed(self, data: bytes) -> None:
        self._credit.release()
        if data:
            self._inbox.put(self._splitter.feed(data))
        else:
            self._inbox.put(self._splitter.end())
            self._inbox.end(LinkLost(f"{_PEER} closed its output"))

    def _written(self, size: int) -> None:
        self._unwritten -= size
        if self._unwritten <= _LOW:
            self._release()

    def _write_failed(self, error: OSError) -> None:
        self._write_failure = LinkLost(f"{_PEER} reads no more: {error.strerror}")
        self._release()

    def _release(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)

    def _pause(self) -> None:
        self._gate.clear()

    def _resume(self) -> None:
        self._gate.set()

    # ------------------------------------------------------------------ in the threads

    def _tell(self, callback: Callable[..., Any], *args: Any) -> None:
        # the loop is closed: there is no receiver to notify
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(callback, *args)

    def _read(self) -> None:
        source = self._taken.source
        try:
            while True:
                self._gate.wait()
                self._credit.acquire()
                if self._stop or not self._ready(source, writing=False):
                    return
                try:
                    data = os.read(source, _CHUNK)
                except BlockingIOError:
                    self._credit.release()
                    continue
                self._tell(self._fed, data)
                if not data:
                    return
        except OSError:
            self._tell(self._fed, b"")
        finally:
            self._tell(_set, self._reader_done)

    def _write(self) -> None:
        try:
            while (line := self._lines.get()) is not None:
                batch, last = [line], False
                with contextlib.suppress(queue.Empty):
                    while not last and len(batch) < 1024:
                        line = self._lines.get_nowait()
                        if line is None:
                            last = True
                        else:
                            batch.append(line)
                data = b"".join(batch)
                if not self._write_all(data):
                    return
                self._tell(self._written, len(data))
                if last:
                    return
        except OSError as error:
            self._tell(self._write_failed, error)
        finally:
            self._tell(_set, self._writer_done)

    def _write_all(self, data: bytes) -> bool:
        sink, rest = self._taken.sink, memoryview(data)
        while rest:
            if self._stop or not self._ready(sink, writing=True):
                return False
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(sink, rest[:_PIPE_BUF]) :]
        return True

    def _ready(self, fd: int, *, writing: bool) -> bool:
        """Wait until the descriptor is ready; return False if the link is being aborted."""
        if sys.platform == "win32":
            return True
        poller = select.poll()
        poller.register(self._wake_read, select.POLLIN)
        poller.register(fd, select.POLLOUT if writing else select.POLLIN)
        return all(ready != self._wake_read for ready, _ in poller.poll())


class _TakenOver:
    """Holds the descriptors in use; redirects those of the process in the meantime."""

    def __init__(self, stdin: int | None, stdout: int | None) -> None:
        self._saved: list[tuple[int, int]] = []
        self.source = self._take(0, os.devnull) if stdin is None else stdin
        self.sink = self._take(1, None) if stdout is None else stdout

    def _take(self, fd: int, instead: str | None) -> int:
        saved = os.dup(fd)
        self._saved.append((saved, fd))
        if instead is None:
            os.dup2(2, fd)
        else:
            stand_in = os.open(instead, os.O_RDONLY)
            os.dup2(stand_in, fd)
            os.close(stand_in)
        return saved

    def give_back(self) -> None:
        if sys.stdout is not None:
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()  # output printed in the meantime belongs to stderr
        while self._saved:
            saved, fd = self._saved.pop()
            os.dup2(saved, fd)
            os.close(saved)


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
