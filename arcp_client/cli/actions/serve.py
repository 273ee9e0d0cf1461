"""Serves agents as a runtime, over WebSocket or stdio."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import ssl
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from arcp_client import ArcpError, Runtime, SqliteEventLog
from arcp_client._hosts import is_loopback
from arcp_client.cli.actions.acp_agents import hosted_agents
from arcp_client.cli.actions.sample_agents import NAMES, sample_runtime
from arcp_client.cli.actions.shutdown import Shutdown
from arcp_client.cli.errors import command_error
from arcp_client.cli.exit_codes import CommandError, Exit
from arcp_client.cli.host_names import check_host_names
from arcp_client.cli.tokens import served_token
from arcp_client.cli.view import terminal
from arcp_client.cli.webhooks import webhooks_of
from arcp_client.errors import StorageError
from arcp_client.runtime import EventLog

__all__ = ["serve"]

_FORM = "the form is MODULE:ATTR, such as my_agents:runtime"


def serve(
    *,
    agents: str | None,
    host: str,
    port: int,
    stdio: bool,
    token_file: Path | None,
    db: Path | None,
    store: str | None,
    lease: float,
    tls_cert: Path | None,
    tls_key: Path | None,
    grace: float,
    acp: Sequence[str] = (),
    allowed_hosts: Sequence[str] = (),
    webhooks: Sequence[str] = (),
    webhook_secrets: Sequence[Path] = (),
    webhook_events: Sequence[str] = (),
    webhook_http: bool = False,
) -> Exit:
    """Serve until a signal, or with ``stdio`` until the parent process closes the pipe."""
    terminal.log_to_stderr(traces=True)
    check_host_names(allowed_hosts)
    if stdio and allowed_hosts:
        raise CommandError(Exit.USAGE, "--stdio is a pipe of this machine: it has no --allow-host")
    tls = _tls(tls_cert, tls_key, stdio=stdio)
    called = webhooks_of(webhooks, webhook_secrets, webhook_events, allow_http=webhook_http)
    token = served_token(token_file)  # agents start programs, which must not inherit the token
    auth = {token.get_secret_value(): "owner"} if token is not None else None
    # Before user modules are imported, so that errors are reported at once.
    if not stdio and auth is None and agents is None:
        _refuse_open(host)
    event_log = _event_log(db, store, lease)
    given = {"auth": auth, "event_log": event_log, "webhooks": called}
    hosted = hosted_agents(acp)
    if agents is not None:
        runtime = _load(agents, given)
    elif hosted:
        runtime = Runtime(name="acp", auth=auth, event_log=event_log, webhooks=called)
    else:
        runtime = sample_runtime(auth, event_log, called)
    for name, agent in hosted.items():
        runtime.agent(name)(agent)
    if runtime.open:
        if not stdio:
            _refuse_open(host)
        if auth is not None:
            terminal.tell(
                terminal.err(),
                f"warning: {agents} is a Runtime without auth, so the token is not required;"
                " name a function with a parameter auth to use it",
                "yellow",
            )
    loaded = [agents] if agents is not None else [] if hosted else list(NAMES)
    what = ", ".join([*loaded, *hosted])
    try:
        return asyncio.run(
            _serve(
                runtime, host, port, what, tls=tls, stdio=stdio, grace=grace,
                allowed_hosts=allowed_hosts, probes=store is not None,
            )
        )  # fmt: skip
    except ArcpError as error:
        raise command_error(error) from error


def _event_log(db: Path | None, store: str | None, lease: float) -> EventLog | None:
    if store is None:
        return None if db is None else SqliteEventLog(db)
    if db is not None:
        raise CommandError(Exit.USAGE, "--db and --store are two places for the same: give one")
    try:
        from arcp_client.runtime import PostgresEventLog

        return PostgresEventLog(store, lease=lease)
    except ImportError as error:
        raise CommandError(Exit.USAGE, str(error)) from None
    except ValueError:  # the URL may have a password
        raise CommandError(
            Exit.USAGE, "--store is not a URL that begins with postgresql://"
        ) from None


def _refuse_open(host: str) -> None:
    if not is_loopback(host):
        raise CommandError(
            Exit.USAGE,
            f"without a token, every client that reaches {host} could run the agents",
            "set ARCP_TOKEN or --token-file, or listen on 127.0.0.1",
        )


def _tls(certificate: Path | None, key: Path | None, *, stdio: bool) -> ssl.SSLContext | None:
    if certificate is None and key is None:
        return None
    if stdio:
        raise CommandError(Exit.USAGE, "--stdio is a pipe of this machine: it has no TLS")
    if certificate is None:
        raise CommandError(Exit.USAGE, "--tls-key needs its certificate", "add --tls-cert FILE")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # An encrypted key would prompt on the terminal, which a service does not have.
        context.load_cert_chain(certificate, key, password=lambda: b"")
    except (OSError, ValueError) as error:  # SSLError is an OSError
        why = error.reason if isinstance(error, ssl.SSLError) else getattr(error, "strerror", None)
        raise CommandError(
            Exit.USAGE,
            f"the certificate {certificate} cannot be used: {why or error}",
            "both files are PEM; the key is not encrypted and belongs to the certificate",
        ) from None
    return context


def _load(path: str, given: dict[str, Any]) -> Runtime:
    """Return the runtime that ``module:attr`` names or makes."""
    name, _, attribute = path.partition(":")
    if not name or not attribute:
        raise CommandError(Exit.USAGE, f"--agents {path!r} names no attribute", _FORM)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    found = _attribute(path, _imported(path, name), attribute)
    if not isinstance(found, Runtime) and callable(found):
        taken = {name: value for name, value in given.items() if _takes(found, name)}
        if (unknown := _missing(found, taken)) is not None:
            raise CommandError(
                Exit.USAGE,
                f"{path} requires the argument {unknown!r}, which serve does not have",
                f"make it a function that returns a Runtime; it may take {', '.join(given)}",
            )
        try:
            found = found(**taken)
        except Exception as error:
            raise _broken(path, error) from error
    else:
        taken = {}
    if not isinstance(found, Runtime):
        raise CommandError(
            Exit.USAGE,
            f"{path} is {type(found).__name__}, not a Runtime or a function",
            _FORM,
        )
    if given["event_log"] is not None and "event_log" not in taken:
        raise CommandError(
            Exit.USAGE,
            f"{path} does not accept the database of --db or --store",
            "make it a function with a parameter event_log, for Runtime(event_log=event_log)",
        )
    if given["webhooks"] and "webhooks" not in taken:
        raise CommandError(
            Exit.USAGE,
            f"{path} does not accept the webhooks of --webhook",
            "make it a function with a parameter webhooks, for Runtime(webhooks=webhooks)",
        )
    return found


def _imported(path: str, name: str) -> Any:
    if name.endswith(".py"):
        raise CommandError(
            Exit.USAGE,
            f"--agents {path!r} names a file",
            f"write the module's name: {path.replace('.py:', ':').replace('/', '.')}",
        )
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if name == missing or name.startswith(f"{missing}."):
            happened = f"the module {missing!r} is neither installed nor in this directory"
            raise CommandError(Exit.USAGE, happened, _FORM) from None
        raise _broken(path, error) from error
    except Exception as error:
        raise _broken(path, error) from error


def _attribute(path: str, found: Any, attribute: str) -> Any:
    try:
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError:
        raise CommandError(
            Exit.USAGE, f"--agents {path}: the module has no {attribute!r}", _FORM
        ) from None
    return found


def _takes(function: Any, name: str) -> bool:
    try:
        return name in inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False


def _missing(function: Any, taken: dict[str, Any]) -> str | None:
    """Return the first required argument of a function that is not among these."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for each in parameters:
        if each.default is each.empty and each.kind not in optional and each.name not in taken:
            return each.name
    return None


def _broken(path: str, error: Exception) -> CommandError:
    """Make the error for an exception in the user's module, with its location."""
    place = ""
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if "importlib" not in code.co_filename and code.co_filename != __file__:
            place = f" ({code.co_filename}, line {trace.tb_lineno})"
        trace = trace.tb_next
    return CommandError(Exit.USAGE, f"--agents {path}: {type(error).__name__}: {error}{place}")


async def _open(runtime: Runtime, *, remote: bool) -> None:
    """Open the database before clients can connect, so that errors are reported at once."""
    try:
        await runtime.__aenter__()  # closed with a grace period instead of by leaving a block
    except StorageError as error:
        away = remote and not error.permanent and not error.sqlstate
        code = Exit.CONNECTION if away else Exit.USAGE
        raise CommandError(code, f"the database cannot be used: {error.args[0]}") from None
    except (OSError, ValueError) as error:
        raise CommandError(Exit.USAGE, f"the database cannot be used: {error}") from None


async def _serve(
    runtime: Runtime,
    host: str,
    port: int,
    what: str,
    *,
    tls: ssl.SSLContext | None,
    stdio: bool,
    grace: float,
    allowed_hosts: Sequence[str],
    probes: bool,
) -> Exit:
    console = terminal.err()
    shutdown = Shutdown(grace)
    async with AsyncExitStack() as stack:
        stack.enter_context(shutdown.listen())
        await _open(runtime, remote=probes)
        if not stdio:
            server = runtime.serve(host, port, ssl=tls, allowed_hosts=allowed_hosts, probes=probes)
            try:
                await stack.enter_async_context(server)
            except OSError as error:
                await runtime.close()
                raise CommandError(
                    Exit.CONNECTION,
                    f"cannot listen on {host} port {port}: {error.strerror or error}",
                    "--port 0 selects a free port",
                ) from None
            terminal.tell(console, f"serving {what} on {server.url}", "green")
        scope = shutdown.until_asked()
        try:
            async with scope:
                if stdio:
                    await runtime.serve_stdio()
                else:
                    await asyncio.get_running_loop().create_future()
        except TimeoutError:
            if not scope.expired():
                raise
            terminal.tell(console, "stopping; press Ctrl-C again to stop at once", "dim")
        scope = shutdown.bounded()
        try:
            async with scope:
                await runtime.close(timeout=grace)
        except TimeoutError:
            if not scope.expired():
                raise
            terminal.tell(console, "stopped before all jobs had ended", "yellow")
    return Exit.SUCCESS
