"""Joins several streams of one browser into one, over a single connection.

A browser opens at most six connections to a server, for all its windows. A shared worker in the
browser opens one stream for all windows instead, and subscribes this stream to the data of each
window. Each subscription holds its position and at most one frame that was not sent yet, so the
memory for a slow browser is bounded.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from arcp_client._feeds import frames
from arcp_client._feeds.stream import FrameStream
from arcp_client._tasks import TaskOwner

__all__ = ["SharedStream", "SharedStreams", "Source"]

Source = Callable[[FrameStream], AsyncGenerator[bytes, None]]
"""Yields the frames of one subscription, while its stream lasts."""

_TOPICS = 512
"""The maximum number of subscriptions of all shared streams."""
_INTERVAL = 1.0


class _Topic:
    """One subscription: its source, the task that reads it, and the frame that waits."""

    def __init__(self, name: str, source: Source, main: FrameStream) -> None:
        self.name = name
        self.stream = FrameStream(interval=_INTERVAL)
        self.stream.allowed = lambda: not main.stopped
        self.taken = asyncio.Event()
        self.source = source
        self.reader: asyncio.Task[None] | None = None


class SharedStream:
    """One stream with the frames of many subscriptions; see `SharedStreams`.

    Attributes:
        id: names the stream in requests that change its subscriptions.
    """

    def __init__(self, main: FrameStream) -> None:
        self.id = secrets.token_urlsafe(16)
        self._main = main
        self._topics: dict[str, _Topic] = {}
        self._ready: deque[tuple[_Topic, bytes]] = deque()
        self._owner = TaskOwner("arcp_client.web")

    def __len__(self) -> int:
        return len(self._topics)

    def add(self, name: str, source: Source) -> None:
        """Subscribe to a source; a subscription with the same name is replaced."""
        self.remove(name)
        topic = self._topics[name] = _Topic(name, source, self._main)
        topic.reader = self._owner.spawn(self._read(topic), name="shared")

    def remove(self, name: str) -> None:
        """End a subscription."""
        topic = self._topics.pop(name, None)
        if topic is not None:
            topic.stream.stop()
            topic.taken.set()

    async def frames(self) -> AsyncGenerator[bytes, None]:
        """Yield the id of the stream, then the frames of all subscriptions, in turns."""
        main = self._main
        try:
            yield main.sending(frames.RETRY + frames.frame("hello", frames.encoded(self.id)))
            while not main.stopped:
                while self._ready:
                    topic, frame = self._ready.popleft()
                    if self._topics.get(topic.name) is topic:
                        yield main.sending(frame)
                    topic.taken.set()
                if await main.wait():
                    yield main.sending(frames.KEEPALIVE)
        finally:
            for name in tuple(self._topics):
                self.remove(name)
            await self._owner.close()

    async def _read(self, topic: _Topic) -> None:
        async with aclosing(topic.source(topic.stream)) as source:
            async for told in source:
                if not await self._pass_on(topic, _wrapped(topic.name, told)):
                    return
        await self._pass_on(topic, _message(topic.name, "closed", "", b"null"))

    async def _pass_on(self, topic: _Topic, frame: bytes) -> bool:
        """Wait until the frame was sent; False if the subscription has ended."""
        if frame:
            topic.taken.clear()
            self._ready.append((topic, frame))
            self._main.wake.set()
            await topic.taken.wait()
        return not topic.stream.stopped


class SharedStreams:
    """The shared streams of one application."""

    def __init__(self) -> None:
        self._open: dict[str, SharedStream] = {}

    @property
    def full(self) -> bool:
        """Whether there is no room for a further subscription."""
        return sum(map(len, self._open.values())) >= _TOPICS

    def get(self, stream_id: str) -> SharedStream | None:
        """The open stream with this id."""
        return self._open.get(stream_id)

    async def play(self, main: FrameStream) -> AsyncGenerator[bytes, None]:
        """Yield the frames of a new shared stream, until the browser leaves."""
        shared = SharedStream(main)
        self._open[shared.id] = shared
        try:
            async with aclosing(shared.frames()) as source:
                async for frame in source:
                    yield frame
        finally:
            del self._open[shared.id]


def _wrapped(name: str, told: bytes) -> bytes:
    """The same frames as messages of a subscription; comments are left out."""
    made = b""
    for frame in told.split(b"\n\n"):
        fields = dict(line.partition(b": ")[::2] for line in frame.split(b"\n"))
        if b"event" in fields:
            kind, mark = fields[b"event"].decode(), fields.get(b"id", b"").decode()
            made += _message(name, kind, mark, fields[b"data"])
    return made


def _message(name: str, kind: str, mark: str, data: bytes) -> bytes:
    """A frame whose data is the name, the kind and the position in words, then the JSON."""
    return frames.frame(
        "m", b"%b %b %b %b" % (name.encode(), kind.encode(), mark.encode() or b"-", data)
    )
