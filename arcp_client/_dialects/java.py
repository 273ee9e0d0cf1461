"""The Java runtime. It mixes live events into histories, and cancels jobs with their session."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from arcp_client._dialects._dialect import EARLY_RESUMES, RACING_NUMBERS, Deviation, Dialect
from arcp_client._dialects._forms import Forms
from arcp_client._dialects._mixed_history import MixedHistory
from arcp_client._protocol.peer import Next
from arcp_client._wire import names
from arcp_client._wire.codec import BadFrame, EventFrame, fingerprint
from arcp_client._wire.messages import Message
from arcp_client._wire.names import text_of

__all__ = ["Java"]

_ULID = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")
_RANDOM_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


class Java(Dialect, MixedHistory):
    """Sends live events between those of a history.

    The client holds the events of a history until its end, and sorts them.
    """

    name: ClassVar[str] = "java"
    title: ClassVar[str] = "Java"

    # -- how its welcome is recognised

    mark: ClassVar[str] = "envelope ids are ULIDs, and the resume token is a random UUID"

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        token = text_of(welcome.get("resume_token")) or ""
        return bool(_ULID.fullmatch(envelope_id) and _RANDOM_UUID.fullmatch(token))

    # -- what the client does differently

    exact_sizes: ClassVar[bool] = False
    repeats_trace: ClassVar[bool] = False  # so a repeated acceptance looks like a new one

    def identities(self, frame: EventFrame | BadFrame) -> list[str]:
        # A repeated event has a new envelope id: its content is compared, too.
        marks = super().identities(frame)
        content = None if isinstance(frame, BadFrame) else fingerprint(frame)
        return marks if content is None or not marks else [*marks, content]

    def resume_refused(self) -> Next:
        return Next.AGAIN

    def goodbye(self) -> Message | None:
        return None

    # -- what `doctor` says

    deviations: ClassVar[tuple[Deviation, ...]] = (
        Deviation(
            "histories",
            "§7.6",
            "live events come among those of a history, out of order; the job's end is missing",
            "puts the events in order",
        ),
        RACING_NUMBERS,
        EARLY_RESUMES,
        Deviation("resume", "§6.3", "the resume token is not rotated", "keeps the token"),
        Deviation(
            "repeated submits",
            "§7.2",
            "the acceptance of an earlier job has the trace id of the repeated submit, so that it"
            " does not show whether the job is new",
            "subscribes to a job that it submitted if the caller chose the key",
        ),
        Deviation(
            "refused submit",
            "§7.5, §12",
            "the refusal is a `job.error` without a job",
            "takes the error as the answer to the submit with the same envelope id",
        ),
        Deviation(
            "wrong token",
            "§6.1",
            "the runtime closes the link without an error",
            "raises `ConnectFailed`, not `Unauthenticated`",
        ),
        Deviation(
            "close",
            "§6.7",
            "a message that ends the session cancels its jobs",
            "drops the link without a message",
        ),
    )
    outcomes: ClassVar[Mapping[str, str]] = {
        "wrong token": "ConnectFailed",
        "an ended job is watched": "ResultUnavailable",
        "a key is used in a later session": "ResultUnavailable",
    }

    # -- what `ScriptedRuntime` plays

    forms: ClassVar[Forms] = Forms(
        token="",
        lists_common_features=True,
        cancels_in="envelope",
        refuses="same id",
        answers_unagreed=False,
        bad_token="close",
        resume_in="top",
        rotates=False,
        renames_copies=True,
        ended="no end",
        acks_cancel="numbered",
        closes=frozenset({names.CLOSE, names.BYE}),
        close_cancels=True,
    )
