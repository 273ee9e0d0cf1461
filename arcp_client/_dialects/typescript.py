"""The TypeScript runtime (npm: @agentruntimecontrolprotocol/sdk). A lost link ends its jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._bound_jobs import BoundJobs
from arcp_client._dialects._dialect import DROPS, Deviation, Dialect
from arcp_client._dialects._forms import Forms
from arcp_client._dialects._uncorrelated import REFUSALS, Uncorrelated
from arcp_client._dialects._unreliable_numbers import UnreliableNumbers
from arcp_client._protocol.peer import Next
from arcp_client._wire import names
from arcp_client._wire.messages import Bye, Message
from arcp_client._wire.names import text_of

__all__ = ["TypeScript"]


class TypeScript(Dialect, UnreliableNumbers, Uncorrelated, BoundJobs):
    """A runtime that ends a job at the first event that it cannot send, as link or session ended.

    After a resume the client subscribes to each job again. The answer tells whether the job still
    runs. While the job is silent, the client polls it.
    """

    name: ClassVar[str] = "typescript"
    title: ClassVar[str] = "TypeScript"

    # -- how its welcome is recognised

    mark: ClassVar[str] = (
        "envelope ids begin `msg_` and the resume token `rt_`, and each agent has `versions`"
    )

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        token = text_of(welcome.get("resume_token")) or ""
        return (
            envelope_id.startswith("msg_") and token.startswith("rt_") and _lists_versions(welcome)
        )

    # -- what the client does differently

    exact_sizes: ClassVar[bool] = False
    session_ends_jobs: ClassVar[bool] = True
    renames: ClassVar[bool] = True  # a repeated event has a new envelope id

    def resume_refused(self) -> Next:
        # A resume that missed nothing is refused; one from an event earlier is not.
        return Next.STEP_BACK

    def goodbye(self) -> Message | None:
        return Bye()

    # -- what `doctor` says

    deviations: ClassVar[tuple[Deviation, ...]] = (
        Deviation(
            "running jobs",
            "§6.3, §6.7",
            "a job ends when its link is lost or its session is closed",
            "reports the job as lost (`JobLost`), without a `Gap`; `close` and `detach` warn, and"
            " `run --detach` refuses",
        ),
        Deviation(
            "resume",
            "§6.3",
            "a resume that missed nothing is refused",
            "resumes from one event earlier",
        ),
        Deviation(
            "refused submit",
            "§7.5, §12",
            "the refusal is a `job.error` with a made-up job id",
            "takes the error as the answer to the submit",
        ),
        REFUSALS,
        Deviation(
            "close",
            "§6.7",
            "`session.close` is refused; `session.bye` is accepted, but not answered",
            "sends `session.bye`",
        ),
    )
    outcomes: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(DROPS, "JobLost"),
        "listing": "running ones",
        "an ended job is watched": "JobNotFound",
        "a key is used in a later session": "JobLost",
        "the session is closed": "gone",
    }

    # -- what `ScriptedRuntime` plays

    forms: ClassVar[Forms] = Forms(
        ids="msg",
        token="rt_",
        lists_common_features=True,
        needs_session="all but the hello",
        cancels_in="envelope",
        refuses="job",
        refuses_late_cancel=True,
        bad_token="error",
        away="dies",
        follows=False,
        caught_up=False,
        renames_copies=True,
        history_first=True,
        ended="JOB_NOT_FOUND",
        lists_ended=False,
        makes_traces=True,
        last_chunk="empty",
        closes=frozenset({names.BYE}),
        answers_close=False,
    )


def _lists_versions(welcome: Mapping[str, Any]) -> bool:
    capabilities = welcome.get("capabilities")
    agents = capabilities.get("agents") if isinstance(capabilities, Mapping) else None
    entries = agents if isinstance(agents, list) else []
    return all("versions" in entry for entry in entries if isinstance(entry, Mapping))
