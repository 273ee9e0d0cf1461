"""The command line's words in, the bodies of commands called: options, help, and nothing else.

Everything heavy is imported when a command runs, so that --help and completion stay quick.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from arcp_client.cli import completion
from arcp_client.cli.exit_codes import Complaint, Exit, guarded, page_of, short_link, tame
from arcp_client.cli.options import (
    AgentsOption,
    AllowHostOption,
    CancelReason,
    ConnectTimeout,
    InputOption,
    JobArgument,
    JsonOption,
    KeyOption,
    LeaseOption,
    OutputOption,
    PlainCommand,
    ProfileOption,
    ReconnectFor,
    SaveOption,
    StatusOption,
    TokenFile,
    UrlOption,
    VerboseOption,
    chosen,
)
from arcp_client.version import __version__

__all__ = ["app", "run"]

app = typer.Typer(
    name="arcp-client",
    help="Submit jobs to agents over ARCP, follow them in order, survive a cut.",
    epilog=(
        "Exit codes: 0 success · 1 job failed · 2 usage · 3 connection · 4 authentication ·"
        " 5 not found · 6 lease or budget · 7 gap · 124 timed out · 130 interrupted."
        "  The token comes from ARCP_TOKEN, a file or the keyring, never from a flag."
    ),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


command = partial(app.command, cls=PlainCommand)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"arcp-client {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
    verbose: VerboseOption = 0,
) -> None:
    """Submit jobs to agents over ARCP, follow them in order, survive a cut."""


def run() -> int:
    """Run the command of sys.argv; its exit code."""
    tame()
    return guarded(_run)


def _run() -> int:
    try:
        app(prog_name="arcp-client")
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(Exit.FAILED)
        if code == Exit.USAGE and not _begun and sys.argv[1:] not in ([], ["config"]):
            # No command was reached: its words were wrong, and the parser has said so.
            print(f"  {short_link(page_of(Exit.USAGE))}", file=sys.stderr)
        return code
    return int(Exit.SUCCESS)


_begun: list[bool] = []
"""Not empty once a command was reached: then it has said its own."""


def _do(command: Callable[[], int]) -> NoReturn:
    _begun.append(True)
    raise typer.Exit(guarded(command))


@command()
def demo(
    seed: Annotated[int, typer.Option(metavar="N", help="Varies delays and cuts.")] = 1,
    fast: Annotated[bool, typer.Option("--fast", help="A quarter of the time.")] = False,
) -> None:
    """Three jobs over a link that is cut twice, counted at the end."""

    def command() -> int:
        from arcp_client.cli.actions.demo import demo as body

        return body(seed=seed, fast=fast)

    _do(command)


@command()
def serve(
    agents: AgentsOption = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0 takes a free one.")
    ] = 7777,
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Serve the parent process over stdin and stdout.")
    ] = False,
    token_file: TokenFile = None,
    db: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keep sessions, jobs and events in this file: they survive a restart.",
        ),
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Certificate chain, PEM: serve wss.")
    ] = None,
    tls_key: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Its private key, PEM; by default in the same file."),
    ] = None,
    grace: Annotated[
        float,
        typer.Option(min=0, metavar="SECONDS", help="What running jobs get when it is stopped."),
    ] = 3.0,
    acp: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=COMMAND", help="Serve an agent of the Agent Client Protocol."),
    ] = None,
    allow_host: AllowHostOption = None,
    verbose: VerboseOption = 0,
) -> None:
    """Serve agents to clients, until it is stopped.

    Without --agents it serves three small ones: echo, count and report. Other machines reach it
    with --host 0.0.0.0, which takes a token; and the token wants --tls-cert.
    """

    def command() -> int:
        from arcp_client.cli.actions.serve import serve as body

        return body(
            agents=agents, host=host, port=port, stdio=stdio, token_file=token_file, db=db,
            tls_cert=tls_cert, tls_key=tls_key, grace=grace, acp=acp or (),
            allowed_hosts=allow_host or (),
        )  # fmt: skip

    _do(command)


@command(context_settings={"ignore_unknown_options": True})
def acp(
    command: Annotated[
        list[str],
        typer.Argument(metavar="COMMAND...", help="The agent's program and its arguments."),
    ],
    prompt: Annotated[
        str | None, typer.Option("--prompt", "-p", metavar="TEXT", help="Send this alone, and end.")
    ] = None,
    json_lines: Annotated[
        bool, typer.Option("--json", help="Updates as JSON lines, for programs.")
    ] = False,
    cwd: Annotated[
        str, typer.Option(metavar="DIR", help="The agent's directory, and what it may read.")
    ] = ".",
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="Continue the conversation of this id.")
    ] = None,
    allow: Annotated[
        list[str] | None,
        typer.Option(metavar="KIND", help="A kind of tool to allow unasked, such as read."),
    ] = None,
    write: Annotated[bool, typer.Option("--write", help="Let it write files there, too.")] = False,
) -> None:
    """Talk to an agent of the Agent Client Protocol (ACP).

    Such as: arcp-client acp opencode acp. Ctrl-C cancels the turn, and once more ends the agent.
    Permissions are asked for on a terminal; anywhere else, what is not allowed is rejected.
    """

    def body() -> int:
        from arcp_client.cli.actions.acp import acp as body

        return body(
            command,
            prompt=prompt,
            json_lines=json_lines,
            cwd=cwd,
            session=session,
            allow=allow or (),
            write=write,
        )

    _do(body)


@command("run")
def run_(
    agent: Annotated[
        str | None,
        typer.Argument(
            metavar="AGENT",
            help="name or name@version; with --resume, the job's id.",
            autocompletion=completion.agents_or_jobs,
        ),
    ] = None,
    input: InputOption = "null",
    url: UrlOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    lease: LeaseOption = None,
    max_runtime: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="When the runtime ends the job.")
    ] = None,
    key: KeyOption = None,
    save: SaveOption = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Submit it, print its id, and leave it.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with the newest run that did not end, or with that of a job."
        ),
    ] = False,
    ephemeral: Annotated[
        bool, typer.Option("--ephemeral", help="Keep nothing: there is no --resume later.")
    ] = False,
    record: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Record the job to this file, a transcript; see replay."),
    ] = None,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    reconnect_for: ReconnectFor = 600.0,
    verbose: VerboseOption = 0,
) -> None:
    """Submit a job and follow it to its result.

    Its events go to stderr, its result to stdout; with --output json or jsonl everything of the
    job is on stdout. Ctrl-C leaves the job running and says how to come back to it; a second Ctrl-C
    asks the runtime to cancel it. After a crash or a reboot arcp-client run --resume goes on where
    it was.
    """

    def command() -> int:
        from arcp_client.cli.actions import run as body
        from arcp_client.cli.connection import Place, place

        def at(url: str | None, profile: str | None) -> Place:
            return place(
                url=url, token_file=token_file, profile=profile, output=chosen(output, json),
                connect_timeout=connect_timeout, reconnect_for=reconnect_for,
            )  # fmt: skip

        if resume:
            return body.resume(
                lambda kept, kept_profile: at(url or kept, profile or kept_profile),
                agent,
                save=save,
            )
        if agent is None:
            raise Complaint(Exit.USAGE, "Missing argument 'AGENT'", "see --help")
        return body.run(
            at(url, profile), agent, input, lease=lease or [], max_runtime=max_runtime, key=key,
            save=save, detach=detach, ephemeral=ephemeral, profile=profile, record=record,
        )  # fmt: skip

    _do(command)


@command()
def watch(
    job: JobArgument,
    url: UrlOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    history: Annotated[
        bool, typer.Option(help="Begin with what the runtime still holds of it.")
    ] = True,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    reconnect_for: ReconnectFor = 600.0,
    verbose: VerboseOption = 0,
) -> None:
    """Follow a job of any session of yours to its end. Ctrl-C only stops watching."""

    def command() -> int:
        from arcp_client.cli.actions.run import watch as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile, output=chosen(output, json),
            connect_timeout=connect_timeout, reconnect_for=reconnect_for,
        )  # fmt: skip
        return body(where, job, history=history)

    _do(command)


@command()
def jobs(
    status: StatusOption = None,
    agent: Annotated[
        str | None,
        typer.Option(metavar="AGENT", help="Only this agent.", autocompletion=completion.agents),
    ] = None,
    watch: Annotated[
        bool, typer.Option("--watch", help="Show how they stand until Ctrl-C ends it.")
    ] = False,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="Time between two looks of --watch.")
    ] = 2.0,
    url: UrlOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    verbose: VerboseOption = 0,
) -> None:
    """List the jobs that you may see.

    With --watch a terminal shows a table that is kept up to date; anything else gets a line for
    each job that is new or stands differently.
    """

    def command() -> int:
        from arcp_client.cli.actions.jobs import jobs as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile, output=chosen(output, json),
            connect_timeout=connect_timeout,
        )  # fmt: skip
        return body(where, status=[*(status or ())], agent=agent, watch=watch, every=every)

    _do(command)


@command()
def status(
    job: JobArgument,
    url: UrlOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    verbose: VerboseOption = 0,
) -> None:
    """Say how a job stands: progress, times, lease, budget."""

    def command() -> int:
        from arcp_client.cli.actions.queries import status as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile, output=chosen(output, json),
            connect_timeout=connect_timeout,
        )  # fmt: skip
        return body(where, job)

    _do(command)


@command()
def cancel(
    job: JobArgument,
    reason: CancelReason = None,
    url: UrlOption = None,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    verbose: VerboseOption = 0,
) -> None:
    """Ask the runtime to end a job that was submitted from here."""

    def command() -> int:
        from arcp_client.cli.actions.queries import cancel as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile, connect_timeout=connect_timeout
        )
        return body(where, job, reason=reason)

    _do(command)


@command()
def result(
    job: JobArgument,
    save: SaveOption = None,
    url: UrlOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    reconnect_for: ReconnectFor = 600.0,
    verbose: VerboseOption = 0,
) -> None:
    """Wait for a job's end and give its result."""

    def command() -> int:
        from arcp_client.cli.actions.queries import result as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile, output=chosen(output, json),
            connect_timeout=connect_timeout, reconnect_for=reconnect_for,
        )  # fmt: skip
        return body(where, job, save=save)

    _do(command)


@command()
def ping(
    url: UrlOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    verbose: VerboseOption = 0,
) -> None:
    """Connect to a runtime: who it is, its agents, its round trip."""

    def command() -> int:
        from arcp_client.cli.actions.queries import ping as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile, output=chosen(output, json),
            connect_timeout=connect_timeout,
        )  # fmt: skip
        return body(where)

    _do(command)


@command()
def record(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="JOB", help="Ids of jobs.", autocompletion=completion.jobs),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FILE", help="The transcript; - is stdout.")
    ] = ...,  # type: ignore[assignment]  # required
    everything: Annotated[
        bool, typer.Option("--all", help="All jobs that run or begin, until it is stopped.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the file.")] = False,
    url: UrlOption = None,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    reconnect_for: ReconnectFor = 600.0,
    verbose: VerboseOption = 0,
) -> None:
    """Record jobs to a transcript until they end, secrets masked.

    Exits as watch does. Ctrl-C ends the recording, never the jobs.
    """

    def command() -> int:
        from arcp_client.cli.actions.record import record as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile, connect_timeout=connect_timeout,
            reconnect_for=reconnect_for,
        )  # fmt: skip
        return body(where, jobs or [], out, everything=everything, force=force)

    _do(command)


@command()
def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A transcript.")],
    job: Annotated[
        str | None, typer.Option(metavar="JOB", help="Which of its jobs; by default the first one.")
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="X|max", help="Recorded seconds that go into one.")
    ] = "1",
    start: Annotated[
        int, typer.Option("--from", min=1, metavar="N", help="Begin with the job's Nth event.")
    ] = 1,
    serve: Annotated[
        bool, typer.Option("--serve", help="Play all of it as a runtime, for any client.")
    ] = False,
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="For --serve; 0 takes a free one.")
    ] = 7777,
    allow_host: AllowHostOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
    profile: ProfileOption = None,
    verbose: VerboseOption = 0,
) -> None:
    """Show a recorded job, or play a recording as a runtime.

    Exits as watch would have. A recording that was cut off never exits with 0.
    """

    def command() -> int:
        from arcp_client.cli.actions import replay
        from arcp_client.cli.options import Output
        from arcp_client.cli.settings import settle

        pace = replay.read_speed(speed)
        if serve:
            return replay.serve(file, port=port, speed=pace, allowed_hosts=allow_host or ())
        settled = settle(profile=profile, output=chosen(output, json))
        return replay.replay(
            file, job_id=job, speed=pace, start=start, output=Output(settled.output.value)
        )

    _do(command)


@command()
def doctor(
    url: Annotated[
        str | None,
        typer.Argument(metavar="URL", help="The runtime's; else as for --url elsewhere."),
    ] = None,
    output: OutputOption = None,
    json: JsonOption = False,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    verbose: VerboseOption = 0,
) -> None:
    """Examine how a runtime keeps to the specification.

    Nothing is started or changed there. Exits with 0 only if the runtime conforms.
    """

    def command() -> int:
        from arcp_client.cli.actions.doctor import doctor as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile,
            output=chosen(output, json), connect_timeout=connect_timeout,
        )  # fmt: skip
        return body(where)

    _do(command)


@command()
def web(
    url: UrlOption = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Address to listen on.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="PORT", help="0 takes a free one.")
    ] = 7778,
    allow_control: Annotated[
        bool, typer.Option("--allow-control", help="Also submit and cancel jobs, not only look.")
    ] = False,
    login_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="A file with the token that people log in with; else ARCP_WEB_TOKEN.",
        ),
    ] = None,
    allow_host: AllowHostOption = None,
    open_: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    replay: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Show a transcript's jobs, as they went.")
    ] = None,
    speed: Annotated[
        str, typer.Option(metavar="X|max", help="Recorded seconds that go into one.")
    ] = "1",
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    verbose: VerboseOption = 0,
) -> None:
    """Serve a dashboard of the runtime's jobs to browsers.

    It only looks, unless --allow-control lets it submit and cancel.
    Other machines reach it with --host 0.0.0.0, which takes a token to log in with.
    """

    def command() -> int:
        from arcp_client.cli.actions.web import web as body
        from arcp_client.cli.connection import place

        where = place(
            url=url, token_file=token_file, profile=profile, connect_timeout=connect_timeout,
            reconnect_for=float("inf"),
        )  # fmt: skip
        return body(
            where, replay=replay, speed=speed, host=host, port=port, login_file=login_file,
            allow_control=allow_control, allowed_hosts=allow_host or (), open_=open_,
        )  # fmt: skip

    _do(command)


@command()
def login(
    url: UrlOption = None,
    token_file: TokenFile = None,
    profile: ProfileOption = None,
    connect_timeout: ConnectTimeout = 5.0,
    verbose: VerboseOption = 0,
) -> None:
    """Keep a runtime's token in the keyring (extra keyring).

    It is tried first. It is typed without an echo, or read from stdin where that is no terminal.
    """

    def command() -> int:
        from arcp_client.cli.actions.login import login as body

        return body(
            url=url, token_file=token_file, profile=profile, connect_timeout=connect_timeout
        )

    _do(command)


@command()
def logout(url: UrlOption = None, profile: ProfileOption = None) -> None:
    """Take a runtime's token out of the keyring."""

    def command() -> int:
        from arcp_client.cli.actions.login import logout as body

        return body(url=url, profile=profile)

    _do(command)


@command()
def version(output: OutputOption = None, json: JsonOption = False) -> None:
    """Print the versions of this command and its libraries."""

    def command() -> int:
        from arcp_client.cli.actions.version import version as body

        return body(chosen(output, json))

    _do(command)


config = typer.Typer(help="Where settings come from.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(config, name="config")


@config.command("show", cls=PlainCommand)
def config_show(
    origin: Annotated[bool, typer.Option("--origin", help="Also say where each is from.")] = False,
    profile: ProfileOption = None,
    output: OutputOption = None,
    json: JsonOption = False,
) -> None:
    """Show the settings that commands would use. The token is never shown."""

    def command() -> int:
        from arcp_client.cli.settings import show as body

        return body(profile=profile, origin=origin, output=chosen(output, json))

    _do(command)
