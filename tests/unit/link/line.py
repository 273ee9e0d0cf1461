"""A connector whose attempts end as a test says, in front of an embedded runtime."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from arcp_client import Runtime
from arcp_client.transports.base import Transport

Step = BaseException | Callable[[Transport], Any] | None


class Line:
    """Leads to a runtime, except where it does not.

    Args:
        runtime: where it leads to.
        steps: what becomes of each attempt in turn: an exception is raised; a function gets the
            open transport, and is awaited if it gives something to await; ``None``, and all
            attempts after the last step, succeed.

    Attributes:
        attempts: when each was made.
        up: the transports that were made.
    """

    target = "test://line"

    def __init__(self, runtime: Runtime, steps: Iterable[Step] = ()) -> None:
        self._runtime = runtime
        self.steps: Iterator[Step] = iter(steps)
        self.attempts: list[float] = []
        self.up: list[Transport] = []

    async def connect(self) -> Transport:
        self.attempts.append(asyncio.get_running_loop().time())
        step = next(self.steps, None)
        if isinstance(step, BaseException):
            raise step
        transport = await self._runtime.connect()
        self.up.append(transport)
        if step is not None:
            result = step(transport)
            if result is not None:
                await result
        return transport

    async def cut(self) -> None:
        """End the link that is up, without a goodbye."""
        await self.up[-1].close(timeout=0.0)


def rewriting(**fields: Any) -> Callable[[Transport], None]:
    """A step after which the welcome says other things; ``...`` takes a field out of it."""

    def step(transport: Transport) -> None:
        receive = transport.receive

        async def rewritten() -> bytes:
            frame = json.loads(await receive())
            if frame["type"] == "session.welcome":
                for name, value in fields.items():
                    frame["payload"].pop(name, None)
                    if value is not ...:
                        frame["payload"][name] = value
            return json.dumps(frame).encode()

        transport.receive = rewritten  # type: ignore[method-assign]

    return step
