"""Checks and encodes the arguments of `JobContext.ask`."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter, ValidationError

from arcp_client import _arguments as check
from arcp_client._schema import fault_in, schema_of
from arcp_client._wire.codec import parse, snapshot
from arcp_client._wire.stamp import canonical, payload_bytes
from arcp_client.models import Choice

__all__ = ["MISSING", "Asked", "Converter"]

MISSING: Final[Any] = ...
"""The default of a question that has none."""

_OPTIONS = 256
_SCALARS = (str, bool, int)
"""Types whose values are the same in JSON."""
_KEPT = 64
"""Maximum number of forms that are kept for later questions."""
_KEPT_CHARACTERS = 1024
"""Maximum number of characters in the options of a form that is kept."""


class Converter:
    """Checks an answer against a question's schema, and converts it to the agent's type."""

    def __init__(self, schema: Any, adapter: TypeAdapter[Any] | None) -> None:
        self._schema = schema
        self.adapter = adapter

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
        if self.adapter is None:
            return value
        return self.adapter.validate_json(json.dumps(value))


class Form(msgspec.Struct, frozen=True):
    """The answers that a question takes.

    Attributes:
        converter: checks and converts them.
        schema: their schema as JSON.
        options: the options as JSON, or ``None``.
        identity: the same for the same answers: the keys of a schema have no order.
        size: the size of schema and options, in bytes.
    """

    converter: Converter
    schema: bytes
    options: bytes | None
    identity: bytes
    size: int


class Asked(msgspec.Struct, frozen=True):
    """What an agent asks.

    Attributes:
        text: the question.
        form: the answers that it takes.
        to: the principals that may answer.
        default: the default as JSON, or ``None`` if there is none.
        key: the agent's own key for the question.
        size: its size, in bytes.
    """

    text: str
    form: Form
    to: tuple[str, ...]
    default: bytes | None
    key: str | None
    size: int

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
        form = _form_of(schema, options)
        encoded = None
        if default is not MISSING:
            encoded = _default(default, form.converter.adapter)
            fault = form.converter.fault(parse(encoded))
            if fault is not None:
                raise ValueError(f"default: {fault[0]}: {fault[1]}")
        size = len(text.encode("utf-8", "surrogatepass")) + sum(map(len, names)) + form.size
        return cls(text, form, names, encoded, key, size + len(encoded or b""))

    @property
    def fingerprint(self) -> str:
        """The same for the same question."""
        head = payload_bytes([self.text, self.to])
        # Not SHA-256: after a pause, OpenSSL's takes three times as long.
        return hashlib.blake2b(head + self.form.identity, digest_size=16).hexdigest()


def _form(schema: Any, options: tuple[Any, ...]) -> Form:
    if options:
        choices = _choices(options)
        made: Any = {"enum": [choice["value"] for choice in choices]}
        enum, written = payload_bytes(made), payload_bytes(choices)
        size = len(enum) + len(written)
        return Form(Converter(made, None), enum, written, canonical(choices), size)
    made, adapter = schema_of({"type": "string"} if schema is None else schema)
    encoded = payload_bytes(made)
    return Form(Converter(made, adapter), encoded, None, canonical(made), len(encoded))


_kept_form = lru_cache(_KEPT)(_form)
"""Most agents ask with a few classes and options, and pydantic takes long to make a schema."""


def _form_of(schema: Any, options: Iterable[Any]) -> Form:
    """Return the form of a question; a kept one only if equal arguments always have the same form.

    ``1`` and ``True`` are equal and do not.
    """
    if type(options) not in (list, tuple) and (
        isinstance(options, str | bytes) or not isinstance(options, Iterable)
    ):
        raise TypeError("options must be a list of values, or of pairs of a value and its label")
    given = tuple(options)
    if not given:
        constant = schema is None or isinstance(schema, type)
    elif schema is not None:
        raise ValueError("ask: give options, or a schema, not both")
    elif len(given) > _OPTIONS:
        raise ValueError(f"options: at most {_OPTIONS}, not {len(given)}")
    else:
        constant = set(map(type, given)) == {str} and sum(map(len, given)) <= _KEPT_CHARACTERS
    return (_kept_form if constant else _form)(schema, given)


def _choices(options: tuple[Any, ...]) -> list[dict[str, Any]]:
    choices = [_choice(at, option) for at, option in enumerate(options)]
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
