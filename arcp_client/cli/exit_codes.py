"""Defines the exit codes, and the error that ends a command with one of them."""

from __future__ import annotations

import enum

from arcp_client.version import DOCS_URL

__all__ = ["CommandError", "Exit", "page_of", "short_link"]


class Exit(enum.IntEnum):
    """An exit code of ``arcp-client``."""

    SUCCESS = 0
    FAILED = 1
    USAGE = 2
    CONNECTION = 3
    AUTHENTICATION = 4
    NOT_FOUND = 5
    LEASE = 6
    GAP = 7
    TIMED_OUT = 124
    INTERRUPTED = 130

    @property
    def meaning(self) -> tuple[str, str, str]:
        """A short name, the situation, and the remedy."""
        return _MEANINGS[self]


_MEANINGS = {
    Exit.SUCCESS: ("success", "The command succeeded.", "Nothing."),
    Exit.FAILED: (
        "the job failed",
        "The job ended without success, or the command failed for a reason without a code of its"
        " own.",
        "Read the message; if a job failed, it comes from the agent, and `arcp-client result JOB`"
        " prints it again. Set `ARCP_DEBUG=1` for the traceback of an unexpected error.",
    ),
    Exit.USAGE: (
        "usage",
        "An argument, a setting or a file cannot be used. Nothing was done.",
        "Change what the message names; `--help` explains each command, and"
        " `arcp-client config show --origin` says where each setting comes from.",
    ),
    Exit.CONNECTION: (
        "no connection",
        "The command did not reach the runtime, or lost the connection finally. Jobs continue.",
        "Check that the runtime runs at that URL (`arcp-client ping`), then follow a job again"
        " with `arcp-client watch JOB`. `--connect-timeout` and `--reconnect-for` set how long the"
        " command tries.",
    ),
    Exit.AUTHENTICATION: (
        "authentication",
        "The runtime refused the token, or does not allow the request with this token.",
        "Set `ARCP_TOKEN` or `ARCP_TOKEN_FILE`, name a `--token-file`, or keep the token in the"
        " keyring with `arcp-client login`. To cancel a job, use the program that submitted it; for"
        " a job of `arcp-client run` or `mcp`, call `arcp-client cancel` as the same user on the"
        " same machine.",
    ),
    Exit.NOT_FOUND: (
        "not found",
        "The job or agent does not exist, or you may not see it. Runtimes remove jobs a while after"
        " their end.",
        "`arcp-client jobs` lists the jobs that you may see, `arcp-client ping` the agents.",
    ),
    Exit.LEASE: (
        "lease or budget",
        "The job's lease expired or does not cover an operation, or the budget is exhausted.",
        "Submit the job again: repeat your other `--lease` options, and add the missing right or a"
        " larger budget, such as `--lease cost.budget=USD:5`. A job with `--lease` has only the"
        " rights that these options list. If the lease expired, submit the job from Python with a"
        " later `expires_at`; `run` has no option for it.",
    ),
    Exit.GAP: (
        "a gap: events are lost",
        "Events, a result or the end of a job are missing, or a recording ends before its job"
        " does.",
        "`arcp-client status JOB` and `arcp-client result JOB` show what the runtime holds."
        " If it holds nothing, submit the job again.",
    ),
    Exit.TIMED_OUT: (
        "timed out",
        "The job exceeded its time limit, or the runtime did not answer in time.",
        "Give the job more time with `--max-runtime`, or try again if the runtime was slow.",
    ),
    Exit.INTERRUPTED: (
        "interrupted",
        "Ctrl-C, SIGTERM, or a closed output pipe ended the command. The job keeps running, unless"
        " Ctrl-C was pressed twice.",
        "`arcp-client watch JOB` follows the job again, `arcp-client cancel JOB` ends it.",
    ),
}


class CommandError(Exception):
    """Ends a command with an exit code.

    Args:
        code: the exit code.
        happened: a description of the error, without a full stop.
        remedy: advice for the user.
        help_url: the documentation page of the error; by default that of the exit code.
    """

    def __init__(
        self, code: Exit, happened: str, remedy: str = "", *, help_url: str | None = None
    ) -> None:
        super().__init__(happened)
        self.code = code
        self.happened = happened
        self.remedy = remedy
        self.help_url = help_url or page_of(code)


def page_of(code: Exit) -> str:
    """Return the documentation page of an exit code."""
    return f"{DOCS_URL}reference/errors/exit-codes.html#exit-{int(code)}"


def short_link(url: str) -> str:
    """Return a short link to a documentation page: ``e.html#3`` leads to exit code 3."""
    anchor = url.rpartition("#")[2].removeprefix("exit-")
    return f"{DOCS_URL}e.html#{anchor}" if url.startswith(f"{DOCS_URL}reference/errors/") else url
