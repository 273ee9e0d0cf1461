"""Writes the tables of docs/explanation/recovery.md from the recovery plans in the code.

Run it after a change to a plan or a dialect; a test compares. ``--check`` writes nothing and fails
if the page is out of date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from arcp_client._dialects import DIALECTS
from arcp_client._dialects._silent_resume import SilentResume
from arcp_client._protocol.jobs import JobState
from arcp_client._protocol.peer import AcceptanceContext, Peer
from arcp_client._protocol.plans import (
    AwaitSilence,
    AwaitTerminal,
    Backoff,
    EventsLost,
    GiveUp,
    ListJobs,
    Means,
    OnlyOutcome,
    Recover,
    ReleaseTerminal,
    Resubmit,
    Step,
    Subscribe,
    recover,
)
from arcp_client._protocol.session import Session

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "recovery.md"
BEGIN, END = "<!-- generated: begin -->\n", "<!-- generated: end -->\n"

OCCASIONS = {
    "resumed, own job": lambda peer: peer.after_resume(own(peer)),
    "resumed, watched job": lambda peer: peer.after_resume(watched()),
    "new session": lambda peer: peer.after_new_session(own(peer)),
    "after a gap": lambda peer: peer.after_gap(own(peer), 41),
    "accepted in another session": lambda peer: accepted(peer, elsewhere=True),
    "accepted over a lost link": lambda peer: accepted(peer, elsewhere=False),
}

POLLED = ("resumed, own job", "accepted over a lost link")


def own(peer: Peer) -> JobState:
    """A job that this session submitted, received up to number 41."""
    here = peer.view.negotiated.session_id
    return JobState(
        "job", submitted=True, origin_session=here, resume_after=41, key="key", payload={}
    )


def watched() -> JobState:
    """A job of another client."""
    return JobState("job", subscribed=True, origin_session="elsewhere")


def accepted(peer: Peer, *, elsewhere: bool) -> Recover | None:
    came = AcceptanceContext(elsewhere=elsewhere, sent_before=True, resent=True, fresh=True)
    return peer.after_acceptance(own(peer), came, 0.0)


def steps(peer: Peer, needs: Recover, status: str) -> Iterator[str]:
    """The steps of a plan for a job of that status, in words, until it watches or waits."""
    means = Means(resubmit=peer.means(own(peer)).resubmit)
    plan = recover(own(peer), means, needs=needs)
    lossy = needs.may_have_lost_events
    answer: object = None
    while True:
        try:
            step = plan.send(answer)
        except StopIteration:
            return
        words = in_words(step, lossy=lossy)
        lossy = lossy and not isinstance(step, EventsLost)  # a loss is announced once
        if words:
            yield words
        if isinstance(step, AwaitSilence | AwaitTerminal | GiveUp):
            return
        answer = {ListJobs: status, Subscribe: status, Resubmit: "job"}.get(type(step))


def in_words(step: Step, *, lossy: bool) -> str:
    match step:
        case Subscribe(history, after, resubscribe, hold):
            text = "subscribe"
            if resubscribe:
                text = "end the old subscription → subscribe"
            if history:
                text += " with history" + (f" after {after}" if after is not None else "")
            return text + (" (hold the end of the job until this is confirmed)" if hold else "")
        case ListJobs():
            return "look the job up in the list of jobs"
        case Resubmit():
            return "submit again under its key"
        case AwaitSilence():
            return "watch"
        case AwaitTerminal():
            return "await its end"
        case EventsLost():
            return "announce a gap" if lossy else ""
        case GiveUp():
            return "give up"
        case ReleaseTerminal() | OnlyOutcome() | Backoff():
            return ""
    raise AssertionError(step)


def table(peer: Peer) -> str:
    lines = ["| occasion | while the job runs | when the job has ended |", "|---|---|---|"]
    for occasion, needed in OCCASIONS.items():
        needs = needed(peer)
        if needs is not None:
            runs = " → ".join(steps(peer, needs, "running"))
            ended = " → ".join(steps(peer, needs, "success"))
        elif isinstance(peer, SilentResume) and occasion in POLLED:
            runs = ended = "resume again and again: each resume brings the job's new events"
            if peer.hears_by_subscribing:
                runs = f"subscribe with history; until that is confirmed, {runs}"
        else:
            runs, ended = (
                "nothing: the runtime sends its events",
                "nothing: the runtime sends its end",
            )
        lines.append(f"| {occasion} | {runs} | {ended} |")
    return "\n".join(lines)


def tables() -> str:
    """One table for all runtimes that need the same."""
    alike: dict[str, list[str]] = {}
    for kind in DIALECTS.values():
        alike.setdefault(table(kind(Session().view)), []).append(kind.title)
    return "\n\n".join(f"### {', '.join(names)}\n\n{text}" for text, names in alike.items())


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    new = f"{before}{BEGIN}\n{tables()}\n{END}{after}"
    if "--check" in sys.argv[1:]:
        return int(new != text)
    PAGE.write_text(new, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
