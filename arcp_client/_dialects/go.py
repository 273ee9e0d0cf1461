"""The Go runtime. Its histories have each event once for each session that received it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._dialect import EARLY_RESUMES, RACING_NUMBERS, Deviation, Dialect
from arcp_client._dialects._forms import Forms
from arcp_client._dialects._mixed_history import MixedHistory
from arcp_client._protocol.peer import Next

__all__ = ["Go"]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class Go(Dialect, MixedHistory):
    """Sends a job's history as one log for each session that received the job's events.

    The client holds the events of a history until its end, drops repeats, and sorts the rest.
    """

    name: ClassVar[str] = "go"
    title: ClassVar[str] = "Go"

    # -- how its welcome is recognised

    mark: ClassVar[str] = "envelope ids are UUIDs"

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        return bool(_UUID.fullmatch(envelope_id))

    # -- what the client does differently

    exact_sizes: ClassVar[bool] = False
    accepts_acks: ClassVar[bool] = False
    max_frame: ClassVar[int | None] = 2**20
    max_line: ClassVar[int | None] = 2**20 - 1

    def resume_refused(self) -> Next:
        return Next.AGAIN

    # -- what `doctor` says

    deviations: ClassVar[tuple[Deviation, ...]] = (
        Deviation(
            "histories",
            "§7.6",
            "a history has each event once for each observer, out of order, and lacks what any"
            " client acknowledged",
            "drops copies, puts the events in order, and sends no acknowledgements, which are"
            " optional (§6.5)",
        ),
        Deviation(
            "own jobs",
            "§7.6",
            "a subscription to one's own job brings each event twice, under two numbers",
            "does not subscribe to a job that its own submit has started",
        ),
        RACING_NUMBERS,
        EARLY_RESUMES,
        Deviation(
            "listing",
            "§6.6",
            "an empty listing is null, and jobs that have ended are missing",
            "reads null as an empty listing",
        ),
        Deviation(
            "long frames",
            "§4",
            "closes a WebSocket on a frame of more than 1 MiB, and ends over stdio on a line of"
            " 1 MiB",
            "refuses a longer request with `LocalProtocolError`",
        ),
    )
    outcomes: ClassVar[Mapping[str, str]] = {
        "listing": "running ones",
        "an ended job is watched": "JobNotFound",
        "a key is used in a later session": "JobLost",
    }

    # -- what `ScriptedRuntime` plays

    forms: ClassVar[Forms] = Forms(
        ids="uuid",
        lists_common_features=True,
        always_heartbeat=True,
        agent_entry={"bare": True},
        cancels_in="envelope",
        refuses="request_id",
        doubles_own=True,
        acks_free="histories",
        mixes_histories=True,
        ended="JOB_NOT_FOUND",
        lists_ended=False,
        null_listing=True,
        makes_traces=True,
        omits_empty_lease=True,
        time_end="000+00:00",
        loud_levels=True,
        result_name="output",
        last_chunk="empty",
        acks_cancel="numbered",
    )
