"""Describes a runtime: how it is recognised, what it does differently, and how it writes messages.

Each public module of this package holds one `Dialect`. A `Dialect` has two parts: behaviour, and
fields that describe the runtime. The session uses only the behaviour, as that of a `Peer`.
``arcp-client doctor``, the interoperability page and `ScriptedRuntime` use only the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final, NamedTuple

from arcp_client._dialects._forms import Forms
from arcp_client._protocol.peer import Peer

__all__ = ["DROPS", "EARLY_RESUMES", "RACING_NUMBERS", "Deviation", "Dialect"]


class Deviation(NamedTuple):
    """A deviation from the specification.

    Attributes:
        capability: where it shows, in one or two words; unique in its dialect.
        section: of the specification.
        seen: what the runtime does.
        remedy: what the client does about it, or what the application must do.
    """

    capability: str
    section: str
    seen: str
    remedy: str


class Dialect(Peer):
    """A kind of runtime.

    Attributes:
        name: what ``SessionInfo.dialect`` says.
        title: its name in prose.
        mark: how its welcome is recognised, in words; `wrote` decides.
        deviations: what it does differently.
        outcomes: what the application gets in each probe (a row of the interoperability page) whose
            result differs from that of a conforming runtime.
        forms: its messages.
    """

    title: ClassVar[str]
    mark: ClassVar[str]
    deviations: ClassVar[tuple[Deviation, ...]] = ()
    outcomes: ClassVar[Mapping[str, str]] = {}
    forms: ClassVar[Forms] = Forms()

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        """Whether a runtime of this kind wrote this welcome."""
        return False


DROPS: Final = (
    "the link drops",
    "the link drops under three jobs",
    "the link drops in a streamed result",
    "the job ends during a drop",
    "a streamed result ends during a drop",
)
"""The probes of `Dialect.outcomes` in which the link is lost."""

RACING_NUMBERS: Final = Deviation(
    "event order",
    "§8.3",
    "events of concurrent jobs may overtake one another",
    "waits half a second for a missing number, then resumes the session to get it",
)
EARLY_RESUMES: Final = Deviation(
    "early resumes",
    "§6.3",
    "a resume is refused until the runtime has noticed the end of the old link",
    "tries again, with growing pauses",
)
