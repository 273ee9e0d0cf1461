"""`PostgresEventLog` passes the conformance kit of event logs."""

from __future__ import annotations

import pytest

from arcp_client.runtime import EventLog
from arcp_client.runtime._log.postgres import PostgresEventLog
from arcp_client.testing import EVENT_LOG_CHECKS, EventLogCase
from tests.postgres import Cluster

every_check = pytest.mark.parametrize("check", EVENT_LOG_CHECKS, ids=lambda check: check.__name__)


@every_check
async def test_it_is_an_event_log(check, cluster: Cluster, schema: str) -> None:  # type: ignore[no-untyped-def]
    """A later process is another replica: what it knows, it knows from the database."""

    def make(_earlier: EventLog | None = None) -> EventLog:
        return PostgresEventLog(cluster.dsn, schema=schema)

    await check(EventLogCase(make, make))
