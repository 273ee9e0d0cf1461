"""Agents that declare the schema of their input: what is refused, and what clients are told."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from pydantic import BaseModel, Field, TypeAdapter

from arcp_client import AgentDeclaration, Client, events
from arcp_client._wire.codec import snapshot
from arcp_client.errors import InvalidInput, InvalidRequest, JobFailed
from arcp_client.runtime import JobContext, Runtime
from arcp_client.runtime._agents.input_schema import input_schema
from arcp_client.runtime._agents.registry import MOST_DECLARED


class File(BaseModel):
    name: str
    size: int = Field(default=0, ge=0)


class Report(BaseModel):
    title: str
    due: date | None = None
    files: list[File] = []


SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 3},
        "level": {"enum": ["low", "high"]},
        "files": {"type": "array", "items": {"$ref": "#/$defs/file"}},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {
        "file": {
            "type": "object",
            "properties": {"name": {"type": "string"}, "size": {"type": "integer", "minimum": 0}},
            "required": ["name"],
        }
    },
}


def reporting(runtime: Runtime, declared: Any) -> list[Any]:
    """Register an agent that notes what it is called with."""
    calls: list[Any] = []

    @runtime.agent("report", input_schema=declared, description="Writes a report.")
    async def report(input: Any, job: JobContext) -> str:
        calls.append((input, job.input))
        return "done"

    return calls


async def refused(client: Client, input: Any) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        await client.submit("report", input)
    return caught.value


async def test_an_agent_with_a_model_gets_an_instance_of_it(runtime: Runtime) -> None:
    calls = reporting(runtime, Report)
    given = {"title": "May", "due": "2026-05-31", "files": [{"name": "a"}]}
    async with Client(runtime) as client:
        job = await client.submit("report", given)
        assert (await job.result()).value == "done"
    ((typed, raw),) = calls
    assert typed == Report(title="May", due=date(2026, 5, 31), files=[File(name="a")])
    assert raw == given


async def test_an_agent_with_a_json_schema_gets_the_input_unchanged(runtime: Runtime) -> None:
    calls = reporting(runtime, SCHEMA)
    given = {"title": "May", "files": [{"name": "a", "size": 2}]}
    async with Client(runtime) as client:
        job = await client.submit("report", given)
        await job.result()
    assert calls == [(given, given)]


@pytest.mark.parametrize("declared", [Report, SCHEMA], ids=["model", "json-schema"])
@pytest.mark.parametrize(
    ("input", "field"),
    [
        ({"title": "May", "files": [{"name": "a"}, {"name": "b", "size": -1}]}, "files[1].size"),
        ({"title": "May", "files": [{"size": 1}]}, "files[0].name"),
        ({}, "title"),
        ({"title": 5}, "title"),
        ({"title": "May", "files": "a"}, "files"),
        (["May"], ""),
        (None, ""),
    ],
)
async def test_a_refusal_names_the_field(
    runtime: Runtime, declared: Any, input: Any, field: str
) -> None:
    calls = reporting(runtime, declared)
    async with Client(runtime) as client:
        error = await refused(client, input)
        assert list(error.fields) == [field]
        assert error.fields[field] in error.message
        assert isinstance(error, InvalidRequest)
        assert error.code == "INVALID_REQUEST"
        assert not error.retryable
        assert [job async for job in client.jobs()] == []
    assert not calls


@pytest.mark.parametrize(
    ("input", "text"),
    [
        ({"title": "ab"}, "it must have at least 3 characters"),
        ({"title": "May", "level": "s3cret"}, 'it must be one of ["low", "high"]'),
        ({"title": "May", "s": 1}, "these fields are not allowed: s"),
        ({"title": ["s3cret"]}, 'it must be of type "string"'),
        ({"title": "May", "files": [{"name": "a", "size": -7}]}, "it must be at least 0"),
    ],
)
def test_the_text_of_a_refusal_says_what_is_right_and_never_the_value(
    input: Any, text: str
) -> None:
    with pytest.raises(InvalidInput) as caught:
        input_schema(SCHEMA).check(bytes(snapshot(input)))
    assert text in caught.value.message
    assert "s3cret" not in str(caught.value)


async def test_every_invalid_field_is_named_and_their_number_is_bounded(runtime: Runtime) -> None:
    reporting(runtime, Report)
    async with Client(runtime) as client:
        error = await refused(client, {"title": 1, "files": [{"name": 1}] * 30})
    assert len(error.fields) == 20
    assert set(error.fields) > {"title", "files[0].name"}
    assert "(and 30 more)" in error.message


async def test_a_refused_key_can_be_used_again(runtime: Runtime) -> None:
    reporting(runtime, Report)
    async with Client(runtime) as client:
        with pytest.raises(InvalidInput):
            await client.submit("report", {}, idempotency_key="k")
        job = await client.submit("report", {"title": "May"}, idempotency_key="k")
        await job.result()


async def test_a_delegation_is_validated_too(runtime: Runtime) -> None:
    reporting(runtime, Report)
    seen: list[InvalidInput] = []

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> Any:
        try:
            await job.delegate("report", {"title": 1})
        except InvalidInput as error:
            seen.append(error)
        return await (await job.delegate("report", Report(title="May"))).result()

    async with Client(runtime) as client:
        job = await client.submit("parent", lease={"agent.delegate": ["*"]})
        assert (await job.result()).value == "done"
    assert list(seen[0].fields) == ["title"]


async def test_clients_learn_schema_and_description_of_each_version(runtime: Runtime) -> None:
    for version, declared, text in (("2", Report, "new"), ("1", None, None), ("3", int, None)):
        runtime.agent(
            "r", version, default=version == "2", input_schema=declared, description=text
        )(lambda input, job: None)
    async with Client(runtime) as client:
        (info,) = client.session.agents
    assert info.declaration() == info.declaration("2")
    assert info.declaration().description == "new"
    assert info.declaration().input_schema == Report.model_json_schema()
    assert info.declaration("3") == AgentDeclaration("3", None, {"type": "integer"})
    assert info.declaration("1") == AgentDeclaration("1")
    assert hash(info) == hash(info)


async def test_an_agent_that_declares_nothing_is_listed_as_the_specification_says(
    runtime: Runtime, open_peer: Any
) -> None:
    runtime.agent("plain", "1.0")(lambda input, job: None)
    runtime.agent("bare")(lambda input, job: None)
    peer = await open_peer(runtime)
    assert peer.welcome["payload"]["capabilities"]["agents"] == [
        {"name": "plain", "versions": ["1.0"], "default": "1.0"},
        {"name": "bare", "versions": []},
    ]


async def test_a_declaration_is_one_more_member_of_the_entry(
    runtime: Runtime, open_peer: Any
) -> None:
    reporting(runtime, int)
    peer = await open_peer(runtime)
    (entry,) = peer.welcome["payload"]["capabilities"]["agents"]
    assert entry == {
        "name": "report",
        "versions": [],
        "x-vendor.arcp-client.declarations": [
            {"description": "Writes a report.", "input_schema": {"type": "integer"}}
        ],
    }


@dataclass
class Point:
    x: int


@pytest.mark.parametrize(
    "declared", [Point, TypeAdapter(list[int]), dict[str, int], int | None], ids=str
)
def test_any_type_that_pydantic_validates_is_a_schema(declared: Any) -> None:
    assert input_schema(declared).wire


@pytest.mark.parametrize("declared", ["int", 5, object(), lambda: None])
def test_other_values_are_refused(runtime: Runtime, declared: Any) -> None:
    with pytest.raises(TypeError, match="input_schema must be a JSON Schema"):
        runtime.agent("a", input_schema=declared)


@pytest.mark.parametrize(
    ("declared", "text"),
    [
        ({"type": "strin"}, "no valid JSON Schema: type:"),
        ({"properties": {"a": {"minimum": "x"}}}, "no valid JSON Schema: properties.a.minimum:"),
        ({"$ref": "https://example.com/s.json"}, "which is not a part of it"),
        ({"const": {1, 2}}, "no JSON"),
    ],
)
def test_a_wrong_json_schema_is_refused_when_the_agent_is_registered(
    runtime: Runtime, declared: Any, text: str
) -> None:
    with pytest.raises(ValueError, match=text):
        runtime.agent("a", input_schema=declared)


def test_declarations_are_bounded(runtime: Runtime) -> None:
    text = "x" * (MOST_DECLARED // 2)
    runtime.agent("a", description=text)(lambda input, job: None)
    with pytest.raises(ValueError, match="agent b: the descriptions and input schemas"):
        runtime.agent("b", description=text)(lambda input, job: None)


def test_a_json_schema_without_jsonschema_says_what_to_install(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jsonschema", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'arcp-client\[schema\]'"):
        runtime.agent("a", input_schema=SCHEMA)
    runtime.agent("b", input_schema=Report)


def test_an_input_that_is_nested_too_deeply_is_refused() -> None:
    tree = {"$ref": "#/$defs/t", "$defs": {"t": {"items": {"$ref": "#/$defs/t"}}}}
    with pytest.raises(InvalidInput, match="nested too deeply"):
        input_schema(tree).check(b"[" * 700 + b"]" * 700)


async def test_a_parent_that_does_not_catch_the_refusal_fails(runtime: Runtime) -> None:
    reporting(runtime, Report)

    @runtime.agent("parent")
    async def parent(input: Any, job: JobContext) -> None:
        await job.delegate("report", {})

    async with Client(runtime) as client:
        job = await client.submit("parent", lease={"agent.delegate": ["*"]})
        with pytest.raises(JobFailed, match="the agent failed"):
            await job.result()
        assert [event async for event in job.events(events.Failed)]
