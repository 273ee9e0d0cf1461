"""Every captured scenario, replayed against the session: what an application would have seen."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from arcp_client._dispatch.assembler import Assembler
from arcp_client._wire.replies import Accepted, JobPage, Subscribed
from arcp_client.errors import ArcpError
from arcp_client.events import (
    Completed,
    Event,
    Failed,
    Gap,
    Metric,
    ResultChunk,
    ToolResult,
)
from tests.interop.replay import TRANSCRIPTS, Player, replay
from tests.interop.rules import rule

ALL = sorted(path.relative_to(TRANSCRIPTS) for path in TRANSCRIPTS.glob("*/*.jsonl"))


def answer(value: Any) -> str:
    match value:
        case ArcpError():
            return type(value).__name__
        case Accepted() | Subscribed() | JobPage():
            return type(value).__name__.lower()
        case _:
            return "ok"


def outcome(player: Player, job_id: str) -> str:
    """How a job stands in the end, with the number of its events, gaps aside."""
    seen = [event for event in player.of(job_id) if not isinstance(event, Gap)]
    count = f"{len(seen)} events"
    if job_id in player.gone:
        return f"{count}, {type(player.gone[job_id]).__name__}"
    last: Event | None = seen[-1] if seen else None
    match last:
        case Completed():
            return f"{count}, success"
        case Failed(status=status, code=code):
            return f"{count}, {status} {code}"
        case _:
            return f"{count}, open"


def told(player: Player) -> dict[str, Any]:
    """What an application was told, in short; empty parts are left out."""
    parts = {
        "answers": [
            f"{request.kind.partition('.')[2]}: {answer(result)}"
            for request, result in zip(player.requests, player.results, strict=True)
        ],
        "jobs": [outcome(player, job_id) for job_id in player.jobs],
        "gaps": [(gap.first, gap.last, gap.reason) for gap in player.gaps],
        "sessions": [{False: "new", True: "resumed"}[resumed] for resumed in player.opened],
        "ends": ["closed" if end is None else type(end).__name__ for end in player.ends],
    }
    return {name: part for name, part in parts.items() if part}


EXPECTED: dict[str, list[dict[str, Any]]] = {
    "python-stdio/01-submit-chunk-list-close": [
        {
            "answers": ["submit: accepted", "submit: accepted", "list_jobs: jobpage"],
            "jobs": ["8 events, success", "5 events, success"],
            "sessions": ["new"],
            "ends": ["closed"],
        }
    ],
    "python-stdio/02-cancel-rejected-close": [
        {
            "answers": ["submit: accepted", "cancel: ok", "submit: AgentNotFound"],
            "jobs": ["4 events, cancelled CANCELLED"],
            "sessions": ["new"],
            "ends": ["closed"],
        }
    ],
    "python-stdio/03-blank-line": [{"sessions": ["new"]}],
    "python-stdio/04-malformed-line": [{"sessions": ["new"]}],
    "python-stdio/05-80kB-line": [{"sessions": ["new"]}],
    "python-ws/01-handshake-close": [{"sessions": ["new"], "ends": ["closed"]}],
    "python-ws/02-auth-failure": [{"ends": ["Unauthenticated"]}],
    "python-ws/03-first-frame-not-hello": [{"ends": ["InvalidRequest"]}],
    "python-ws/04-submit-events-result": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["8 events, success"],
            "sessions": ["new"],
            "ends": ["closed"],
        }
    ],
    "python-ws/05-chunked-result": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["5 events, success"],
            "sessions": ["new"],
            "ends": ["closed"],
        }
    ],
    "python-ws/06-idempotent-replay": [
        {
            "answers": ["submit: accepted", "submit: accepted", "submit: DuplicateKey"],
            "jobs": ["8 events, success"],
            "sessions": ["new"],
            "ends": ["closed"],
        },
        {
            "answers": ["submit: accepted"],
            "jobs": ["8 events, success"],
            "sessions": ["new"],
            "ends": ["closed"],
        },
    ],
    "python-ws/07-rejected-submits": [
        {
            "answers": [
                "submit: AgentNotFound",
                "submit: AgentVersionNotFound",
                "submit: UnknownCode",
                "submit: InvalidRequest",
                "submit: UnknownCode",
                "submit: InvalidRequest",
                "submit: UnknownCode",
                "submit: UnknownCode",
                "cancel: JobNotFound",
                "cancel: UnknownCode",
                "subscribe: JobNotFound",
                "list_jobs: UnknownCode",
                "list_jobs: UnknownCode",
                "ping: ok",
                "ping: ok",
            ],
            "sessions": ["new"],
        }
    ],
    "python-ws/08-malformed-json": [{"sessions": ["new"]}],
    "python-ws/09-subscribe-history-second-session": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["7 events, success"],
            "sessions": ["new"],
            "ends": ["closed"],
        },
        {
            "answers": ["submit: accepted", "subscribe: subscribed"],
            "jobs": ["8 events, success", "7 events, success"],
            "sessions": ["new"],
            "ends": ["closed"],
        },
        {"answers": ["subscribe: PermissionDenied"], "sessions": ["new"]},
        {"answers": ["subscribe: subscribed"], "jobs": ["4 events, success"], "sessions": ["new"]},
    ],
    "python-ws/10-list-jobs": [
        {
            "answers": [
                "submit: accepted",
                "list_jobs: jobpage",
                "list_jobs: jobpage",
                "list_jobs: jobpage",
                "list_jobs: jobpage",
            ],
            "jobs": ["3 events, success"],
            "sessions": ["new"],
            "ends": ["closed"],
        }
    ],
    "python-ws/11-cancel": [
        {
            "answers": ["submit: accepted", "cancel: ok", "cancel: ok"],
            "jobs": ["4 events, cancelled CANCELLED"],
            "sessions": ["new"],
            "ends": ["closed"],
        },
        {
            "answers": ["submit: accepted", "cancel: ok", "submit: accepted"],
            "jobs": ["2 events, cancelled CANCELLED", "2 events, cancelled CANCELLED"],
            "sessions": ["new"],
        },
        {"answers": ["cancel: ok"], "sessions": ["new"]},
    ],
    "python-ws/12-timeout-and-agent-crash": [
        {
            "answers": ["submit: accepted", "submit: accepted"],
            "jobs": ["6 events, timed_out TIMEOUT", "1 events, error INTERNAL_ERROR"],
            "sessions": ["new"],
            "ends": ["closed"],
        }
    ],
    "python-ws/13-resume-mid-job": [
        {
            "answers": [
                "submit: accepted",
                "list_jobs: jobpage",
                "cancel: ok",
                "submit: accepted",
            ],
            "jobs": ["3 events, ResultUnavailable", "8 events, success"],
            "gaps": [(4, None, "lost")],
            "sessions": ["new", "resumed"],
        }
    ],
    "python-ws/14-resume-after-close-complete": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["8 events, success"],
            "sessions": ["new", "resumed"],
        }
    ],
    "python-ws/15-failed-resume": [
        {
            "sessions": ["new"],
            "ends": ["ResumeExpired", "ResumeExpired", "ResumeExpired", "PermissionDenied"],
        }
    ],
    "python-ws/16-budget-exhaustion": [
        {
            "answers": ["submit: accepted", "submit: accepted"],
            "jobs": ["11 events, success", "8 events, error BUDGET_EXHAUSTED"],
            "sessions": ["new"],
            "ends": ["closed"],
        }
    ],
    "python-ws/17-lease-expired": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["6 events, error LEASE_EXPIRED"],
            "sessions": ["new"],
            "ends": ["closed"],
        }
    ],
    "python-ws/18-ack-then-resume": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["8 events, success"],
            "sessions": ["new", "resumed"],
        }
    ],
    "python-ws/19-no-features-negotiated": [
        {
            "answers": ["list_jobs: FeatureNotNegotiated", "submit: accepted"],
            "jobs": ["5 events, success"],
            "sessions": ["new"],
        }
    ],
    "python-ws/20-large-frame": [{"sessions": ["new"]}],
    "python-ws/22-heartbeat": [
        {"answers": ["ping: ok"], "sessions": ["new"], "ends": ["closed"]},
        {"sessions": ["new"]},
    ],
    "python-ws/27-union-frames": [
        {
            "answers": ["submit: accepted", "cancel: ok"],
            "jobs": ["4 events, cancelled CANCELLED"],
            "sessions": ["new", "resumed"],
        }
    ],
    "python-ws/28-recovery-after-resume": [
        {
            "answers": ["submit: accepted", "subscribe: subscribed", "submit: accepted"],
            "jobs": ["13 events, success"],
            "gaps": [(3, None, "lost")],
            "sessions": ["new", "resumed"],
        },
        {"answers": ["submit: accepted"], "jobs": ["1 events, open"], "sessions": ["new"]},
        {
            "answers": ["submit: accepted"],
            "jobs": ["2 events, success"],
            "gaps": [(2, None, "lost")],
            "sessions": ["new"],
        },
    ],
    "python-ws/29-cancel-while-queued": [
        {
            "answers": [
                "submit: accepted",
                "submit: accepted",
                "cancel: ok",
                "list_jobs: jobpage",
            ],
            "jobs": ["9 events, success", "0 events, JobCancelled"],
            "sessions": ["new"],
        }
    ],
    "typescript-ws/01-handshake-close": [{"sessions": ["new"], "ends": ["closed"]}],
    "typescript-ws/02-auth-failure": [{"sessions": ["new"], "ends": ["Unauthenticated"]}],
    "typescript-ws/03-first-frame-not-hello": [{}],
    "typescript-ws/04-submit-events-result": [
        {"answers": ["submit: accepted"], "jobs": ["11 events, success"], "sessions": ["new"]}
    ],
    "typescript-ws/05-chunked-result": [
        {"answers": ["submit: accepted"], "jobs": ["6 events, success"], "sessions": ["new"]}
    ],
    "typescript-ws/06-idempotent-replay": [
        {
            "answers": ["submit: accepted", "submit: accepted", "submit: DuplicateKey"],
            "jobs": ["11 events, success"],
            "sessions": ["new"],
        },
        {"answers": ["submit: accepted"], "jobs": ["0 events, JobLost"], "sessions": ["new"]},
    ],
    "typescript-ws/07-rejected-requests": [
        {
            "answers": [
                "submit: AgentNotFound",
                "submit: AgentVersionNotFound",
                "submit: InvalidRequest",
                "submit: InvalidRequest",
                "submit: InvalidRequest",
                "submit: InvalidRequest",
                "submit: InvalidRequest",
                "submit: InvalidRequest",
                "submit: accepted",
                "cancel: JobNotFound",
                "cancel: InvalidRequest",
                "subscribe: JobNotFound",
                "list_jobs: InvalidRequest",
                "list_jobs: jobpage",
                "ping: ok",
                "ping: ok",
                "list_jobs: jobpage",
                "list_jobs: RequestTimeout",
                "ping: ok",
            ],
            "jobs": ["2 events, error INTERNAL_ERROR"],
            "sessions": ["new"],
        }
    ],
    "typescript-ws/09-subscribe-history-second-session": [
        {"answers": ["submit: accepted"], "jobs": ["8 events, success"], "sessions": ["new"]},
        {
            "answers": ["submit: accepted", "subscribe: subscribed"],
            "jobs": ["11 events, success", "8 events, success"],
            "sessions": ["new"],
        },
        {"answers": ["subscribe: PermissionDenied"], "sessions": ["new"]},
        {"answers": ["subscribe: JobNotFound"], "sessions": ["new"]},
    ],
    "typescript-ws/10-list-jobs": [
        {
            "answers": [
                "submit: accepted",
                "submit: accepted",
                "submit: accepted",
                "list_jobs: jobpage",
                "list_jobs: jobpage",
                "list_jobs: jobpage",
                "list_jobs: jobpage",
            ],
            "jobs": ["6 events, success", "6 events, success", "6 events, success"],
            "sessions": ["new"],
        }
    ],
    "typescript-ws/11-cancel": [
        {
            "answers": ["submit: accepted", "cancel: ok", "cancel: JobNotFound"],
            "jobs": ["8 events, cancelled CANCELLED"],
            "sessions": ["new"],
        },
        {"answers": ["cancel: PermissionDenied"], "sessions": ["new"]},
    ],
    "typescript-ws/12-timeout-and-agent-crash": [
        {
            "answers": ["submit: accepted", "submit: accepted"],
            "jobs": ["7 events, timed_out TIMEOUT", "2 events, error INTERNAL_ERROR"],
            "sessions": ["new"],
        }
    ],
    "typescript-ws/13-resume-mid-job": [
        {
            "answers": [
                "submit: accepted",
                "list_jobs: jobpage",
                "cancel: JobNotFound",
                "submit: accepted",
            ],
            "jobs": ["3 events, JobLost", "11 events, success"],
            "sessions": ["new", "resumed"],
        }
    ],
    "typescript-ws/14-resume-while-job-runs-live-handover": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["2 events, open"],
            "sessions": ["new"],
            "ends": ["ResumeExpired"],
        }
    ],
    "typescript-ws/15-failed-resume": [
        {
            "gaps": [(1, None, "unknown_end")],
            "sessions": ["new", "new"],
            "ends": ["ResumeExpired", "ResumeExpired", "ResumeExpired"],
        }
    ],
    "typescript-ws/16-budget-exhaustion": [
        {"answers": ["submit: accepted"], "jobs": ["12 events, success"], "sessions": ["new"]}
    ],
    "typescript-ws/17-lease-expired": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["7 events, error LEASE_EXPIRED"],
            "sessions": ["new"],
        }
    ],
    "typescript-ws/18-ack-backpressure-resume": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["43 events, success"],
            "sessions": ["new", "resumed"],
        }
    ],
    "typescript-ws/19-no-features-negotiated": [
        {
            "answers": ["list_jobs: FeatureNotNegotiated", "submit: accepted"],
            "jobs": ["2 events, error INVALID_REQUEST"],
            "sessions": ["new"],
        }
    ],
    "typescript-ws/22-heartbeat": [
        {"answers": ["ping: ok"], "sessions": ["new"], "ends": ["closed"]},
        {"sessions": ["new"], "ends": ["HeartbeatLost"]},
    ],
    "typescript-ws/23-delegate": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["5 events, success", "11 events, success"],
            "sessions": ["new"],
        }
    ],
    "typescript-ws/24-close-with-running-job": [
        {
            "answers": ["submit: accepted"],
            "jobs": ["3 events, open"],
            "sessions": ["new"],
            "ends": ["closed"],
        },
        {"answers": ["list_jobs: jobpage"], "sessions": ["new"]},
    ],
    "typescript-ws/27-union-frames": [
        {
            "answers": ["submit: accepted", "cancel: ok"],
            "jobs": ["5 events, cancelled CANCELLED"],
            "sessions": ["new", "resumed"],
            "ends": ["ResumeExpired"],
        }
    ],
}


@pytest.mark.parametrize("path", ALL, ids=str)
def test_a_scenario_gives_what_an_application_should_see(path: Path) -> None:
    scenario = replay(TRANSCRIPTS / path)
    assert [told(player) for player in scenario.each()] == EXPECTED[str(path.with_suffix(""))]


@pytest.mark.parametrize("path", ALL, ids=str)
def test_nothing_is_unread_repeated_or_left_open(path: Path) -> None:
    for player in replay(TRANSCRIPTS / path).each():
        assert [report for report in player.reports if "unreadable" in report] == []
        ids = Counter((event.job_id, event.id) for event in player.events if event.id)
        assert [key for key, count in ids.items() if count > 1] == []
        for job_id in player.jobs:
            ends = [event for event in player.of(job_id) if event.terminal]
            assert len(ends) + (job_id in player.gone) <= 1
            assert not ends or player.of(job_id)[-1] is ends[0]
        if player.opened:
            assert set(range(len(player.requests))) == set(player.answers)


def test_every_scenario_is_expected() -> None:
    assert sorted(EXPECTED) == [str(path.with_suffix("")) for path in ALL]


# ------------------------------------------------------------------ what is in the events


def only(name: str) -> Player:
    return replay(TRANSCRIPTS / f"{name}.jsonl").each()[0]


@pytest.mark.parametrize("runtime", ["python-ws", "typescript-ws"])
def test_results_have_their_values(runtime: str) -> None:
    player = only(f"{runtime}/04-submit-events-result")
    end = player.events[-1]
    assert isinstance(end, Completed)
    assert end.value == {"echoed": {"q": "hi"}}
    kinds = [event.kind for event in player.events]
    assert kinds.index("tool_result") > kinds.index("thought") > kinds.index("log")


@pytest.mark.parametrize("runtime", ["python-ws", "typescript-ws"])
@rule("accept-17")
def test_chunks_make_up_one_result(runtime: str) -> None:
    player = only(f"{runtime}/05-chunked-result")
    assembler = Assembler("job")
    for event in player.events:
        if isinstance(event, ResultChunk):
            assembler.add(event)
    end = player.events[-1]
    assert isinstance(end, Completed)
    assembler.finish(end.result_id, end.result_size)
    assert end.result_size in (None, assembler.size)
    assert assembler.value() == "hello world é".encode() + b"\x00\xff"  # one chunk is base64


@pytest.mark.parametrize("runtime", ["python-ws", "typescript-ws"])
@rule("accept-11")
def test_budgets_are_exact(runtime: str) -> None:
    player = only(f"{runtime}/16-budget-exhaustion")
    accepted = player.known[0].job
    assert isinstance(accepted, Accepted)
    assert accepted.budget == {"USD": Decimal("1.00"), "credits": Decimal(10)}
    left = [event for event in player.events if isinstance(event, Metric)]
    assert any(event.name == "cost.budget.remaining" and event.unit == "USD" for event in left)


@rule("accept-21")
def test_listings_are_read_page_by_page() -> None:
    player = only("python-ws/10-list-jobs")
    pages = [answer for answer in player.results if isinstance(answer, JobPage)]
    assert [len(page.jobs) for page in pages][:2] == [2, 2]
    assert pages[0].next_cursor == "2"
    assert all(job.created_at is not None and job.status for job in pages[0].jobs)


@rule("accept-9")
def test_a_delegated_job_is_known_with_its_parent() -> None:
    player = only("typescript-ws/23-delegate")
    parent, child = (known.job for known in player.known)
    assert isinstance(child, Accepted)
    assert child.parent_job_id == parent.job_id
    assert [known.submitted for known in player.known] == [True, False]
    failed = [e for e in player.of(parent.job_id) if isinstance(e, ToolResult) and e.error]
    assert [event.call_id for event in failed] == ["d2"]


@rule("send-4")
def test_a_resume_asks_from_what_was_received_and_with_the_newest_token() -> None:
    for name, cursor in (("python-ws/13-resume-mid-job", 3), ("python-ws/18-ack-then-resume", 8)):
        first, second = only(name).hellos
        assert "resume" not in first
        assert second["resume"]["last_event_seq"] == second["last_event_seq"] == cursor
        assert second["resume"]["token"] == second["resume_token"]


@rule("accept-23")
def test_a_runtime_that_refuses_whoever_missed_nothing_is_asked_for_one_event_more() -> None:
    hellos = only("typescript-ws/27-union-frames").hellos
    assert [hello["resume"]["last_event_seq"] for hello in hellos[1:]] == [5, 4]
