"""Checks JSON values against a JSON Schema, and makes schemas from Python types.

The subset of JSON Schema (2020-12) is the one of the page "Extensions of the protocol": all that
pydantic makes for ordinary models. A schema with another keyword is refused when the question is
asked, so no part of a schema is ignored silently.
"""

from __future__ import annotations

import json
import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema

__all__ = ["Mismatch", "check_schema", "fault_in", "schema_of"]

_DEEPEST = 32
_STEPS = 10_000
"""Most checks of one value: `anyOf` inside `$ref` could otherwise take exponential time."""

_ANNOTATIONS: Final = frozenset(
    {
        *("$schema", "$id", "$comment", "$defs", "title", "description", "default", "examples"),
        *("format", "deprecated", "readOnly", "writeOnly", "discriminator"),
        *("contentEncoding", "contentMediaType"),
    }
)
_TYPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "number": lambda value: _is_number(value),
    "integer": lambda value: _is_number(value) and float(value).is_integer(),
}


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Why a value does not fit a schema: ``path``, such as ``$.files[2]``, and what is expected."""

    path: str
    expected: str

    def __str__(self) -> str:
        return f"{self.path}: {self.expected}"


def schema_of(kind: Any) -> tuple[dict[str, Any], TypeAdapter[Any] | None]:
    """Return the JSON Schema of a type, and what converts values to the type.

    Args:
        kind: a JSON Schema as a dict, or anything that pydantic makes one of: a model, a
            dataclass, ``Literal``, an enum, ``int``, ``list[str]``.

    Raises:
        TypeError: there is no JSON Schema for the type.
        ValueError: the schema is not valid; see `check_schema`.
    """
    if isinstance(kind, Mapping):
        schema, adapter = dict(kind), None
    else:
        try:
            adapter = TypeAdapter(kind)
            schema = adapter.json_schema()
        except (
            PydanticSchemaGenerationError,
            PydanticInvalidForJsonSchema,
            PydanticUserError,
        ) as error:
            reason = str(error).partition("\n")[0]
            raise TypeError(f"schema: {kind!r:.80} has no JSON Schema: {reason[:200]}") from error
    check_schema(schema)
    return schema, adapter


def check_schema(schema: Any) -> None:
    """Check that a schema has only the keywords that `fault_in` implements.

    Raises:
        ValueError: the message names the place and the keyword.
    """
    for place, part in _parts(schema, "schema", 0):
        if isinstance(part, bool):
            continue
        if not isinstance(part, dict):
            raise ValueError(f"{place}: a JSON Schema is an object or a boolean")
        for name, value in part.items():
            if name in _ANNOTATIONS:
                continue
            shape = _SHAPES.get(name)
            if shape is None:
                raise ValueError(f"{place}: the keyword {name!r:.60} is not supported")
            if not shape(value):
                raise ValueError(f"{place}.{name}: not a valid value of this keyword")
            if name == "$ref" and _resolve(schema, value) is None:
                raise ValueError(f"{place}.$ref: {value!r:.80} names nothing in $defs")


def _parts(schema: Any, place: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield each schema inside a schema, with its place."""
    if depth > _DEEPEST:
        raise ValueError(f"{place}: nested too deeply")
    yield place, schema
    if not isinstance(schema, dict):
        return
    for name in ("properties", "$defs"):
        inner = schema.get(name)
        if isinstance(inner, dict):
            for key, value in inner.items():
                yield from _parts(value, f"{place}.{name}.{key:.60}", depth + 1)
    for name in ("anyOf", "oneOf", "allOf", "prefixItems"):
        inner = schema.get(name)
        if isinstance(inner, list):
            for at, value in enumerate(inner):
                yield from _parts(value, f"{place}.{name}[{at}]", depth + 1)
    for name in ("items", "additionalProperties"):
        if name in schema:
            yield from _parts(schema[name], f"{place}.{name}", depth + 1)


def fault_in(schema: Any, value: Any) -> Mismatch | None:
    """Return the first reason why a value does not fit a checked schema; ``None`` if it fits."""
    return _Check(schema).fault(schema, value, "$", 0)


class _Check:
    def __init__(self, root: Any) -> None:
        self._root = root
        self._steps = 0

    def fault(self, schema: Any, value: Any, path: str, depth: int) -> Mismatch | None:
        self._steps += 1
        if self._steps > _STEPS or depth > 4 * _DEEPEST:
            return Mismatch(path, "too large or too deeply nested to be checked")
        if isinstance(schema, bool):
            return None if schema else Mismatch(path, "no value is allowed here")
        if "$ref" in schema:
            target = _resolve(self._root, schema["$ref"])
            found = self.fault(target, value, path, depth + 1)
            if found is not None:
                return found
        kinds = schema.get("type")
        if kinds is not None:
            kinds = [kinds] if isinstance(kinds, str) else kinds
            if not any(_TYPES[kind](value) for kind in kinds):
                return Mismatch(path, f"must be of type {' or '.join(kinds)}")
        if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
            return Mismatch(path, f"must be one of {_shown(schema['enum'])}")
        if "const" in schema and not _same(value, schema["const"]):
            return Mismatch(path, f"must be {_shown(schema['const'])}")
        own = None
        if isinstance(value, dict):
            own = self._object(schema, value, path, depth)
        elif isinstance(value, list):
            own = self._array(schema, value, path, depth)
        elif isinstance(value, str):
            own = _text(schema, value, path)
        elif _is_number(value):
            own = _number(schema, value, path)
        return own or self._combined(schema, value, path, depth)

    def _object(
        self, schema: dict[str, Any], value: dict[str, Any], path: str, depth: int
    ) -> Mismatch | None:
        for name in schema.get("required", ()):
            if name not in value:
                return Mismatch(f"{path}.{name:.60}", "is missing")
        if len(value) < schema.get("minProperties", 0):
            return Mismatch(path, f"must have at least {schema['minProperties']} fields")
        if len(value) > schema.get("maxProperties", math.inf):
            return Mismatch(path, f"must have at most {schema['maxProperties']} fields")
        known = schema.get("properties", {})
        for name, each in value.items():
            place = f"{path}.{name:.60}"
            if name in known:
                found = self.fault(known[name], each, place, depth + 1)
            else:
                rest = schema.get("additionalProperties", True)
                found = self.fault(rest, each, place, depth + 1)
                if found is not None and rest is False:
                    found = Mismatch(place, "is not a field of this object")
            if found is not None:
                return found
        return None

    def _array(
        self, schema: dict[str, Any], value: list[Any], path: str, depth: int
    ) -> Mismatch | None:
        if len(value) < schema.get("minItems", 0):
            return Mismatch(path, f"must have at least {schema['minItems']} items")
        if len(value) > schema.get("maxItems", math.inf):
            return Mismatch(path, f"must have at most {schema['maxItems']} items")
        if schema.get("uniqueItems"):
            texts = [json.dumps(each, sort_keys=True) for each in value]
            if len(set(texts)) != len(texts):
                return Mismatch(path, "must not have an item twice")
        first = schema.get("prefixItems", [])
        rest = schema.get("items", True)
        for at, each in enumerate(value):
            found = self.fault(
                first[at] if at < len(first) else rest, each, f"{path}[{at}]", depth + 1
            )
            if found is not None:
                return found
        return None

    def _combined(
        self, schema: dict[str, Any], value: Any, path: str, depth: int
    ) -> Mismatch | None:
        for each in schema.get("allOf", ()):
            found = self.fault(each, value, path, depth + 1)
            if found is not None:
                return found
        for name in ("anyOf", "oneOf"):
            if name not in schema:
                continue
            faults = [self.fault(each, value, path, depth + 1) for each in schema[name]]
            fitting = faults.count(None)
            if fitting == 0:
                # The fault that lies deepest is that of the alternative that was meant.
                return max((f for f in faults if f is not None), key=lambda f: len(f.path))
            if name == "oneOf" and fitting > 1:
                return Mismatch(path, f"must fit exactly one of the alternatives, not {fitting}")
        return None


def _text(schema: dict[str, Any], value: str, path: str) -> Mismatch | None:
    if len(value) < schema.get("minLength", 0):
        return Mismatch(path, f"must have at least {schema['minLength']} characters")
    if len(value) > schema.get("maxLength", math.inf):
        return Mismatch(path, f"must have at most {schema['maxLength']} characters")
    if "pattern" in schema and not re.search(schema["pattern"], value):
        return Mismatch(path, f"must match {schema['pattern'][:80]}")
    return None


_BOUNDS: Final[tuple[tuple[str, Callable[[Any, Any], bool], str], ...]] = (
    ("minimum", operator.ge, "at least"),
    ("maximum", operator.le, "at most"),
    ("exclusiveMinimum", operator.gt, "more than"),
    ("exclusiveMaximum", operator.lt, "less than"),
)


def _number(schema: dict[str, Any], value: Any, path: str) -> Mismatch | None:
    for name, holds, words in _BOUNDS:
        if name in schema and not holds(value, schema[name]):
            return Mismatch(path, f"must be {words} {schema[name]}")
    step = schema.get("multipleOf")
    if step is not None and not math.isclose(value / step, round(value / step), abs_tol=1e-9):
        return Mismatch(path, f"must be a multiple of {step}")
    return None


def _resolve(root: Any, reference: str) -> Any:
    """Return what a ``$ref`` names; ``None`` if it names nothing."""
    prefix = "#/$defs/"
    if not isinstance(root, dict) or not reference.startswith(prefix):
        return None
    name = reference.removeprefix(prefix).replace("~1", "/").replace("~0", "~")
    definitions = root.get("$defs")
    return definitions.get(name) if isinstance(definitions, dict) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(value: Any, other: Any) -> bool:
    """Whether two JSON values are equal: unlike in Python, ``true`` is not 1."""
    if isinstance(value, bool) or isinstance(other, bool):
        return value is other
    if isinstance(value, list) and isinstance(other, list):
        return len(value) == len(other) and all(map(_same, value, other))
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(_same(value[k], other[k]) for k in value)
    return bool(value == other)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 200 else f"{text[:197]}..."


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _schemas(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _kinds(value: Any) -> bool:
    kinds = [value] if isinstance(value, str) else value
    return isinstance(kinds, list) and bool(kinds) and all(kind in _TYPES for kind in kinds)


def _pattern(value: Any) -> bool:
    if not isinstance(value, str):
        return False
    try:
        re.compile(value)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _anything(value: Any) -> bool:
    return True


_SHAPES: Final[Mapping[str, Callable[[Any], bool]]] = {
    "type": _kinds,
    "enum": _schemas,
    "const": _anything,
    "properties": lambda value: isinstance(value, dict),
    "required": lambda value: isinstance(value, list) and all(isinstance(v, str) for v in value),
    "additionalProperties": _anything,
    "minProperties": _whole,
    "maxProperties": _whole,
    "items": _anything,
    "prefixItems": _schemas,
    "minItems": _whole,
    "maxItems": _whole,
    "uniqueItems": lambda value: isinstance(value, bool),
    "minLength": _whole,
    "maxLength": _whole,
    "pattern": _pattern,
    "minimum": _is_number,
    "maximum": _is_number,
    "exclusiveMinimum": _is_number,
    "exclusiveMaximum": _is_number,
    "multipleOf": lambda value: _is_number(value) and float(value) > 0,
    "anyOf": _schemas,
    "oneOf": _schemas,
    "allOf": _schemas,
    "$ref": lambda value: isinstance(value, str),
}
"""Each supported keyword, and whether a value of it is valid."""
