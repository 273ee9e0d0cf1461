"""The Ruby runtime. A resumed session must subscribe to its own jobs. Leases have no patterns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from arcp_client._dialects._dialect import Deviation, Dialect
from arcp_client._dialects._forms import Forms
from arcp_client._dialects._lease_names import LeaseNames
from arcp_client._dialects._silent_resume import SilentResume
from arcp_client._dialects._unreliable_numbers import UnreliableNumbers
from arcp_client._wire import names
from arcp_client._wire.messages import Bye, Message

__all__ = ["Ruby"]


class Ruby(Dialect, UnreliableNumbers, LeaseNames, SilentResume):
    """Sends a resumed session events of earlier jobs only if the session subscribes to them.

    After a resume the client subscribes to its own jobs. If the runtime refuses a subscription, the
    client resumes the session from time to time, and each resume brings the job's events.
    """

    name: ClassVar[str] = "ruby"
    title: ClassVar[str] = "Ruby"

    # -- how its welcome is recognised

    mark: ClassVar[str] = "a `runtime_name` in the payload"

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        return "runtime_name" in welcome

    # -- what the client does differently

    exact_sizes: ClassVar[bool] = False
    names_requests: ClassVar[bool] = True
    numbers_apart: ClassVar[Literal["", "own", "submitter"]] = "submitter"  # of watched jobs
    hears_by_subscribing: ClassVar[bool] = True  # a subscription to its own job restores delivery

    def goodbye(self) -> Message | None:
        return Bye()

    # -- what `doctor` says

    deviations: ClassVar[tuple[Deviation, ...]] = (
        Deviation(
            "running jobs",
            "§6.3",
            "a resumed session receives no events of earlier jobs until it subscribes to them",
            "subscribes; if that is refused, resumes every 2 to 30 seconds while jobs run",
        ),
        Deviation(
            "event numbers",
            "§8.3",
            "events of a watched job have the numbers of the session that submitted it",
            "recognises events by their ids",
        ),
        Deviation(
            "leases",
            "§9",
            "leases are granted by name, without patterns",
            "asks for a namespace only if its pattern has no bound (`*`, `**`); other patterns are"
            " not granted",
        ),
        Deviation(
            "handshake",
            "§6.2",
            "the names of client and runtime are in flat fields, not in objects",
            "sends and reads both forms",
        ),
        Deviation(
            "listing",
            "§6.6",
            "the answer names its request in `reply_to`",
            "reads that field",
        ),
        Deviation(
            "close",
            "§6.7",
            "`session.close` is ignored; `session.bye` is accepted, but not answered",
            "sends `session.bye`",
        ),
    )
    outcomes: ClassVar[Mapping[str, str]] = {
        "budget": "not told",
        "an ended job is watched": "PermissionDenied",
        "a key is used in a later session": "ResultUnavailable",
    }

    # -- what `ScriptedRuntime` plays

    forms: ClassVar[Forms] = Forms(
        ids="uuid",
        flat_names=True,
        session_of_client=True,
        lists_common_features=True,
        always_heartbeat=True,
        resume_window=300,
        needs_session="all",
        names_request="reply_to",
        refuses="reply_to",
        refuses_unknown=False,
        bad_token_session="proposed",
        resume_in="token",
        follows=False,
        acks_free="resumes",
        watched="submitter",
        history_first=True,
        ended="PERMISSION_DENIED",
        says_traces=False,
        lease_names=True,
        times_events=False,
        numbers_ends=False,
        last_chunk="none",
        closes=frozenset({names.BYE}),
        answers_close=False,
    )
