"""The generated types: tolerant of what agents make of the schema, and made from that one."""

from __future__ import annotations

import json
import subprocess
import sys
import typing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arcp_client.acp import schema, updates
from arcp_client.acp._base import Origin, Unknown, Update
from arcp_client.acp._decode import Misshapen, as_json, decode, update_of

ROOT = Path(__file__).parents[3]
NPM_SDK = ROOT / "build" / "npm" / "node_modules" / "@agentclientprotocol" / "sdk"
WHERE = Origin("s1", 1, False)


def received(update: Any) -> Any:
    line = {"method": "session/update", "params": {"sessionId": "s1", "update": update}}
    return update_of((json.dumps(line).encode(), WHERE))


def test_the_files_are_what_the_script_makes_of_the_schemas(tmp_path: Path) -> None:
    if not NPM_SDK.exists():
        pytest.skip(f"the npm SDK is not in {NPM_SDK}: `make npm` puts it there")
    pytest.importorskip("ruff", reason="the script formats the file with ruff")
    path = ROOT / "arcp_client" / "acp" / "schema.py"
    script = ROOT / "scripts" / "generate_acp_types.py"
    code = (
        f"import runpy, sys, pathlib; sys.argv = ['x', {str(NPM_SDK)!r}];"
        f"m = runpy.run_path({str(script)!r});"
        f"m['main'].__globals__['OUT'] = pathlib.Path({str(tmp_path / 'schema.py')!r});"
        "m['main']()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
    for name in ("schema.py", "schema_v2.py"):
        assert (tmp_path / name).read_text() == path.with_name(name).read_text()


def test_every_class_can_be_decoded() -> None:
    sent = {"McpServer", "NewSessionRequest", "LoadSessionRequest"}
    sent |= {"ResumeSessionRequest", "ForkSessionRequest"}
    for name in schema.__all__:
        value = getattr(schema, name)
        if isinstance(value, type) and issubclass(value, msgspec.Struct) and name not in sent:
            msgspec.json.Decoder(value)


def test_open_enumerations_keep_what_they_do_not_know() -> None:
    call = received(
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "T",
            "kind": "teleport",
            "status": "wandering",
        }
    )
    assert (call.kind, call.status) == ("teleport", "wandering")
    entry = {"content": "x", "priority": "cosmic", "status": "unsure"}
    plan = received({"sessionUpdate": "plan", "entries": [entry]})
    assert plan.entries[0].priority == "cosmic"


def test_unknown_variants_inside_of_values_are_kept() -> None:
    call = received(
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "T",
            "content": [
                {"type": "hologram", "x": 1},
                {"type": "diff", "path": "p", "newText": "n"},
            ],
        }
    )
    unknown, diff = call.content
    assert isinstance(unknown, Unknown)
    assert (unknown.kind, unknown.raw) == ("hologram", {"type": "hologram", "x": 1})
    assert diff == schema.Diff(path="p", new_text="n")
    slider = {"id": "t", "name": "T", "type": "slider", "currentValue": 5}
    options = received({"sessionUpdate": "config_option_update", "configOptions": [slider]})
    assert options.config_options[0].raw == slider


def test_an_authentication_without_a_type_is_the_agents_and_an_unknown_type_is_kept() -> None:
    methods = [
        {"id": "a", "name": "A"},
        {"type": "env_var", "id": "e", "name": "E", "vars": []},
        {"type": "terminal", "id": "t", "name": "T"},
    ]
    answer = {"protocolVersion": 1, "authMethods": methods}
    agent, unknown, terminal = decode(
        schema.InitializeResponse, json.dumps(answer).encode()
    ).auth_methods
    assert isinstance(agent, schema.AuthMethodAgent)
    assert isinstance(unknown, schema.UnknownAuthMethod)
    assert unknown.raw == methods[1]
    assert isinstance(terminal, schema.AuthMethodTerminal)


def test_a_known_kind_of_another_shape_is_kept_as_unknown(caplog: Any) -> None:
    odd = received({"sessionUpdate": "tool_call", "toolCallId": 5})
    assert isinstance(odd, updates.Unknown)
    assert odd.kind == "tool_call"
    assert odd.raw == {"sessionUpdate": "tool_call", "toolCallId": 5}
    assert "toolCallId" in caplog.text


def test_nulls_and_wrong_optional_fields_cost_only_themselves() -> None:
    call = received(
        {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "T",
            "kind": None,
            "status": 7,
            "locations": [{"path": "/a", "line": "x"}, 5, {"path": "/b", "line": 3.0}],
        }
    )
    assert call.status is None
    assert call.locations == [
        schema.ToolCallLocation(path="/a"),
        schema.ToolCallLocation(path="/b", line=3),
    ]


def test_a_required_field_that_is_missing_is_an_error_with_its_place() -> None:
    with pytest.raises(Misshapen, match=r"stopReason is missing at \$"):
        decode(schema.PromptResponse, b"{}")
    with pytest.raises(Misshapen):
        decode(schema.PromptResponse, b"nonsense")
    assert decode(schema.LoadSessionResponse, b"null") == schema.LoadSessionResponse()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@given(data=st.data())
def test_any_update_with_any_fields_becomes_an_update(data: st.DataObject) -> None:
    kind: Any = data.draw(st.sampled_from(schema.UPDATES))
    fields = msgspec.structs.fields(kind)
    update = {
        field.encode_name: data.draw(JSON) for field in fields if data.draw(st.integers(0, 3))
    }
    update["sessionUpdate"] = msgspec.inspect.type_info(kind).tag  # type: ignore[attr-defined]
    made = received(update)
    assert isinstance(made, Update)
    assert isinstance(made, kind | updates.Unknown)
    assert made.raw == update
    if isinstance(made, kind):
        assert received(json.loads(as_json(made))) == made


def test_a_number_beyond_all_bounds_makes_an_update_without_raw() -> None:
    line = b'{"params":{"sessionId":"s","update":{"sessionUpdate":"x","n":1e999}}}'
    assert update_of((line, WHERE)).raw is None


def test_what_is_made_by_hand_goes_out_and_comes_back() -> None:
    chunk = updates.AgentMessageChunk(content=updates.Text(text="hi"))
    assert chunk.origin == ("", None, False)
    assert chunk.raw is None
    assert received(json.loads(as_json(chunk))) == chunk
    with pytest.raises(AttributeError):
        chunk.content = None  # type: ignore[misc, assignment]


def test_all_updates_have_a_name_in_the_module_of_updates() -> None:
    names = {getattr(updates, name) for name in updates.__all__}
    assert set(schema.UPDATES) <= names
    assert set(typing.get_args(schema.SessionUpdate)) <= names


def test_the_front_door_knows_its_names() -> None:
    from arcp_client import acp

    assert sorted(acp.__all__) == list(acp.__all__)
    assert set(dir(acp)) == set(acp.__all__)
    for name in acp.__all__:
        assert getattr(acp, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = acp.nothing
