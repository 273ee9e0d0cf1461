"""A runtime is added with one dialect in the registry: everything that names runtimes finds it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

import arcp_client
from arcp_client import Client, events
from arcp_client._dialects import DIALECTS, SPECIFICATION, Deviation, Dialect, Forms, recognise
from arcp_client._dialects.own import Own
from arcp_client._protocol.peer import Peer
from arcp_client.cli.actions.diagnosis import examine
from arcp_client.testing import ScriptedRuntime
from arcp_client.testing.scripted import Emit, Finish


class MadeUp(Dialect):
    """A runtime that does not exist."""

    name: ClassVar[str] = "made-up"
    title: ClassVar[str] = "Made-up"
    mark: ClassVar[str] = "the resume token begins `zz_`"
    deviations: ClassVar[tuple[Deviation, ...]] = (
        Deviation("histories", "§7.6", "a history is sung", "listens"),
        Deviation("leases", "§9", "leases are granted on Mondays", "waits"),
    )
    forms: ClassVar[Forms] = Forms(token="zz_", result_name="output", loud_levels=True)

    @classmethod
    def wrote(cls, welcome: Mapping[str, Any], envelope_id: str) -> bool:
        return str(welcome.get("resume_token")).startswith("zz_")


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(DIALECTS, MadeUp.name, MadeUp)


@pytest.mark.usefixtures("registered")
async def test_a_registered_dialect_is_played_and_recognised() -> None:
    agents = {"say": [Emit("log", {"level": "info", "message": "hm"}), Finish("done")]}
    async with ScriptedRuntime("made-up", agents=agents) as runtime, Client(runtime) as client:
        assert client.session.dialect == "made-up"
        job = await client.submit("say")
        assert [event.level async for event in job.events(events.Log)] == ["info"]
        assert (await job.result()).value == "done"
        (end,) = [f for f in runtime.said if isinstance(f, dict) and f["type"] == "job.result"]
        assert end["payload"]["output"] == "done"


@pytest.mark.usefixtures("registered")
async def test_doctor_says_what_the_file_of_a_registered_dialect_says() -> None:
    async with ScriptedRuntime("made-up") as runtime:
        found = await examine(runtime)
    assert found.mark == MadeUp.mark
    odd = {f.capability: f for f in found.findings if f.verdict == "deviates"}
    assert list(odd) == ["histories", "leases"]
    for known in MadeUp.deviations:
        finding = odd[known.capability]
        assert (finding.section, finding.remedy) == (known.section, known.remedy)
        assert finding.seen.endswith(known.seen)


@pytest.mark.usefixtures("registered")
async def test_a_client_may_be_told_a_registered_dialect() -> None:
    async with ScriptedRuntime() as runtime, Client(runtime, dialect="made-up") as client:
        await client.ping()


def test_every_dialect_describes_itself() -> None:
    for name, kind in DIALECTS.items():
        assert kind.name == name
        assert kind.title
        assert kind.mark
        named = [deviation.capability for deviation in kind.deviations]
        assert len(named) == len(set(named))
        assert all(part for deviation in kind.deviations for part in deviation)


def test_only_the_fallback_is_recognised_by_nothing() -> None:
    assert recognise({}, "") is SPECIFICATION
    assert SPECIFICATION.wrote({}, "") is False


def test_the_fallback_treats_a_runtime_as_the_protocol_does_by_itself() -> None:
    own = {name for name in vars(SPECIFICATION) if not name.startswith("_")}
    assert own == {"title", "mark"}
    assert SPECIFICATION.name == Peer.name


def test_no_other_module_names_a_runtime() -> None:
    words = {word for kind in DIALECTS.values() for word in (kind.name, kind.title)}
    words -= {"go", "Go", "python", "Python"}  # these have other meanings
    words -= {Own.name, Own.title, SPECIFICATION.name, SPECIFICATION.title}
    assert {"csharp", "C#", "Java", "ruby", "TypeScript"} <= words
    pattern = re.compile("|".join(rf"(?<!\w){re.escape(word)}(?!\w)" for word in sorted(words)))
    package = Path(arcp_client.__file__).parent
    found = {
        str(path.relative_to(package)): sorted(set(pattern.findall(path.read_text("utf-8"))))
        for path in package.rglob("*.py")
        if "_dialects" not in path.parts and pattern.search(path.read_text("utf-8"))
    }
    assert found == {}
