"""The parts of a script: steps of agents, and answers to requests.

All of them are frozen, so that tests can share them. The steps of a script run from top to bottom.
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
    """The job succeeds; without a value if it emitted chunks. Implied at the end of a script."""

    value: Any = None


@dataclass(frozen=True)
class Fail:
    """The job ends with the status error, cancelled or timed_out (§7.3)."""

    code: str = "INTERNAL_ERROR"
    message: str = "as the script says"
    status: str = "error"


@dataclass(frozen=True)
class Wait:
    """The job waits until the test opens this gate with `ScriptedRuntime.open`."""

    gate: str


@dataclass(frozen=True)
class Accept:
    """The job is accepted at this step. Frames of earlier steps overtake the acceptance."""


@dataclass(frozen=True)
class Spawn:
    """The job delegates to an agent: a child job in the same session, without a submit (§10)."""

    agent: str


@dataclass(frozen=True)
class Drop:
    """The link ends without a goodbye. As an answer: after the request has taken effect."""


@dataclass(frozen=True)
class Raw:
    """Send these bytes unchanged, or this mapping with version, id and session added."""

    frame: Mapping[str, Any] | bytes


@dataclass(frozen=True)
class Later:
    """The frames of ``step``, or the usual answer, are sent after ``by`` further frames."""

    step: Step | None = None
    by: int = 1


@dataclass(frozen=True)
class Refuse:
    """The request is refused, in the form of the dialect.

    Attributes:
        code: a code of §12, such as ``AGENT_NOT_AVAILABLE``; `arcp_client.errors` names them.
        message: the message of the error.
    """

    code: str
    message: str = "as the script says"


@dataclass(frozen=True)
class Withhold:
    """The request has neither an effect nor an answer."""


Step: TypeAlias = Emit | Chunk | Finish | Fail | Wait | Accept | Spawn | Drop | Raw | Later
"""One step of an agent."""

Script: TypeAlias = tuple[Step, ...]
"""The steps of an agent, from start to end."""

Answer: TypeAlias = Refuse | Withhold | Drop | Later | Raw
"""The handling of one request, in place of the usual answer."""
