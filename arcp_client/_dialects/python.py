"""The Python runtime (PyPI: agentruntimecontrolprotocol). It binds a job to one link."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from arcp_client._dialects._bound_jobs import BoundJobs
from arcp_client._dialects._dialect import DROPS, EARLY_RESUMES, Deviation, Dialect
from arcp_client._dialects._forms import Forms
from arcp_client._dialects._stored_outcomes import StoredOutcomes
from arcp_client._dialects._uncorrelated import REFUSALS, Uncorrelated
from arcp_client._dialects._unreliable_numbers import UnreliableNumbers
from arcp_client._protocol.peer import Incoming
from arcp_client._wire import names
from arcp_client._wire.messages import Bye, Message
from arcp_client._wire.names import text_of

__all__ = ["Python"]


class Python(Dialect, StoredOutcomes, UnreliableNumbers, Uncorrelated, BoundJobs):
    """Binds a job, and each subscription, to the link over which the request for it came.

    After a resume the client ends each old subscription, subscribes again and reports a gap. It
    gets the outcome of an ended job by submitting again under the job's key.
    """

    name: ClassVar[str] = "python"
    title: ClassVar[str] = "Python"

    # -- how its welcome is recognised

    mark: ClassVar[str] = (
        "a `session_id` in the payload, and a resume token that begins with `rtk_`"
    )

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        token = text_of(welcome.get("resume_token")) or ""
        return "session_id" in welcome and token.startswith("rtk_")

    # -- what the client does differently

    exact_sizes: ClassVar[bool] = False
    numbers_apart: ClassVar[Literal["", "own", "submitter"]] = "own"  # of watched jobs
    renames: ClassVar[bool] = True  # a repeated event has a new envelope id
    keeps_dead_subscriptions: ClassVar[bool] = True  # they are ended before the next one
    overtaken_histories: ClassVar[bool] = True  # a job's end may come before its history
    doubts_acceptances: ClassVar[bool] = False  # an acceptance of an old job brings its end
    accepts_acks: ClassVar[bool] = False
    names_requests: ClassVar[bool] = True
    max_frame: ClassVar[int | None] = 2**20
    max_line: ClassVar[int | None] = 2**16

    def counts_apart(self, frame: Incoming) -> bool:
        return super().counts_apart(frame) and not self.is_stored(frame)

    def goodbye(self) -> Message | None:
        return Bye()

    # -- what `doctor` says

    deviations: ClassVar[tuple[Deviation, ...]] = (
        Deviation(
            "running jobs",
            "§6.3",
            "a resumed session receives no more events of jobs that were running, and events that"
            " they emitted without a link are lost",
            "subscribes again, fetches a stored outcome with the idempotency key, and reports a"
            " `Gap` whose end is unknown",
        ),
        Deviation(
            "histories",
            "§7.6",
            "events that any client acknowledged are missing from histories",
            "sends no acknowledgements, which are optional (§6.5)",
        ),
        Deviation(
            "event numbers",
            "§8.3",
            "events of a watched job have numbers of their own, which collide with the session's",
            "recognises events by their ids and contents",
        ),
        EARLY_RESUMES,
        REFUSALS,
        Deviation(
            "long frames",
            "§4",
            "closes a WebSocket on a frame of more than 1 MiB, and ends over stdio on a line of"
            " more than 64 KiB",
            "refuses a longer request with `LocalProtocolError`",
        ),
        Deviation(
            "close",
            "§6.7",
            "`session.close` is refused; `session.bye` is accepted, but not answered",
            "sends `session.bye`",
        ),
    )
    outcomes: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(DROPS, "its result, one Gap"),
        "a streamed result ends during a drop": "ResultIncomplete, one Gap",
    }

    # -- what `ScriptedRuntime` plays

    forms: ClassVar[Forms] = Forms(
        token="rtk_",
        session_in_welcome=True,
        needs_reasons=True,
        cancels_in="envelope",
        names_request="request_id",
        error_fields={"details": None},
        resume_error=names.PERMISSION_DENIED,
        away="lost",
        follows=False,
        acks_free="histories",
        watched="own",
        renames_copies=True,
        history_first=True,
        counts_replayed=True,
        short_entries=True,
        budgets="texts",
        last_chunk="empty",
        acks_cancel="no",
        ends_as_result=True,
        stored_ends=True,
        closes=frozenset({names.BYE}),
        answers_close=False,
    )
