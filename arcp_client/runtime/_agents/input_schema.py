"""Validates the input of an agent against the schema that the agent declares."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Protocol

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from arcp_client._wire import names
from arcp_client._wire.codec import parse, snapshot
from arcp_client.errors import InvalidInput

__all__ = ["InputSchema", "input_schema"]

_MISSING = (
    "an input_schema that is a JSON Schema needs the package jsonschema:"
    " pip install 'arcp-client[schema]'; a pydantic model needs no package"
)
_MOST_FIELDS = 20
"""How many invalid fields one error names."""
_TEXT = 200
"""Maximum length of the text about one field."""


class InputSchema(Protocol):
    """The declared schema of an agent's input."""

    wire: dict[str, Any]
    """The schema as JSON Schema, for the agent inventory."""

    def check(self, data: bytes) -> None:
        """Validate an input, as JSON.

        Raises:
            InvalidInput: the input does not match; the error names each field.
        """

    def value(self, given: Any) -> Any:
        """Return what the agent gets for a valid input."""


def input_schema(declared: Any) -> InputSchema:
    """Read the argument ``input_schema`` of ``Runtime.agent``.

    Raises:
        TypeError: it is neither a JSON Schema nor a type that pydantic can validate.
        ValueError: it is no valid JSON Schema, or refers to another document.
        ModuleNotFoundError: it is a JSON Schema, and jsonschema is not installed.
    """
    if isinstance(declared, Mapping):
        return _JsonSchema(declared)
    return _Typed(declared)


class _Typed:
    """A pydantic model, or another type that pydantic validates."""

    def __init__(self, declared: Any) -> None:
        try:
            if isinstance(declared, str) or inspect.isroutine(declared):
                raise TypeError("it is no type")
            self._adapter: TypeAdapter[Any] = (
                declared if isinstance(declared, TypeAdapter) else TypeAdapter(declared)
            )
            self.wire = self._adapter.json_schema()
        except (PydanticUserError, TypeError) as error:
            raise TypeError(
                "input_schema must be a JSON Schema, a pydantic model or another type that"
                f" pydantic validates, not {declared!r:.60}: {str(error).splitlines()[0]}"
            ) from None

    def check(self, data: bytes) -> None:
        try:
            self._adapter.validate_json(data)
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)
            raise _invalid((_path(each["loc"]), each["msg"]) for each in found) from None

    def value(self, given: Any) -> Any:
        return self._adapter.validate_json(bytes(snapshot(given)))


class _JsonSchema:
    """A JSON Schema; the dialect is that of ``$schema``, by default 2020-12."""

    def __init__(self, declared: Mapping[str, Any]) -> None:
        try:
            # An optional package, without types.
            from jsonschema import exceptions, validators  # type: ignore[import-untyped]  # noqa: PLC0415
            from referencing import Registry  # noqa: PLC0415
        except ModuleNotFoundError:
            raise ModuleNotFoundError(_MISSING, name="jsonschema") from None
        try:
            self.wire = parse(bytes(snapshot(dict(declared))))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"input_schema is no JSON: {error}") from None
        outside = next((ref for ref in _references(self.wire) if not ref.startswith("#")), None)
        if outside is not None:
            raise ValueError(
                f"input_schema refers to {outside!r:.80}, which is not a part of it: copy the"
                " schema into $defs"
            )
        kind = validators.validator_for(self.wire, default=validators.Draft202012Validator)
        try:
            kind.check_schema(self.wire)
        except exceptions.SchemaError as error:
            raise ValueError(
                f"input_schema is no valid JSON Schema: {_path(error.absolute_path) or 'it'}:"
                f" {error.message:.200}"
            ) from None
        # An empty registry: nothing is ever fetched.
        self._validator = kind(self.wire, registry=Registry())

    def check(self, data: bytes) -> None:
        try:
            found = list(self._validator.iter_errors(json.loads(data)))
        except RecursionError:
            raise _invalid([("", "it is nested too deeply")]) from None
        if found:
            raise _invalid(sorted(_violation(each) for each in found))

    def value(self, given: Any) -> Any:
        return given


def _references(value: Any) -> Iterator[str]:
    """Find the targets of ``$ref`` in a schema."""
    left = [value]
    for each in left:
        if isinstance(each, list):
            left.extend(each)
        elif isinstance(each, dict):
            if isinstance(ref := each.get("$ref"), str):
                yield ref
            left.extend(each.values())


def _violation(error: Any) -> tuple[str, str]:
    """Say which field is wrong, and what it must be. The text never contains the value."""
    path, rule, wanted = _path(error.absolute_path), str(error.validator), error.validator_value
    shown = json.dumps(wanted, ensure_ascii=False)[:_TEXT] if wanted is not None else "null"
    if rule == "required" and isinstance(error.instance, dict):
        missing = [name for name in wanted if name not in error.instance]
        named = next((name for name in missing if repr(name) in error.message), missing[0])
        return _path([*error.absolute_path, named]), "this field is required"
    if rule == "additionalProperties" and isinstance(error.instance, dict):
        declared = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        extra = [str(name) for name in error.instance if name not in declared]
        return path, f"these fields are not allowed: {', '.join(sorted(extra))}"
    texts = {
        "type": f"it must be of type {shown}",
        "enum": f"it must be one of {shown}",
        "const": f"it must be {shown}",
        "minimum": f"it must be at least {shown}",
        "maximum": f"it must be at most {shown}",
        "minLength": f"it must have at least {shown} characters",
        "maxLength": f"it must have at most {shown} characters",
        "minItems": f"it must have at least {shown} items",
        "maxItems": f"it must have at most {shown} items",
        "pattern": f"it must match the pattern {shown}",
    }
    return path, texts.get(rule, f"it does not match {rule}: {shown}")


def _path(parts: Iterable[Any]) -> str:
    """Write a position in an input as ``files[2].name``."""
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def _invalid(found: Iterable[tuple[str, str]]) -> InvalidInput:
    fields: dict[str, str] = {}
    more = 0
    for path, text in found:
        if path[:_TEXT] in fields:
            continue
        if len(fields) == _MOST_FIELDS:
            more += 1
            continue
        fields[path[:_TEXT]] = text[:_TEXT]
    first, reason = next(iter(fields.items()))
    message = f"input{'.' if first and not first.startswith('[') else ''}{first}: {reason}"
    if len(fields) + more > 1:
        message += f" (and {len(fields) + more - 1} more)"
    return InvalidInput(message, details={names.INPUT_FIELDS: fields})
