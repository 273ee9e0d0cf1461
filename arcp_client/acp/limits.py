"""The limits of one connection to an agent: bytes, numbers and seconds."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from arcp_client import _arguments as check
from arcp_client.policy import Buffer

__all__ = ["AcpLimits"]

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class AcpLimits:
    """Bounds on queues, memory and waiting times.

    Attributes:
        max_line: bytes of one message; a longer line is dropped and reported.
        buffer: updates that may wait for handlers, over all sessions: ``hard`` updates and
            ``bytes`` in memory, then ``spill`` bytes in temporary files. When these are full, the
            client stops reading the agent's output. One iterator holds ``soft`` updates or
            ``bytes``.
        unknown_sessions: number of unknown sessions whose updates are kept.
        unknown_updates: updates kept for each of them.
        unknown_bytes: bytes of those updates, over all unknown sessions.
        history: updates of a session kept for iterators that start late.
        history_bytes: bytes of those updates, for each session.
        state: bytes of the tool calls in ``session.state``, for each session.
        open_requests: concurrent open requests of the agent; more are refused.
        requests: bytes of those requests. Above it, the client stops reading the agent's output
            until some are answered.
        answers: bytes of answers to the agent: unread answers, and files and terminal output that
            are being read for one. Further requests for files and output wait until there is room
            for the largest answer, four times `LocalFiles`' ``max_bytes``.
        start: seconds for the answer to ``initialize``.
        request: seconds for the answer to any other call, except ``authenticate``, ``session/load``
            and ``session/prompt``, which have no timeout.
        handler: seconds for one call of an update handler; None for no bound.
        hold: longest time that updates after ``session/new`` are held until the session is first
            used.
        stall: how long a full iterator may block its session without being advanced.
        cancel: how long a cancelled `AcpSession.prompt` waits for the agent to end the turn.
        kill: how long the agent may take after a second cancellation, before it is killed.
        drain: seconds for running handlers when the client closes.
        close: seconds to end the agent, from closing its input to the last signal.
    """

    max_line: int = 64 * _MIB
    buffer: Buffer = field(default_factory=lambda: Buffer(bytes=8 * _MIB))
    unknown_sessions: int = 64
    unknown_updates: int = 256
    unknown_bytes: int = 4 * _MIB
    history: int = 1024
    history_bytes: int = _MIB
    state: int = 32 * _MIB
    open_requests: int = 1024
    requests: int = 64 * _MIB
    answers: int = 64 * _MIB
    start: float = 60.0
    request: float = 120.0
    handler: float | None = None
    hold: float = 1.0
    stall: float = 30.0
    cancel: float = 5.0
    kill: float = 5.0
    drain: float = 5.0
    close: float = 5.0

    def __post_init__(self) -> None:
        check.an_instance("AcpLimits.buffer", self.buffer, Buffer, "a Buffer")
        check.seconds("AcpLimits.handler", self.handler, above=True, none=True)
        for field_ in fields(self):
            value, name = getattr(self, field_.name), f"AcpLimits.{field_.name}"
            if isinstance(field_.default, float):
                check.seconds(name, value, above=True)
            elif isinstance(field_.default, int):
                check.a_number(name, value, least=1)
