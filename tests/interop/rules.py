"""States the rules by which one client works with every public runtime, and finds their tests.

No two public runtimes of the specification's family speak it alike. `ACCEPT` says what a client
must accept, `SEND` what it must send so that each of them understands, and `NOTES` what a user
should know besides. What single runtimes do differently stands in `arcp_client._dialects`. A test
that shows a rule, or a deviation of a runtime, says so::

    @rule("accept-15", "python: histories")
    def test_cancelled_comes_as_a_result() -> None: ...

`tests/interop/test_rules.py` checks that every rule is shown and that every mark names a rule.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from arcp_client._dialects import DIALECTS

__all__ = ["ACCEPT", "NOTES", "RULES", "SEND", "rule", "shown"]

ACCEPT: Final[Mapping[int, str]] = {
    1: "The session's id is in the welcome's envelope, else in its payload; the runtime is named in"
    " an object or flat; all else in a welcome may be missing.",
    2: "Features are those that both sides offer, whether the welcome lists the runtime's or what"
    " is common; without `heartbeat` among them the interval means nothing.",
    3: "Agents are listed as texts, as objects with more or fewer keys, or not at all.",
    4: "A handshake fails by `session.error`, by a `job.error` that names no job, by a refusal of"
    " the older family, by a closed socket, or by silence; the client closes its end itself.",
    5: "An error may lack message, details and the word on retrying, may say `detail`, and may have"
    " a code that the specification does not.",
    6: "A reply belongs to the request that it names, in whatever field; else to the one whose id,"
    " trace or job it repeats; else to the oldest of its kind.",
    7: "A `session.error` of a live session refuses a request, unless its code ends the session;"
    " no job fails of it, and where it names no request, only one was on its way.",
    8: "A `job.error` may refuse a request: a submit under a made-up job id, or a request about a"
    " job that goes on.",
    9: "An acceptance that nobody asked for is a delegated job's; one may come again, from another"
    " session, under an envelope id that was seen.",
    10: "Events, and the end of a job, may come before its acceptance or confirmation.",
    11: "Everything in an acceptance but the job's id may be missing; a lease may hold what is no"
    " list, and budgets are numbers, texts, or texts with the currency in them.",
    12: "An event may lack time, body or job; unknown kinds pass; levels are in any case, numbers"
    " may be floats.",
    13: "Times end in `Z`, `+00:00` or a local offset, and have 0 to 9 digits of a second.",
    14: "A result without chunks is under `result`, `output` or `value`; without any of them it is"
    " nothing.",
    15: "A `job.result` that says cancelled or timed out is a failure; `timedout` is another"
    " spelling.",
    16: "A cancel is answered by `job.cancelled`, by the end of its job, or not at all; the end"
    " decides.",
    17: "The terminal message ends a chunked result, not `more`; the encoding may change from chunk"
    " to chunk, a chunk may come twice, and a stated size may be absent.",
    18: "Numbers may be missing, be used by other messages, collide or overtake one another: where"
    " they are not true, events are known by their ids, and a resume asks only for what is whole.",
    19: "A confirmed subscription may say that the job has ended, and no end may follow; of"
    " `replayed` and `subscribed_from` nothing is made.",
    20: "A history may hold an event more than once, and not in order: each is delivered once, and"
    " in the order of the times.",
    21: "A listing may be null, its entries short or under other names; a cursor is opaque, and"
    " null is none.",
    22: "After a resume the token may be the old one, nothing may have been replayed, and jobs may"
    " be silent or dead: each is led back, or said to be lost.",
    23: "A resume that missed nothing and is refused is asked for again from one event earlier.",
    24: "A runtime that has not noticed the old link's end refuses a resume for a while.",
    25: "Every ping is answered, an idle link is pinged, and a heartbeat that is lost may be told"
    " of in three ways or none.",
    26: "The runtime may say `session.closed` or `session.bye` at any time, frames may follow, and"
    " close codes mean little.",
    27: "Every request has a deadline: some are never answered.",
}
"""What a client accepts."""

SEND: Final[Mapping[int, str]] = {
    1: "Every frame has version, a fresh id that is a bare ULID, a session id, and a payload that"
    " is an object; what is absent is left out and never null.",
    2: "A trace id is 32 lower-case hexadecimal digits, not all zero, and one of its own a submit.",
    3: "A hello names the client in an object and flat, has a bearer token, and always lists"
    " encodings and features.",
    4: "A resume is a hello that has the session, the token and the last number under every name;"
    " `session.resume` is never sent.",
    5: "A session ends with the message that its runtime takes, `session.close` or `session.bye`,"
    " or without one where any message would cancel its jobs.",
    6: "A submit always has an input and a key, leaves out what is absent, and is sent again byte"
    " for byte.",
    7: "A cancel has its job in envelope and payload, and a reason; a subscription has it in the"
    " payload only.",
    8: "A listing has neither an empty filter nor a null cursor, 1 to 1000 entries a page, and"
    " times that end in `Z`.",
    9: "Pings and pongs have a nonce that is a text and times that end in `Z`; acks only go up,"
    " and never beyond what was processed.",
    10: "Frames are texts of one line, no longer than the runtime takes; a request that is longer"
    " is refused here.",
    11: "Where refusals name no request one is on its way at a time; what was not negotiated is"
    " not asked for.",
    12: "A job is cancelled only from the session that submitted it.",
}
"""What a client sends."""

NOTES: Final[Mapping[int, str]] = {
    1: 'In the table, "one Gap" means that the job ends with its true result, and one `Gap`'
    " stands where its runtime may have lost events. An error stands where the outcome"
    " cannot be had from that runtime: `JobLost` if it no longer knows the job,"
    " `ResultUnavailable` if it only says that the job succeeded, `ResultIncomplete` if"
    " chunks went nowhere.",
    2: "A session is ended in the words of its runtime; where any message would cancel the"
    " session's jobs, the client only drops the link.",
    3: "Where a resumed session receives nothing of earlier jobs, it is resumed every 2 to 30"
    " seconds while such a job runs: nothing is lost, and events come in batches.",
    4: "Where leases have no patterns, a namespace is asked for only if it was asked for without"
    " a bound (`*` or `**`); of the rest nothing is granted.",
    5: "Events of a history come in the order in which they were emitted, each once. Where a"
    " runtime mixes them up, the session's events wait from the first of the history to its"
    " end, which the answer to a ping tells, and until no number below the highest of them"
    " is missing: a live event that is numbered among the history may come behind that"
    " answer. The wait is bounded by two seconds without an event, ten in all, and"
    " `Buffer.hard` events. Then the events stand in the order of their times, with the"
    " numbers of the places that they come to.",
    6: "Acknowledgements are optional (§6.5), and are not sent to a runtime that frees with them"
    " what histories are made of: a watcher would miss what the submitter has processed. If"
    " another client acknowledges, a watcher gets a shorter history, and neither it nor this"
    " client can know that.",
    7: "Where frames may overtake one another, a hole in the numbers has half a second to fill"
    " itself before the session is resumed for it. A runtime that is not recognised is"
    " treated so.",
    8: "A request that is longer than the runtime takes is not sent: it fails at once with"
    " `LocalProtocolError`, and the session continues. A transport of your own that sends"
    " frames as lines says so with an attribute `lines` (`transports.LineTransport`).",
    9: "`SessionInfo.jobs_run_on` is False for a runtime that ends jobs with their session."
    " `close` and `detach` then log a warning that names the open jobs, and `run --detach`"
    " refuses. A job whose link was lost is `JobLost` there, without a `Gap`: it ended at the"
    " first event that it could not send.",
    10: "A session does not subscribe to a job that its own submit has started: the acceptance"
    " has the trace id of that submit. Where the trace id is the caller's, or the runtime does"
    " not keep it, the session subscribes, and copies are known by their envelope ids, after"
    " a restart by the last 1,024 of them in the checkpoint.",
    11: "A streamed result that is not as long as its runtime stated is `ResultIncomplete` with"
    " this package's runtime and unrecognised ones. The others may count characters or"
    " estimate: there it is a warning, unless bytes are missing and no chunk said that it"
    " was the last.",
    12: "A `Gap` has the numbers of the first and the last event that will not come. Its `last`"
    " is `None` where the number is not known: with the reason `unknown_end`, since a session"
    " that is gone took its numbers with it; and with the reason `lost` for a job whose events"
    " went nowhere after its link dropped. There `job_id` says whose events they are, and"
    " `first` is the next number of the session. A watcher whose link dropped asks for the"
    " history of what it missed, so there is no `Gap`.",
    13: "Runtimes that begin with `session.open` and `tool.invoke` put the same version on the"
    " wire and share nothing else. Connecting to one fails within `Timeouts.open` with"
    " `ConnectFailed`, which names the message that was spoken, if there was any.",
}
"""What a user should know besides."""

RULES: Final[Mapping[str, str]] = {
    **{f"accept-{number}": text for number, text in ACCEPT.items()},
    **{f"send-{number}": text for number, text in SEND.items()},
    **{f"note-{number}": text for number, text in NOTES.items()},
    **{
        f"{kind.name}: {deviation.capability}": deviation.seen
        for kind in DIALECTS.values()
        for deviation in kind.deviations
    },
}
"""All of them by name; deviations of runtimes, too, like ``go: histories``."""


def rule(*names: str) -> pytest.MarkDecorator:
    """Marks a test that shows these rules.

    Raises:
        ValueError: one is no rule.
    """
    unknown = [name for name in names if name not in RULES]
    if unknown or not names:
        raise ValueError(f"no such rules: {unknown}")
    return pytest.mark.rule(*names)


def shown(tests: Path) -> Iterator[tuple[str, str, str]]:
    """Every mark in the sources of the tests: name of the rule, file, function."""
    for path in sorted(tests.rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if "rule(" not in text:
            continue
        for node in ast.walk(ast.parse(text)):
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                continue
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "rule":
                    for name in mark.args:
                        yield ast.literal_eval(name), str(path.relative_to(tests)), node.name
