"""Declares ``arcp-client serve``, which serves agents."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arcp_client.cli.options import AgentsOption, AllowHostOption, HostOption, PortOption


def serve(
    agents: AgentsOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 7777,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve the parent process over stdin and stdout.")
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the token that clients must send. By default the token comes from"
            " ARCP_TOKEN or ARCP_TOKEN_FILE.",
        ),
    ] = None,
    db: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Store sessions, events and the outcomes of jobs in this file, so that they"
            " survive a restart. Jobs that run during the restart fail.",
        ),
    ] = None,
    store: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            envvar="ARCP_STORE",
            show_envvar=True,
            help="Run as a replica: share sessions, jobs and events with all processes that use"
            " this PostgreSQL database (postgresql://…), and answer /healthz, /readyz and"
            " /metrics.",
        ),
    ] = None,
    lease: Annotated[
        float,
        typer.Option(
            min=0.5,
            metavar="SECONDS",
            help="With --store: time without a sign of life of a replica, after which the other"
            " replicas end its running jobs with a retryable error and continue its sessions. Not"
            " the lease of a job.",
        ),
    ] = 5.0,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Serve wss:// with this certificate (PEM)."),
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The private key of the certificate (PEM). By default in the same file.",
        ),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(
            min=0, metavar="SECONDS", help="Time for running jobs to end after Ctrl-C or SIGTERM."
        ),
    ] = 3.0,
    acp: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=COMMAND",
            help="Serve an agent of the Agent Client Protocol. May be repeated.",
        ),
    ] = None,
    allow_host: AllowHostOption = None,
    webhook: Annotated[
        list[str] | None,
        typer.Option(
            metavar="URL",
            envvar="ARCP_WEBHOOK",
            show_envvar=True,
            help="Call this https:// URL when a question is opened or settled, and when a job"
            " ends. Calls are signed; they contain ids and a status, but no question, answer,"
            " input or result. May be repeated.",
        ),
    ] = None,
    webhook_secret: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="A file with the secret (whsec_…) that signs the calls. Give one file for all"
            " webhooks, or one for each webhook, in the same order. By default"
            " ARCP_WEBHOOK_SECRET. If a file has several secrets, each call is signed with all of"
            " them.",
        ),
    ] = None,
    webhook_event: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="Make only calls of this kind: question.opened, question.settled or job.ended."
            " May be repeated.",
        ),
    ] = None,
    webhook_http: Annotated[
        bool,
        typer.Option("--webhook-http", help="Allow webhooks with http:// to other machines."),
    ] = False,
) -> int:
    """Serve agents to clients until Ctrl-C or SIGTERM.

    Without --agents, the command serves three sample agents: echo, count and report. To serve
    other machines, set --host 0.0.0.0; a token is then required. Use --tls-cert, or a proxy with
    TLS, so that the token cannot be read on the network.
    """
    from arcp_client.cli.actions import serve as action

    return action.serve(
        agents=agents, host=host, port=port, stdio=stdio, token_file=token_file, db=db,
        store=store, lease=lease,
        tls_cert=tls_cert, tls_key=tls_key, grace=grace, acp=acp or (),
        allowed_hosts=allow_host or (), webhooks=webhook or (),
        webhook_secrets=webhook_secret or (), webhook_events=webhook_event or (),
        webhook_http=webhook_http,
    )  # fmt: skip
