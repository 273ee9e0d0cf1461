"""The arguments of `JobContext.ask`: which questions are the same, and what is kept for later."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from arcp_client.runtime._dialogue.asked import MISSING, Asked


def of(text: str = "Deploy?", **arguments: Any) -> Asked:
    usual = {"schema": None, "options": (), "default": MISSING, "to": None, "key": None}
    return Asked.of(text, **(usual | arguments))


class Plan(BaseModel):
    approve: bool


class Opaque:
    pass


OBJECT = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
TURNED = {"properties": {"b": {"type": "integer"}, "a": {"type": "string"}}, "type": "object"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"schema": {"type": "string"}}),
        ({}, {"schema": str}),
        ({"options": ["yes", "no"]}, {"options": ("yes", "no")}),
        ({"options": ["yes"]}, {"options": iter(["yes"])}),
        ({"options": [{"a": 1, "b": 2}]}, {"options": [{"b": 2, "a": 1}]}),
        ({"schema": OBJECT}, {"schema": TURNED}),
        ({"to": "alice"}, {"to": ["alice"]}),
    ],
)
def test_equal_arguments_ask_the_same_question(one: Any, other: Any) -> None:
    assert of(**one).fingerprint == of(**other).fingerprint


def test_other_arguments_ask_another_question() -> None:
    each: list[dict[str, Any]] = [
        {},
        {"text": "Deploy it?"},
        {"options": ["yes", "no"]},
        {"options": ["no", "yes"]},
        {"options": [("yes", "Yes, deploy"), "no"]},
        {"options": ["1", "0"]},
        {"options": [1, 0]},
        {"options": [1.0, 0.0]},
        {"options": [True, False]},
        {"schema": bool},
        {"schema": int},
        {"schema": Plan},
        {"schema": Literal["yes", "no"]},
        {"schema": Literal["no", "yes"]},
        {"schema": Literal[1]},
        {"schema": Literal[True]},
        {"schema": OBJECT},
        {"to": "alice"},
        {"to": ["alice", "bob"]},
        {"text": 'Deploy?",["alice"]', "to": []},
    ]
    for _ in range(2):  # the second time with what was kept
        assert len({of(**arguments).fingerprint for arguments in each}) == len(each)


@pytest.mark.parametrize("options", [[True, 1], ["1", 1], [1, 1.5, None, {"a": []}]])
def test_options_that_differ_in_json_are_different_options(options: list[Any]) -> None:
    for _ in range(2):
        asked = of(options=options)
        assert asked.form.options is not None
        given = [choice["value"] for choice in json.loads(asked.form.options)]
        assert list(map(repr, given)) == list(map(repr, options))
        assert json.loads(asked.form.schema) == {"enum": given}


@pytest.mark.parametrize("text", ["Is it 5 €?", "\x00\x1f", "\ud800 alone"])
def test_any_text_is_an_option(text: str) -> None:
    asked = of(text, options=[text, "no"])
    assert asked.form.options is not None
    assert json.loads(asked.form.options) == [{"value": text}, {"value": "no"}]
    assert asked.form.converter.fault(text) is None


def test_invalid_options_are_refused_each_time() -> None:
    for _ in range(2):
        with pytest.raises(ValueError, match="the same value appears twice"):
            of(options=["yes", "yes"])
        with pytest.raises(TypeError, match="has no JSON Schema"):
            of(schema=Opaque)


def test_the_schema_of_a_class_is_made_once() -> None:
    assert of(schema=Plan).form.converter is of("Again?", schema=Plan).form.converter


def test_a_class_of_the_same_name_has_a_schema_of_its_own() -> None:
    def model(kind: Any) -> type[BaseModel]:
        return type("Plan", (BaseModel,), {"__annotations__": {"approve": kind}})

    assert of(schema=model(bool)).form.schema != of(schema=model(int)).form.schema


def test_long_options_are_not_kept() -> None:
    options = ["a" * 1000, "b" * 1000]
    converter = weakref.ref(of(options=options).form.converter)
    gc.collect()
    assert converter() is None


def test_the_size_covers_the_text_the_answers_and_the_default() -> None:
    asked = of("a" * 1000, options=["b" * 100], default="b" * 100, to="c" * 50)
    assert asked.form.options is not None
    assert asked.default is not None
    sizes = len(asked.form.schema) + len(asked.form.options) + len(asked.default)
    assert 1050 + sizes <= asked.size <= 1060 + sizes
