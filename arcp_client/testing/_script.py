"""The parts of a script: steps of agents, and answers to requests.

Plain frozen values, so that a script reads from top to bottom and can be shared between tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

__all__ = [
    "Accept",
    "Answer",
    "Chunk",
    "Drop",
    "Emit",
    "Fail",
    "Finish",
    "Later",
    "Raw",
    "Refuse",
    "Script",
    "Spawn",
    "Step",
    "Wait",
    "Withhold",
]


@dataclass(frozen=True)
class Emit:
    """The job emits one event (§8.2)."""

    kind: str
    body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Chunk:
    """The job emits one piece of a chunked result (§8.4): text, or bytes in base64."""

    data: str | bytes


@dataclass(frozen=True)
class Finish:
    """The job succeeds; without a value if it emitted chunks. Every script ends with it."""

    value: Any = None


@dataclass(frozen=True)
class Fail:
    """The job ends in another way: ``status`` is error, cancelled or timed_out (§7.3)."""

    code: str = "INTERNAL_ERROR"
    message: str = "as the script says"
    status: str = "error"


@dataclass(frozen=True)
class Wait:
    """The job goes on when the test opens this gate with `ScriptedRuntime.open`."""

    gate: str


@dataclass(frozen=True)
class Accept:
    """Here the job is accepted, and not before its first step: what stands above overtakes it."""


@dataclass(frozen=True)
class Spawn:
    """The job delegates to an agent: a job that nobody asked for, in the same session (§10)."""

    agent: str


@dataclass(frozen=True)
class Drop:
    """The link ends without a goodbye. As an answer: the request took effect before that."""


@dataclass(frozen=True)
class Raw:
    """Just this frame. A mapping gets version, id and session unless it has its own."""

    frame: Mapping[str, Any] | bytes


@dataclass(frozen=True)
class Later:
    """What ``step`` sends, or the usual answer, comes after ``by`` frames that follow it."""

    step: Step | None = None
    by: int = 1


@dataclass(frozen=True)
class Refuse:
    """The request is refused with this code (§12), in the form of the dialect."""

    code: str
    message: str = "as the script says"


@dataclass(frozen=True)
class Withhold:
    """The request has no effect and no answer."""


Step: TypeAlias = Emit | Chunk | Finish | Fail | Wait | Accept | Spawn | Drop | Raw | Later
"""What an agent does next."""

Script: TypeAlias = tuple[Step, ...]
"""An agent, from its start to its end."""

Answer: TypeAlias = Refuse | Withhold | Drop | Later | Raw
"""What becomes of one request, in place of the usual answer."""
