"""Creates the schema in PostgreSQL and upgrades it by numbered migrations."""

from __future__ import annotations

from typing import Any

from arcp_client._postgres.dialogue import DIALOGUE
from arcp_client._postgres.functions import FUNCTIONS
from arcp_client._postgres.timelines import TIMELINES
from arcp_client.errors import StorageError

__all__ = ["VERSION", "migrate"]

_LOCK = 0x61726370
"""Advisory lock that lets one process at a time migrate."""

_TABLES = """
CREATE SEQUENCE epochs;
CREATE TABLE replicas (
    id text PRIMARY KEY, epoch bigint NOT NULL, until timestamptz NOT NULL, agents text NOT NULL,
    draining boolean NOT NULL DEFAULT false, timeline text NOT NULL
);
CREATE TABLE timelines (timeline text PRIMARY KEY, safe boolean NOT NULL);
CREATE TABLE sessions (
    id text PRIMARY KEY, principal text NOT NULL, holder text, epoch bigint NOT NULL,
    floor bigint NOT NULL, last bigint NOT NULL, state bytea NOT NULL,
    expires_at timestamptz, timeline text NOT NULL
);
CREATE INDEX sessions_of ON sessions (principal);
CREATE INDEX sessions_held ON sessions (holder);
CREATE TABLE jobs (
    id text PRIMARY KEY, tx xid8 NOT NULL DEFAULT pg_current_xact_id(),
    number bigint GENERATED ALWAYS AS IDENTITY, principal text NOT NULL, agent text NOT NULL,
    owner_id text NOT NULL, authorities text[] NOT NULL, runner text, status text NOT NULL,
    trace_id text NOT NULL, cancel_reason text, created timestamptz NOT NULL,
    ended_at timestamptz, gone boolean NOT NULL DEFAULT false, state bytea NOT NULL
);
CREATE INDEX jobs_listed ON jobs (principal, tx, number);
CREATE INDEX jobs_in_order ON jobs (tx, number);
CREATE INDEX jobs_open ON jobs (principal) WHERE ended_at IS NULL;
CREATE INDEX jobs_run ON jobs (runner) WHERE ended_at IS NULL;
CREATE INDEX jobs_ended ON jobs (ended_at) WHERE ended_at IS NOT NULL;
CREATE TABLE events (
    job_id text NOT NULL, idx bigint NOT NULL, count integer NOT NULL, id bytea NOT NULL,
    type bytea NOT NULL, payload bytea NOT NULL, needs bytea NOT NULL, PRIMARY KEY (job_id, idx)
);
CREATE TABLE numbers (
    session_id text NOT NULL, seq bigint NOT NULL, job_id text NOT NULL, idx bigint NOT NULL,
    count integer NOT NULL, PRIMARY KEY (session_id, seq)
);
CREATE INDEX numbers_of_job ON numbers (job_id, session_id, idx);
CREATE TABLE watches (
    session_id text NOT NULL, job_id text NOT NULL, next bigint NOT NULL, first bigint NOT NULL,
    PRIMARY KEY (session_id, job_id)
);
CREATE INDEX watches_of_job ON watches (job_id);
CREATE TABLE keys (
    principal text NOT NULL, key text NOT NULL, parameters bytea NOT NULL,
    accepted bytea NOT NULL, job_id text NOT NULL, at timestamptz NOT NULL,
    PRIMARY KEY (principal, key)
);
CREATE TABLE checkpoints (
    target text NOT NULL, key text NOT NULL, holder text, epoch bigint NOT NULL,
    until timestamptz, saved_at timestamptz NOT NULL, checkpoint bytea,
    PRIMARY KEY (target, key)
);
"""

_UNCLAIMED = """
ALTER TABLE jobs ADD COLUMN request bytea, ADD COLUMN waits_until timestamptz;
CREATE INDEX jobs_unclaimed ON jobs (tx, number) WHERE runner IS NULL AND ended_at IS NULL;
"""

# A cursor is a handler with a transaction; `handled` has a row for each event that it has handled.
# Nearly all rows are in the order of `at`, so a BRIN index finds the old ones.
_HANDLED = """
CREATE TABLE cursors (
    id bigint GENERATED ALWAYS AS IDENTITY UNIQUE, target text NOT NULL, key text NOT NULL,
    handler text NOT NULL, PRIMARY KEY (target, key, handler)
);
CREATE TABLE handled (
    cursor_id bigint NOT NULL, job_id text NOT NULL, mark text NOT NULL,
    at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (cursor_id, job_id, mark)
);
CREATE INDEX handled_at ON handled USING brin (at);
"""

# Calls of webhooks that are not made yet. Without a replica, one that calls the endpoint takes it.
_CALLS = """
CREATE TABLE endpoints (
    replica text NOT NULL, endpoint text NOT NULL, events text[] NOT NULL,
    PRIMARY KEY (replica, endpoint)
);
CREATE TABLE calls (
    endpoint text NOT NULL, id text NOT NULL, number bigint GENERATED ALWAYS AS IDENTITY,
    replica text, job_id text NOT NULL, at text NOT NULL, body bytea NOT NULL,
    stored_at timestamptz NOT NULL DEFAULT clock_timestamp(), PRIMARY KEY (endpoint, id)
);
CREATE INDEX calls_left ON calls (endpoint, number) WHERE replica IS NULL;
CREATE INDEX calls_of ON calls (replica) WHERE replica IS NOT NULL;
"""

# A job whose session another replica held when it was delegated: that replica must announce it.
_DELEGATED = """
ALTER TABLE watches ADD COLUMN delegated boolean NOT NULL DEFAULT false;
"""

_MIGRATIONS: tuple[str, ...] = (
    _TABLES + FUNCTIONS,
    _UNCLAIMED,
    TIMELINES,
    _HANDLED,
    DIALOGUE,
    _CALLS,
    _DELEGATED,
)
VERSION = len(_MIGRATIONS)
"""The version of the schema that this package reads and writes."""


async def migrate(connection: Any, schema: str, place: str) -> None:
    """Create the schema, or upgrade it to the present version, in one transaction.

    Raises:
        StorageError: the schema has a newer version, or was not made by this package.
    """
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _LOCK)
        version = await _version(connection, schema, place)
        if version > VERSION:
            raise StorageError(
                f"the schema {schema} in PostgreSQL at {place} has version {version}, which a newer"
                f" version of this package made; this one knows version {VERSION}",
                path=place,
                permanent=True,
            )
        if version == VERSION:
            return
        if version == 0:
            await connection.execute(
                f"CREATE SCHEMA IF NOT EXISTS {schema};"
                f"CREATE TABLE {schema}.version (version integer NOT NULL);"
                f"INSERT INTO {schema}.version VALUES (0)"
            )
        await connection.execute(f"SET LOCAL search_path = {schema}")
        for statements in _MIGRATIONS[version:]:
            await connection.execute(statements.replace("{schema}", schema))
        await connection.execute("UPDATE version SET version = $1", VERSION)


async def _version(connection: Any, schema: str, place: str) -> int:
    tables = await connection.fetch(
        "SELECT table_name FROM information_schema.tables WHERE table_schema = $1", schema
    )
    names = {row["table_name"] for row in tables}
    if not names:
        return 0
    if "version" not in names:
        raise StorageError(
            f"the schema {schema} in PostgreSQL at {place} has other tables: name another schema",
            path=place,
            permanent=True,
        )
    found = await connection.fetchval(f"SELECT version FROM {schema}.version")
    return int(found)
