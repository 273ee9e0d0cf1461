"""Checks and encodes the arguments of `JobContext.ask`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from arcp_client import _arguments as check
from arcp_client._schema import fault_in, schema_of
from arcp_client._wire.codec import parse, snapshot
from arcp_client._wire.stamp import canonical
from arcp_client.models import Choice

__all__ = ["MISSING", "Asked", "Converter"]

MISSING: Final[Any] = ...
"""The default of a question that has none."""

_OPTIONS = 256
_SCALARS = (str, bool, int)
"""Types whose values are the same in JSON."""


class Converter:
    """Checks an answer against a question's schema, and converts it to the agent's type."""

    def __init__(self, schema: Any, adapter: TypeAdapter[Any] | None) -> None:
        self._schema = schema
        self._adapter = adapter

    def fault(self, value: Any) -> tuple[str, str] | None:
        """Return the path and the reason why a JSON value is no answer; ``None`` if it is one."""
        found = fault_in(self._schema, value)
        if found is not None:
            return found.path, found.expected
        try:
            self.convert(value)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            path = "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in first["loc"])
            return f"${path}", str(first["msg"])
        return None

    def convert(self, value: Any) -> Any:
        """Convert a JSON value to the type that the agent asked for."""
        if self._adapter is None:
            return value
        return self._adapter.validate_json(json.dumps(value))


@dataclass(frozen=True, slots=True)
class Asked:
    """What an agent asks.

    Attributes:
        text: the question.
        schema: the schema of its answers, as JSON.
        options: the options as JSON, or ``None``.
        to: the principals that may answer.
        default: the default as JSON, or ``None`` if there is none.
        key: the agent's own key for the question.
        fingerprint: the same for the same question.
        converter: checks and converts answers.
    """

    text: str
    schema: bytes
    options: bytes | None
    to: tuple[str, ...]
    default: bytes | None
    key: str | None
    fingerprint: str
    converter: Converter

    @property
    def size(self) -> int:
        """Its size, in bytes."""
        texts = len(self.text.encode("utf-8", "replace")) + sum(map(len, self.to))
        return texts + len(self.schema) + len(self.options or b"") + len(self.default or b"")

    @classmethod
    def of(
        cls,
        text: str,
        *,
        schema: Any,
        options: Iterable[Any],
        default: Any,
        to: str | Iterable[str] | None,
        key: str | None,
    ) -> Asked:
        """Check and encode the arguments; see `JobContext.ask`.

        Raises:
            TypeError, ValueError: an argument is invalid; the message names it.
        """
        check.a_text("question", text)
        check.a_text("key", key, none=True)
        names = () if to is None else (to,) if isinstance(to, str) else check.texts("to", to)
        choices = _choices(options)
        if choices and schema is not None:
            raise ValueError("ask: give options, or a schema, not both")
        if choices:
            made, adapter = {"enum": [choice["value"] for choice in choices]}, None
        else:
            made, adapter = schema_of({"type": "string"} if schema is None else schema)
        converter = Converter(made, adapter)
        encoded = None
        if default is not MISSING:
            encoded = _default(default, adapter)
            fault = converter.fault(parse(encoded))
            if fault is not None:
                raise ValueError(f"default: {fault[0]}: {fault[1]}")
        identity = canonical([text, made, choices, list(names)])
        return cls(
            text=text,
            schema=bytes(snapshot(made)),
            options=bytes(snapshot(choices)) if choices else None,
            to=names,
            default=encoded,
            key=key,
            fingerprint=hashlib.sha256(identity).hexdigest()[:32],
            converter=converter,
        )


def _choices(options: Iterable[Any]) -> list[dict[str, Any]]:
    if isinstance(options, str | bytes) or not isinstance(options, Iterable):
        raise TypeError("options must be a list of values, or of pairs of a value and its label")
    choices = [_choice(at, option) for at, option in enumerate(options)]
    if len(choices) > _OPTIONS:
        raise ValueError(f"options: at most {_OPTIONS}, not {len(choices)}")
    values = [canonical(choice["value"]) for choice in choices]
    if len(set(values)) != len(values):
        raise ValueError("options: the same value appears twice")
    return choices


def _choice(at: int, option: Any) -> dict[str, Any]:
    label = None
    if isinstance(option, Choice):
        option, label = option.value, option.label or None
    elif isinstance(option, tuple) and len(option) == 2 and isinstance(option[1], str):
        option, label = option
    try:
        value = option if type(option) in _SCALARS else parse(bytes(snapshot(option)))
    except ValueError as error:
        raise ValueError(f"options[{at}]: {error}") from error
    return {"value": value} if label is None else {"value": value, "label": label}


def _default(default: Any, adapter: TypeAdapter[Any] | None) -> bytes:
    try:
        if adapter is not None and not isinstance(default, dict | list):
            default = adapter.dump_python(default, mode="json", warnings="error")
        return bytes(snapshot(default))
    except ValueError as error:
        raise ValueError(f"default: {error}") from error
