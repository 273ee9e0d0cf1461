"""The rules by which one client gets along with every public runtime, and which tests show them.

No two public runtimes of the specification's family speak it alike. What a client must put up with
stands in `ACCEPT`, what it must send so that each of them understands in `SEND`. A test that shows
a rule says so::

    @rule("accept-15")
    def test_cancelled_comes_as_a_result() -> None: ...

`tests/interop/test_rules.py` sees to it that every rule is shown and every name is that of a rule.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

__all__ = ["ACCEPT", "RULES", "SEND", "rule", "shown"]

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
    5: "A session ends in the words of its runtime; one that is not known is told `session.bye`"
    " first and `session.close` then; Java is told nothing.",
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

RULES: Final[Mapping[str, str]] = {
    **{f"accept-{number}": text for number, text in ACCEPT.items()},
    **{f"send-{number}": text for number, text in SEND.items()},
}
"""All of them by name."""


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
