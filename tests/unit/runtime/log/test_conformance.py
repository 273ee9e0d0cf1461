"""What every event log does, wherever it keeps its events."""

from __future__ import annotations

from pathlib import Path

import pytest

from arcp_client.runtime import EventLog, MemoryEventLog, SqliteEventLog
from arcp_client.testing import EVENT_LOG_CHECKS, EventLogCase
from arcp_client.testing.event_log_checks import EventLogCheck

every_check = pytest.mark.parametrize("check", EVENT_LOG_CHECKS, ids=lambda check: check.__name__)


@every_check
async def test_the_log_in_memory_passes_the_conformance_kit(check: EventLogCheck) -> None:
    await check(EventLogCase(MemoryEventLog))


@every_check
async def test_the_log_in_a_file_passes_the_conformance_kit(
    check: EventLogCheck, tmp_path: Path
) -> None:
    path = tmp_path / "runtime.db"

    def again(_log: EventLog) -> EventLog:
        return SqliteEventLog(path)

    await check(EventLogCase(lambda: SqliteEventLog(path), again))
