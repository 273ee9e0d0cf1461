"""Agents as tools: names that MCP allows, and schemas that begin with an object."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest

pytest.importorskip("mcp")

from arcp_client import AgentDeclaration, AgentInfo
from arcp_client.errors import AgentNotFound
from arcp_client.mcp._tools import agent_tools


def tool_for(schema: Any, name: str = "a") -> Any:
    (tool,) = agent_tools(
        [AgentInfo(name, declarations=(AgentDeclaration(None, None, schema),))]
    ).values()
    return tool


def test_the_schema_of_an_object_is_that_of_the_tool() -> None:
    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}
    tool = tool_for(schema)
    assert tool.tool.input_schema == schema
    assert tool.input_of({"x": 1}) == {"x": 1}
    assert tool.input_of(None) == {}


NODE = {
    "$ref": "#/$defs/node",
    "$defs": {
        "node": {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/node"}, "v": {"type": "integer"}},
        }
    },
}


def test_a_reference_to_an_object_is_an_object() -> None:
    tool = tool_for(NODE)
    assert tool.tool.input_schema["type"] == "object"
    assert not tool.wrapped


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, 5, "5"),
        ({"type": "array", "items": {"$ref": "#/$defs/n"}, "$defs": NODE["$defs"] | {
            "n": {"$ref": "#/$defs/node"}}}, [{"v": 1, "next": {"v": 2}}], [{"next": {"v": "2"}}]),
        ({"anyOf": [{"type": "null"}, {"items": {"$ref": "#"}, "type": "array"}]}, [[None]], [[1]]),
        ({"enum": [{"$ref": "#/x"}, 1]}, {"$ref": "#/x"}, 2),
    ],
    ids=["plain", "definitions", "recursive", "data"],
)  # fmt: skip
def test_any_other_schema_is_that_of_the_argument_input(schema: Any, good: Any, bad: Any) -> None:
    tool = tool_for(schema)
    assert tool.wrapped
    assert tool.input_of({"input": good}) == good
    check = jsonschema.Draft202012Validator(tool.tool.input_schema)
    assert check.is_valid({"input": good})
    assert not check.is_valid({"input": bad})
    assert not check.is_valid({})


def test_names_are_those_that_mcp_allows_and_never_clash() -> None:
    infos = [AgentInfo("job_status"), AgentInfo("a.b-c"), AgentInfo("x" * 200)]
    tools = agent_tools([*infos, AgentInfo("x" * 201)])
    assert [name for name in tools if len(name) < 50] == ["job_status-agent", "a.b-c"]
    assert tools["job_status-agent"].agent == "job_status"
    assert len(tools) == 4
    assert all(len(name) <= 128 for name in tools)


def test_a_description_says_which_versions_there_are() -> None:
    info = AgentInfo("a", ("1", "2"), "2", (AgentDeclaration("2", "Does it."),))
    assert agent_tools([info])["a"].tool.description == "Does it. Versions: 1, 2, by default 2."
    assert agent_tools([info], ["a@1"])["a_1"].tool.description == "Runs the agent a@1."


@pytest.mark.parametrize("wanted", ["b", "a@3"])
def test_an_agent_that_the_runtime_does_not_have_is_not_offered(wanted: str) -> None:
    with pytest.raises(AgentNotFound, match=f"{wanted} is not an agent"):
        agent_tools([AgentInfo("a", ("1",))], [wanted])
