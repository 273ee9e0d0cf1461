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
    1: "The session's id is in the welcome's envelope, or else in its payload. The runtime's name"
    " is in an object or in flat fields. Everything else in a welcome may be missing.",
    2: "The negotiated features are those that both sides offer, whether the welcome lists the"
    " features of the runtime or the common ones. If `heartbeat` is not negotiated, the heartbeat"
    " interval is ignored.",
    3: "Agents are listed as texts, as objects with more or fewer keys, or not at all.",
    4: "A handshake fails by `session.error`, by a `job.error` that names no job, by a refusal of"
    " the older protocol family, by a closed socket, or by silence. In each case the client closes"
    " its end itself.",
    5: "An error may lack its message, its details and `retryable`, may have `detail` instead, and"
    " may have a code that is not in the specification.",
    6: "A reply belongs to the request that it names, in whatever field. If it names none, it"
    " belongs to the request whose id, trace or job it repeats, or else to the oldest request of"
    " its kind.",
    7: "A `session.error` in a live session refuses a request, unless its code ends the session. It"
    " never fails a job. If it names no request, it refuses the only request that was on its way.",
    8: "A `job.error` may refuse a request: a submit, under a made-up job id, or a request about a"
    " job that continues.",
    9: "An acceptance without a submit of this client is that of a delegated job. An acceptance may"
    " come a second time, from another session or under an envelope id that was seen before.",
    10: "Events, and the end of a job, may come before the acceptance of the job or the"
    " confirmation of the subscription.",
    11: "Everything in an acceptance but the job's id may be missing. A lease may have values that"
    " are not lists. Budgets are numbers, texts, or texts that contain the currency.",
    12: "An event may lack its time, body or job. Events of unknown kinds are delivered. Log levels"
    " are in upper or lower case, and numbers may be floats.",
    13: "Times end in `Z`, `+00:00` or a local offset, and have 0 to 9 decimals of a second.",
    14: "The value of a result without chunks is in `result`, `output` or `value`. Without any of"
    " these fields the value is None.",
    15: "A `job.result` with the status cancelled or timed out is a failure. `timedout` is another"
    " spelling of that status.",
    16: "A cancel is answered by `job.cancelled`, by the end of its job, or not at all. The end of"
    " the job decides.",
    17: "A chunked result ends with the terminal message, not with `more`. The encoding may change"
    " from chunk to chunk, a chunk may come twice, and the size may not be stated.",
    18: "Event numbers may be missing, be used by other messages, collide or overtake one another."
    " If a runtime's numbers are not reliable, the client recognises events by their ids, and"
    " resumes from the last number up to which nothing is missing.",
    19: "The confirmation of a subscription may say that the job has ended, and the end of the job"
    " may never follow. The client ignores the fields `replayed` and `subscribed_from`.",
    20: "A history may have an event more than once, and out of order. The client delivers each"
    " event once, in the order of the times.",
    21: "A listing may be null. Its entries may lack fields, or use other names for them. A cursor"
    " is opaque; null means that there is none.",
    22: "After a resume the token may be the old one, nothing may have been replayed, and jobs may"
    " be silent or dead. The client recovers each job, or reports it as lost.",
    23: "If a runtime refuses a resume that missed nothing, the client resumes from one event"
    " earlier.",
    24: "A runtime that has not noticed the end of the old link refuses a resume for a while.",
    25: "The client answers every ping, and pings an idle link. A runtime reports a lost heartbeat"
    " in one of three ways, or not at all.",
    26: "The runtime may send `session.closed` or `session.bye` at any time, and more frames after"
    " it. Close codes of the WebSocket say little.",
    27: "Every request has a deadline, because some requests are never answered.",
}
"""What a client accepts."""

SEND: Final[Mapping[int, str]] = {
    1: "Every frame has a version, a fresh id that is a bare ULID, a session id, and a payload that"
    " is an object. An absent field is left out and is never null.",
    2: "A trace id is 32 lower-case hexadecimal digits, not all zero. Each submit has its own.",
    3: "A hello has the client's name both in an object and in flat fields, has a bearer token, and"
    " always lists encodings and features.",
    4: "A resume is a hello with the session, the token and the last number, under every name that"
    " runtimes use. `session.resume` is never sent.",
    5: "A session ends with the message that its runtime accepts, `session.close` or `session.bye`."
    " If any such message would cancel the jobs of the session, none is sent.",
    6: "A submit always has an input and a key, and leaves out absent fields. A repeated submit has"
    " the same bytes.",
    7: "A cancel has the id of its job in the envelope and in the payload, and a reason. A"
    " subscription has the id of its job in the payload only.",
    8: "A request for a listing has neither an empty filter nor a null cursor, 1 to 1000 entries a"
    " page, and times that end in `Z`.",
    9: "Pings and pongs have a text as nonce, and times that end in `Z`. The numbers of"
    " acknowledgements only increase, and never exceed what was processed.",
    10: "Frames are texts of one line, no longer than the runtime accepts. The client refuses a"
    " longer request.",
    11: "If a runtime's refusals name no request, the client sends one request at a time. It sends"
    " no request that needs a feature which was not negotiated.",
    12: "The client cancels a job only from the session that submitted the job.",
}
"""What a client sends."""

NOTES: Final[Mapping[int, str]] = {
    1: 'In the table, "one Gap" means that the job ends with its true result, and that one `Gap`'
    " stands for the events that the runtime may have lost. An error means that this runtime"
    " cannot give the outcome: `JobLost` if it no longer knows the job, `ResultUnavailable` if it"
    " says only that the job succeeded, `ResultIncomplete` if chunks of the result were lost.",
    2: "The client ends a session with the message that its runtime accepts. If any such message"
    " would cancel the jobs of the session, the client only drops the link.",
    3: "Some runtimes send a resumed session no events of earlier jobs until the next resume. The"
    " client then resumes the session every 2 to 30 seconds while such a job runs: nothing is"
    " lost, and events come in batches.",
    4: "Some runtimes grant leases without patterns. The client asks these for a namespace only if"
    " it was requested without a bound (`*` or `**`). Other requested patterns are not granted.",
    5: "Events of a history are delivered in the order in which the agent emitted them, each once."
    " If a runtime sends them out of order, the client holds the events of the session from the"
    " first event of the history until two conditions are met. First, the answer to a ping has"
    " come, which shows that the history has ended. Second, no number below the highest of the"
    " held events is missing, since a live event with a lower number may come after that answer."
    " The client holds events for at most two seconds without an event, ten seconds in all, and"
    " `Buffer.hard` events. Then it sorts the events of the history by their times; each gets the"
    " number of its new place.",
    6: "Acknowledgements are optional (§6.5). Some runtimes remove acknowledged events from"
    " histories, so that other clients would miss what the submitting client has processed. The"
    " client sends these runtimes no acknowledgements. If another client does, this client gets a"
    " shorter history and cannot notice it.",
    7: "If the frames of a runtime may overtake one another, the client waits half a second for a"
    " missing number before it resumes the session to get it. It does so with a runtime that it"
    " does not recognise, too.",
    8: "A request that is longer than the runtime accepts is not sent. The call fails at once with"
    " `LocalProtocolError`, and the session continues. If a transport of your own sends frames as"
    " lines, give it an attribute `lines` (`transports.LineTransport`).",
    9: "`SessionInfo.jobs_run_on` is False for a runtime that ends jobs with their session. `close`"
    " and `detach` then log a warning that names the open jobs, and `run --detach` refuses. When"
    " the link is lost, the outcome of a job is `JobLost`, without a `Gap`: the job ended at the"
    " first event that the runtime could not send.",
    10: "A session does not subscribe to a job that its own submit has started. The client"
    " recognises such a job by its acceptance, which has the trace id of that submit. If the"
    " caller chose the trace id, or the runtime does not keep it, the session subscribes, and the"
    " client recognises repeated events by their envelope ids. The checkpoint has the last 1,024"
    " of these ids, for a restart.",
    11: "`ResultIncomplete` is raised for a streamed result whose length differs from the stated"
    " one, if the runtime is this package's or is not recognised. Other runtimes may count"
    " characters or estimate. With them, a different length is only a warning, unless bytes are"
    " missing and no chunk was marked as the last.",
    12: "A `Gap` has the numbers of the first and the last event that will not come. `last` is"
    " `None` if this number is not known. That is so with the reason `unknown_end`, since the"
    " numbers of a lost session are lost too, and with the reason `lost` for a job whose events"
    " were lost with its link. In the second case, `job_id` is the id of the job, and `first` is"
    " the next number of the session. For a job that it only watches, the client asks for the"
    " missed history instead, so there is no `Gap`.",
    13: "Runtimes of another protocol family, whose first messages are `session.open` and"
    " `tool.invoke`, put the same version on the wire but share nothing else. Connecting to one of"
    " them fails within `Timeouts.open` with `ConnectFailed`, which names the message that the"
    " runtime sent, if any.",
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
