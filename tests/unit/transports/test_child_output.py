"""A child's output is held back while nobody receives it, again and again."""

from __future__ import annotations

import asyncio
from typing import Any

from arcp_client.transports.stdio import _Child


class Pipe(asyncio.ReadTransport):
    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.calls.append("pause")

    def resume_reading(self) -> None:
        self.calls.append("resume")


class Process(asyncio.SubprocessTransport):
    def __init__(self, output: Pipe) -> None:
        super().__init__()
        self.output = output

    def get_pipe_transport(self, fd: int) -> Any:
        return self.output if fd == 1 else None


async def test_output_is_paused_beyond_a_mebibyte_and_resumed_when_it_was_received() -> None:
    pipe = Pipe()
    child = _Child("child", max_line=1024 * 1024, stderr_tail=0)
    child.connection_made(Process(pipe))
    line = b"x" * (64 * 1024 - 1) + b"\n"
    for round_ in range(1, 4):
        count = 0
        while pipe.calls.count("pause") < round_:
            child.pipe_data_received(1, line)
            count += 1
            assert count <= 17, "a mebibyte waits, and the child is not held back"
        assert count >= 16
        assert pipe.calls.count("resume") == round_ - 1
        for _ in range(count):
            await child.inbox.get()
        assert pipe.calls == ["pause", "resume"] * round_
