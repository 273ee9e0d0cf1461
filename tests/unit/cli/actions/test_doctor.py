"""What ``arcp-client doctor`` finds out about runtimes."""

from __future__ import annotations

import pytest
from pydantic import SecretStr

from arcp_client import Runtime
from arcp_client._dialects import DIALECTS
from arcp_client.cli.actions.diagnosis import Diagnosis, examine
from arcp_client.errors import ConnectFailed, Unauthenticated
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Raw, Refuse, Withhold
from tests.interop.rules import rule

TOKEN = SecretStr("good")
NAMES = ["handshake", "ping", "listing", "refused submit", "resume", "close"]
NOT_EXAMINED = ["jobs", "running jobs", "histories"]

DEVIATIONS = {
    "arcp-client": [],
    "spec": [],
    "python": ["close §6.7"],
    "typescript": ["refused submit §7.5, §12", "resume §6.3", "close §6.7"],
    "csharp": [],
    "java": ["refused submit §7.5, §12", "resume §6.3", "close §6.7"],
    "go": ["listing §6.6"],
    "ruby": ["handshake §6.2", "listing §6.6", "close §6.7"],
}
"""What the probes find of each dialect."""


def verdicts(found: Diagnosis) -> dict[str, str]:
    return {finding.capability: finding.verdict for finding in found.findings}


async def test_this_packages_runtime_conforms() -> None:
    async with Runtime() as runtime:
        found = await examine(runtime, token=TOKEN)
    assert found.conforms
    assert verdicts(found) == {
        **dict.fromkeys(NAMES, "ok"),
        **dict.fromkeys(NOT_EXAMINED, "not examined"),
    }
    assert found.not_examined == NOT_EXAMINED


@rule("python: close", "typescript: close", "ruby: close", "ruby: handshake", "ruby: listing")
@rule("go: listing", "java: resume", "java: refused submit")
@pytest.mark.parametrize("dialect", DEVIATIONS)
async def test_each_dialects_deviations_are_named_with_their_sections(dialect: str) -> None:
    known = DIALECTS["unknown" if dialect == "spec" else dialect].deviations
    async with ScriptedRuntime(dialect, tokens=["good"]) as runtime:
        found = await examine(runtime, token=TOKEN)
        assert runtime.jobs == {}  # nothing was started
        assert runtime.objections == []
    assert all(finding.seen for finding in found.findings if finding.verdict != "ok")
    assert [f.capability for f in found.findings][:9] == NAMES + NOT_EXAMINED
    assert "jobs" in found.not_examined  # whatever is known, none was run
    odd = [f for f in found.findings if f.verdict not in ("ok", "not examined")]
    named = [f"{finding.capability} {finding.section}" for finding in odd]
    assert [name for name in named if name.split(" §")[0] in NAMES] == DEVIATIONS[dialect]
    # The probes find what the dialect's file says of their capabilities; it tells of the others.
    assert sorted(named) == sorted(f"{it.capability} {it.section}" for it in known)
    assert {finding.verdict for finding in odd} <= {"deviates"}
    assert all(finding.seen and finding.remedy for finding in odd)
    assert found.conforms is (not odd)


async def test_what_is_not_offered_is_no_fault() -> None:
    async with ScriptedRuntime(features=[]) as runtime:
        found = await examine(runtime)
    assert verdicts(found)["ping"] == verdicts(found)["listing"] == "not offered"
    assert found.conforms


async def test_what_is_not_answered_is_broken() -> None:
    answers = {
        "session.ping": [Withhold()] * 9,
        "session.list_jobs": [Withhold()],
        "job.submit": [Withhold()],
    }
    async with ScriptedRuntime(answers=answers) as runtime:
        found = await examine(runtime, patience=0.4)
    assert verdicts(found) == {
        **dict.fromkeys(["ping", "listing", "refused submit"], "broken"),
        **dict.fromkeys(["handshake", "resume", "close"], "ok"),
        **dict.fromkeys(NOT_EXAMINED, "not examined"),
    }
    assert not found.conforms


async def test_another_code_for_an_unknown_agent_deviates() -> None:
    async with ScriptedRuntime(answers={"job.submit": [Refuse("NO_SUCH_THING")]}) as runtime:
        found = await examine(runtime)
    (odd,) = [finding for finding in found.findings if finding.verdict == "deviates"]
    assert "NO_SUCH_THING" in odd.seen


async def test_an_agent_that_cannot_exist_and_is_accepted_is_broken_and_cancelled() -> None:
    name = "arcp-client-doctor-asks-for-nobody"
    async with ScriptedRuntime(agents={name: []}, features=["ack"]) as runtime:
        found = await examine(runtime)
    assert verdicts(found)["refused submit"] == "broken"


async def test_a_session_that_cannot_be_resumed_is_broken() -> None:
    async with ScriptedRuntime() as runtime:
        gone = {"code": "RESUME_WINDOW_EXPIRED", "message": "gone"}
        runtime.next("session.hello", None, Raw({"type": "session.error", "payload": gone}))
        found = await examine(runtime)
    assert verdicts(found)["resume"] == "broken"


async def test_without_a_session_there_is_nothing_to_examine() -> None:
    async with ScriptedRuntime(tokens=["other"]) as runtime:
        with pytest.raises(Unauthenticated):
            await examine(runtime, token=TOKEN)
    async with ScriptedRuntime("legacy") as runtime:
        with pytest.raises(ConnectFailed, match=r"session\.rejected"):
            await examine(runtime, token=TOKEN)
