"""Pages through the jobs that a principal may see, for `session.list_jobs` (§6.6)."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from arcp_client._wire.messages import JobFilter, ListJobsMessage, ListQuestions
from arcp_client.errors import InvalidRequest
from arcp_client.runtime._jobs.job import ServerJob
from arcp_client.runtime._log.directory import KnownJob

__all__ = ["DEFAULT_LIMIT", "MAX_BYTES", "cursor_after", "entry_of", "page", "start_of"]

DEFAULT_LIMIT = 100
MAX_BYTES = 1024 * 1024
ENTRY_BYTES = 512


def cursor_after(number: int) -> str:
    """Return the cursor of the page after the entry with a number."""
    return base64.urlsafe_b64encode(f"after:{number}".encode()).decode("ascii")


def start_of(request: ListJobsMessage | ListQuestions) -> int:
    """Return the number of the previous page's last entry; 0 for the first page.

    Raises:
        InvalidRequest: this runtime did not issue the cursor.
    """
    if not request.cursor:
        return 0
    try:
        text = base64.urlsafe_b64decode(request.cursor.encode("ascii")).decode("ascii")
        prefix, _, number = text.partition(":")
        if prefix != "after":
            raise ValueError
        return int(number)
    except (ValueError, UnicodeError, binascii.Error):
        raise InvalidRequest("this runtime did not issue the cursor") from None


def page(
    request: ListJobsMessage,
    jobs: Iterable[ServerJob],
    credentials: Callable[[ServerJob], dict[str, Any]],
) -> tuple[list[dict[str, Any]], str | None]:
    """Return the entries of one page, in order of acceptance, and the cursor of the next page.

    A job that is accepted between two pages is listed last. So paging neither misses nor repeats
    jobs.
    """
    limit = request.limit or DEFAULT_LIMIT
    wanted = request.filter or JobFilter()
    entries: list[dict[str, Any]] = []
    last = size = 0
    for job in jobs:
        if not _matches(wanted, job):
            continue
        if len(entries) == limit or size > MAX_BYTES:
            return entries, cursor_after(last)
        entries.append(job.entry() | credentials(job))
        last = job.number
        size += job.grant.size + ENTRY_BYTES
    return entries, None


def entry_of(known: KnownJob) -> dict[str, Any]:
    """Return the entry of a job that the directory knows."""
    state = known.state
    entry: dict[str, Any] = {
        "job_id": state.id,
        "agent": state.agent,
        "status": state.status,
        "lease": {name: list(patterns) for name, patterns in state.lease.items()},
        "parent_job_id": state.parent_id,
        "created_at": state.created,
        "submitted_at": state.created,
        "trace_id": state.trace_id,
        "last_event_seq": known.last_seq,
    }
    if state.expires_at is not None:
        entry["lease_constraints"] = {"expires_at": state.expires_at}
    return entry


def _matches(wanted: JobFilter, job: ServerJob) -> bool:
    if wanted.status and job.status not in wanted.status:
        return False
    if wanted.agent and wanted.agent not in (job.agent, job.agent.partition("@")[0]):
        return False
    since: datetime | None = wanted.created_after
    return since is None or job.created > since
