"""The subset of JSON Schema: what fits, what does not, and why."""

from __future__ import annotations

import dataclasses
import enum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, ValidationError

from arcp_client._schema import check_schema, fault_in, schema_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Step(BaseModel):
    name: Annotated[str, Field(min_length=1, max_length=8, pattern="^[a-z]+$")]
    cost: Annotated[float, Field(ge=0, lt=100)] = 0
    then: Step | None = None


class Plan(BaseModel):
    model_config = {"extra": "forbid"}

    approve: bool
    colour: Colour = Colour.RED
    steps: Annotated[list[Step], Field(max_length=3)] = []
    pair: tuple[int, str] | None = None
    choice: Literal["a", 1, None] = None


@dataclasses.dataclass
class Point:
    x: int
    y: int


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "abc", "A", "red", ""]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["approve", "colour", "steps", "pair", "choice", "name", "cost", "x"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@pytest.mark.parametrize("kind", [Plan, Point, bool, int, Literal["a", 1], list[str], Colour])
@given(value=JSON)
def test_what_the_type_refuses_the_schema_refuses_first(kind: Any, value: Any) -> None:
    schema, adapter = schema_of(kind)
    assert adapter is not None
    if fault_in(schema, value) is None:
        try:
            adapter.validate_python(value)
        except ValidationError as error:  # the schema cannot say that 1.5 ends in a fraction, say
            raise AssertionError(f"the schema let {value!r} through: {error}") from error


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ({"type": "string"}, 1, "$: must be of type string"),
        ({"type": ["string", "null"]}, 1, "$: must be of type string or null"),
        ({"type": "integer"}, True, "$: must be of type integer"),
        ({"type": "integer"}, 1.5, "$: must be of type integer"),
        ({"enum": [1, "a"]}, True, '$: must be one of [1, "a"]'),
        ({"const": 0}, False, "$: must be 0"),
        ({"required": ["a"]}, {}, "$.a: is missing"),
        ({"properties": {"a": {"type": "null"}}}, {"a": 1}, "$.a: must be of type null"),
        ({"additionalProperties": False}, {"a": 1}, "$.a: is not a field of this object"),
        ({"items": {"type": "null"}}, [None, 1], "$[1]: must be of type null"),
        ({"prefixItems": [{"const": 1}], "items": False}, [1, 2], "$[1]: no value is allowed here"),
        ({"minItems": 1}, [], "$: must have at least 1 items"),
        ({"uniqueItems": True}, [1, 1], "$: must not have an item twice"),
        ({"maxLength": 1}, "ab", "$: must have at most 1 characters"),
        ({"pattern": "^a"}, "ba", "$: must match ^a"),
        ({"exclusiveMinimum": 1}, 1, "$: must be more than 1"),
        ({"multipleOf": 0.1}, 0.25, "$: must be a multiple of 0.1"),
        ({"anyOf": [{"type": "null"}, {"items": {"const": 1}, "type": "array"}]}, [2], "$[0]"),
        ({"oneOf": [{"type": "integer"}, {"type": "number"}]}, 1, "exactly one"),
        ({"allOf": [{"type": "integer"}, {"minimum": 2}]}, 1, "$: must be at least 2"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"const": 1}}}, 2, "$: must be 1"),
        (False, 1, "$: no value is allowed here"),
    ],
)
def test_a_value_that_does_not_fit_is_told_where_and_why(schema: Any, value: Any, why: str) -> None:
    check_schema(schema)
    assert why in str(fault_in(schema, value))


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"not": {}}, "schema: the keyword 'not' is not supported"),
        ({"properties": {"a": {"if": {}}}}, "schema.properties.a: the keyword 'if'"),
        ({"type": "date"}, "schema.type: not a valid value"),
        ({"pattern": "("}, "schema.pattern: not a valid value"),
        ({"$ref": "#/$defs/a"}, "names nothing in $defs"),
        ({"$ref": "https://example.org/a"}, "names nothing in $defs"),
        ({"anyOf": [3]}, "schema.anyOf[0]: a JSON Schema is an object"),
        ([], "schema: a JSON Schema is an object"),
    ],
)
def test_a_schema_that_cannot_be_checked_whole_is_refused(schema: Any, why: str) -> None:
    with pytest.raises(ValueError, match=r".") as caught:
        check_schema(schema)
    assert why in str(caught.value)


def test_a_schema_that_refers_to_itself_ends() -> None:
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 4}}}
    check_schema(schema)
    assert "too large or too deeply nested" in str(fault_in(schema, 1))


def test_a_type_without_a_schema_is_refused() -> None:
    with pytest.raises(TypeError, match="has no JSON Schema"):
        schema_of(object())
