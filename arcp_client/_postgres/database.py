"""Opens connections to PostgreSQL and turns every failure into a typed error without secrets."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any
from urllib.parse import urlsplit

from arcp_client._postgres.migrations import migrate
from arcp_client.errors import ArcpError, StorageError

try:
    import asyncpg  # type: ignore[import-untyped]
except ImportError as error:
    raise ImportError(
        "PostgreSQL needs the package asyncpg: pip install 'arcp-client[postgres]'"
    ) from error

__all__ = ["Database", "asyncpg", "checked_dsn", "checked_schema", "postgres_errors"]

_POOL = 8
_UNREACHABLE = (
    OSError,
    TimeoutError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,  # also of a statement on a connection that was just lost
    asyncpg.PostgresConnectionError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
)
"""The connection failed or was lost: whether the statement took effect is not known."""
_SCHEMA = re.compile(r"[a-z_][a-z0-9_]{0,39}")


def checked_dsn(dsn: str) -> str:
    """Check the form of a DSN.

    Raises:
        TypeError: it is no string.
        ValueError: it is no URL of PostgreSQL. The message does not contain it.
    """
    if not isinstance(dsn, str):
        raise TypeError(f"dsn must be a string, not {type(dsn).__name__}")
    if not dsn.startswith(("postgresql://", "postgres://")):
        raise ValueError("dsn must be a URL that begins with postgresql://")
    return dsn


def checked_schema(schema: str) -> str:
    """Check the name of a schema: it becomes part of statements."""
    if not isinstance(schema, str):
        raise TypeError(f"schema must be a string, not {type(schema).__name__}")
    if not _SCHEMA.fullmatch(schema):
        raise ValueError("schema must have at most 40 lower-case letters, digits and _")
    return schema


def place_of(dsn: str) -> str:
    """Return the hosts and the database of a DSN, without user and password."""
    parts = urlsplit(dsn)
    hosts = parts.netloc.rpartition("@")[2] or "localhost"
    return f"{hosts}{parts.path}"


def servers_of(dsn: str) -> list[str]:
    """Return a DSN for each of the hosts of a DSN."""
    netloc = urlsplit(dsn).netloc
    scheme, _, rest = dsn.partition("://")
    user, at, hosts = netloc.rpartition("@")
    return [f"{scheme}://{user}{at}{host}{rest.removeprefix(netloc)}" for host in hosts.split(",")]


class _Pooled(asyncpg.Connection):  # type: ignore[misc]
    """A connection that keeps no state of a session, so that its return needs no round trip."""

    def get_reset_query(self) -> str:
        return ""


class Database:
    """A pool of connections to one database, of which one schema belongs to this package.

    Each new connection is checked: another server may have become the primary.

    Args:
        dsn: the URL. Of several hosts, the one that accepts writes is used; they are tried in turn.
        schema: the schema.
        timeout: seconds for a connection, which the hosts share, and for a statement.
        relaxed: accept ``synchronous_commit = off``.
    """

    connection_class: type[Any] = _Pooled

    def __init__(self, dsn: str, schema: str, *, timeout: float, relaxed: bool = False) -> None:
        self._servers = servers_of(checked_dsn(dsn))
        self.schema = checked_schema(schema)
        self.place = place_of(dsn)
        self._timeout = timeout
        self._relaxed = relaxed
        self._pool: Any = None
        # The pool takes longer to lend a connection than PostgreSQL to answer a short statement. So
        # a connection that comes back is lent again directly, unless a task waits for the pool.
        self._spare: list[Any] = []
        self._waiting = 0

    async def open(self) -> None:
        """Connect, and create or upgrade the schema.

        Raises:
            StorageError: the database cannot be used; the message says why.
        """
        if self._pool is not None:
            return
        with self.errors():
            pool = asyncpg.create_pool(
                min_size=0,
                max_size=_POOL,
                max_inactive_connection_lifetime=0,
                connect=self._connect,
                init=self._check,
                connection_class=self.connection_class,
            )
            await pool
        try:
            with self.errors():
                async with pool.acquire(timeout=self._timeout) as connection:
                    await migrate(connection, self.schema, self.place)
        except BaseException:
            pool.terminate()
            raise
        self._pool = pool

    async def _connect(self, _dsn: object = None, **options: Any) -> Any:
        """Connect to the server that accepts writes: first to the one that last did.

        A host that does not answer costs its share of the time-out only.
        """
        failure: Exception | None = None
        for server in tuple(self._servers):
            try:
                connection = await asyncpg.connect(
                    server,
                    timeout=self._timeout / len(self._servers),
                    command_timeout=self._timeout,
                    target_session_attrs="read-write",
                    server_settings={
                        "application_name": "arcp-client",
                        "search_path": self.schema,
                        "jit": "off",
                    },
                    **options,
                )
            except _UNREACHABLE as error:
                if failure is None or isinstance(failure, asyncpg.TargetServerAttributeNotMatched):
                    failure = error
            else:
                self._servers.sort(key=lambda each: each != server)
                return connection
        assert failure is not None
        raise failure

    async def _check(self, connection: Any) -> None:
        number = connection.get_server_version().major
        if number < 14:
            raise StorageError(
                f"PostgreSQL at {self.place} has version {number}; version 14 is the oldest"
                " that can be used",
                path=self.place,
                permanent=True,
            )
        commit = await connection.fetchval("SHOW synchronous_commit")
        if commit == "off" and not self._relaxed:
            raise StorageError(
                f"PostgreSQL at {self.place} has synchronous_commit = off, so that a loss of power"
                " may lose what was acknowledged: set it to on, or pass relaxed=True",
                path=self.place,
                permanent=True,
            )

    async def connect(self) -> Any:
        """Open a connection of its own, outside of the pool; the caller closes it.

        Raises:
            StorageError: the database cannot be reached.
        """
        with self.errors():
            return await self._connect()

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Any]:
        """Borrow a connection.

        Raises:
            StorageError: the database cannot be reached, or a statement failed.
        """
        pool = self._pool
        if pool is None:
            raise RuntimeError("the database is not open")
        with self.errors():
            connection = await self._borrow(pool)
            try:
                yield connection
            except BaseException:  # the pool checks the connection and closes it if necessary
                await pool.release(connection)
                raise
            if self._waiting or self._pool is None:
                await pool.release(connection)
            else:
                self._spare.append(connection)

    async def _borrow(self, pool: Any) -> Any:
        while self._spare:
            connection = self._spare.pop()
            with suppress(asyncpg.InterfaceError):  # the server ended it, so the pool took it back
                if not connection.is_closed():
                    return connection
                await pool.release(connection)
        self._waiting += 1
        try:
            return await pool.acquire(timeout=self._timeout)
        finally:
            self._waiting -= 1

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Any]:
        """Borrow a connection for one transaction."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    def errors(self) -> AbstractContextManager[None]:
        """Turn failures of PostgreSQL into StorageError."""
        return postgres_errors(self.place)

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        pool, self._pool = self._pool, None
        if pool is not None:
            spare, self._spare = self._spare, []
            try:
                for connection in spare:
                    await pool.release(connection)
                await asyncio.wait_for(pool.close(), 2.0)
            except (TimeoutError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                pool.terminate()


@contextmanager
def postgres_errors(place: str) -> Iterator[None]:
    """Turn every failure of PostgreSQL into a StorageError of one sentence, without secrets.

    Args:
        place: hosts and database.
    """
    try:
        yield
    except ArcpError:
        raise
    except _UNREACHABLE as error:
        what = str(error) or type(error).__name__
        if isinstance(error, TimeoutError):
            what = "no answer in time"
        elif isinstance(error, asyncpg.TargetServerAttributeNotMatched):
            what = "no server there accepts writes"
        raise StorageError(
            f"PostgreSQL at {place} cannot be reached: {what:.200}", path=place
        ) from None
    except asyncpg.PostgresError as error:
        raise _refusal(place, error) from None


def _refusal(place: str, error: Any) -> StorageError:
    text, permanent = f"{error}".splitlines()[0][:200], True
    if isinstance(
        error, (asyncpg.InvalidPasswordError, asyncpg.InvalidAuthorizationSpecificationError)
    ):
        text = f"PostgreSQL at {place} refuses the login: {text}"
    elif isinstance(error, asyncpg.InvalidCatalogNameError):
        text = f"PostgreSQL at {place} has no such database: {text}"
    elif isinstance(error, asyncpg.InsufficientPrivilegeError):
        text = f"PostgreSQL at {place} grants this user too little: {text}"
    elif isinstance(
        error,
        (
            asyncpg.UndefinedTableError,
            asyncpg.UndefinedColumnError,
            asyncpg.UndefinedFunctionError,
        ),
    ):
        text = f"the schema in PostgreSQL at {place} was not made by this package: {text}"
    else:
        text, permanent = f"PostgreSQL at {place} failed: {text}", False
    return StorageError(
        text, path=place, permanent=permanent, sqlstate=getattr(error, "sqlstate", None) or ""
    )
