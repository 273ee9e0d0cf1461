"""The C# runtime. It sends a resumed session new events of earlier jobs only at the next resume."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._dialect import Deviation, Dialect
from arcp_client._dialects._forms import Forms
from arcp_client._dialects._silent_resume import SilentResume
from arcp_client._dialects._uncorrelated import REFUSALS, Uncorrelated
from arcp_client._dialects._unreliable_numbers import UnreliableNumbers
from arcp_client._wire import names

__all__ = ["CSharp"]


class CSharp(Dialect, UnreliableNumbers, Uncorrelated, SilentResume):
    """Stores the events of a job whose link is lost, and sends them only at the next resume.

    While such a job runs, the client resumes the session from time to time.
    """

    name: ClassVar[str] = "csharp"
    title: ClassVar[str] = "C#"

    # -- how its welcome is recognised

    mark: ClassVar[str] = "envelope ids begin with `msg_`, and the marks of TypeScript are absent"

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        return envelope_id.startswith("msg_")

    # -- what the client does differently

    exact_sizes: ClassVar[bool] = False
    counts_by_job: ClassVar[bool] = True  # histories start at a number of the job

    # -- what `doctor` says

    deviations: ClassVar[tuple[Deviation, ...]] = (
        Deviation(
            "running jobs",
            "§6.3",
            "a resumed session receives new events of earlier jobs only at the next resume",
            "resumes every 2 to 30 seconds while jobs run: nothing is lost, events come in batches",
        ),
        Deviation(
            "histories",
            "§7.6",
            "events of a history have numbers of the job, not of the session; the end of the job is"
            " missing",
            "asks for the whole history, and drops repeated events",
        ),
        REFUSALS,
    )
    outcomes: ClassVar[Mapping[str, str]] = {
        "an ended job is watched": "ResultUnavailable",
        "a key is used in a later session": "ResultUnavailable",
    }

    # -- what `ScriptedRuntime` plays

    forms: ClassVar[Forms] = Forms(
        ids="msg",
        agent_entry={},
        error_fields={"detail": "of no interest"},
        refuses_unknown=False,
        bad_token="error",
        bad_token_session="new",
        resume_in="top",
        follows=False,
        takes_subscriber=False,
        acks_free="resumes",
        ended="no end",
        makes_traces=True,
        time_end="0+00:00",
        timed_out="timedout",
        closes=frozenset({names.CLOSE, names.BYE}),
    )
