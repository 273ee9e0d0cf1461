"""The tests' tables in, ``docs/reference/interop.md`` out.

    python scripts/generate_interop_page.py

What the page says about a runtime is what `tests/interop/test_capabilities.py` checks, cell by
cell; the rules are those of `tests/interop/rules.py`, each with the tests that show it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "interop.md"
sys.path.insert(0, str(ROOT))

from tests.interop.capabilities import RUNTIMES, TABLE  # noqa: E402
from tests.interop.rules import ACCEPT, SEND, shown  # noqa: E402

NAMES = {
    "arcp-client": "this package",
    "spec": "specification",
    "python": "Python",
    "typescript": "TypeScript",
    "csharp": "C#",
    "java": "Java",
    "go": "Go",
    "ruby": "Ruby",
}

HEAD = """\
# Interoperability

<!-- Written by scripts/generate_interop_page.py from the tests; change those. -->

Public runtimes speak ARCP v1.1 in several ways, and no two of their clients and runtimes get
along. One `Client` talks to all of the specification's family: it recognises the dialect by the
welcome and keeps to the rules below. Nothing has to be chosen; `Client(dialect=…)` overrules what
is recognised.

`arcp-client doctor URL` examines a runtime and says what of this holds for it.

## What an application gets

Each cell is checked by a test. *This package* is its own `Runtime`. *Python* is checked twice:
live, with the published reference package over a socket, and played by a
`testing.ScriptedRuntime`. The others are played, since they need platforms of their own; for the
Python and TypeScript runtimes, recorded conversations are replayed as well.

"""

LEGEND = """
"one Gap" means: the job ends with its true result, and one `Gap` stands where its runtime lost
events. An error stands where the outcome cannot be had from that runtime by anybody: `JobLost` if
it no longer knows the job, `ResultUnavailable` if it only says that the job succeeded.

Java closes the link without a word when it refuses a token, so the error is `ConnectFailed`. A
session with Java is ended by dropping the link: a message would cancel its jobs.

C# keeps what a job says after its link dropped, but sends it only with the next resume. So while
such a job runs, its session is resumed from time to time, every 2 to 30 seconds: nothing is lost,
and what it says comes in batches. Ruby sends it to a resumed session that subscribes to its own
job; where that is refused, it is waited for like C#'s.

Ruby grants leases by name, without patterns. A namespace is asked for there only if it was asked
for without a bound (`*` or `**`); of the rest nothing is granted.

Events of a history come in the order in which they were sent, each once. Go mixes the history of a
job that has several observers, and Java forwards live events among a history, under other ids.
There the session's events wait from the first of the history to its end, which the answer to a ping
tells (if that does not come, two seconds without an event, ten in all, or `Buffer.hard` events),
and then stand in the order of their times. Their numbers are those of the places that they come to.

Go and Java number an event before they queue it, so events of jobs that run side by side may
overtake one another. There, and with a runtime that is not recognised, a hole in the numbers has
half a second to fill itself before the session is resumed for it.

Over a WebSocket the Python and Go runtimes close a link on a frame of more than 1 MiB. Over stdio
the Python runtime ends at a line of more than 64 KiB, and Go's at one of 1 MiB. A request that is
longer than that is not sent: it fails at once with `LocalProtocolError`, and the session goes on.
A transport of your own that sends frames as lines says so with an attribute `lines`
(`transports.LineTransport`).

## Gaps

A `Gap` has the numbers of the first and the last event that will not come. Its `last` is `None`
where nobody can know: with the reason `unknown_end`, since a session that is gone took its
numbers with it; and with the reason `lost` on runtimes that send a job's events nowhere after its
link dropped (Python, TypeScript). There `job_id` says whose events they are, and `first` is
the next number of the session: the numbers of what comes later go on from there, and do not show
how many are lost.

## The older family

Runtimes that begin with `session.open` and `tool.invoke` put the same version on the wire and
share nothing else. Connecting to one fails within `Timeouts.open` with `ConnectFailed`, which
names the message that was spoken, if there was any.

## Rules

Each is shown by the tests that it is named in (`@rule("accept-1")`), and no test names another.

### What is accepted
"""


def page() -> str:
    """The page as it is to be."""
    return "".join([HEAD, *table(), LEGEND, *rules("accept", ACCEPT), SENT, *rules("send", SEND)])


SENT = "\n### What is sent\n"


def table() -> Iterator[str]:
    """The capabilities and the runtimes."""
    yield "| | " + " | ".join(NAMES[name] for name in RUNTIMES) + " |\n"
    yield "|---" * (len(RUNTIMES) + 1) + "|\n"
    for probe, row in TABLE.items():
        cells = (row.get(name) or row["*"] for name in RUNTIMES)
        yield f"| {probe} | " + " | ".join(cells) + " |\n"


def rules(kind: str, numbered: Mapping[int, str]) -> Iterator[str]:
    """The rules of one kind, each with how many tests show it."""
    marks: dict[str, set[str]] = {}
    for name, file, _ in shown(ROOT / "tests"):
        marks.setdefault(name, set()).add(file)
    for number, text in numbered.items():
        files = ", ".join(f"`{file}`" for file in sorted(marks.get(f"{kind}-{number}", ())))
        yield f"\n{number}. {text}\n\n    {files}\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
