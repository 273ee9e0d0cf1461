"""Masks secrets in JSON values and in strings.

A secret is recognised by its field's name, by its form in a string, or by its value. `Scrubber`
lists the secrets that are not found.
"""

from __future__ import annotations

import base64
import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from pydantic import SecretStr

from arcp_client import _arguments as check

__all__ = ["MASK", "Scrubber"]

MASK = "**********"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_DEEPEST = 200
_SHORT = 4
_LONG_NAME = 200

# Names are split into words: apiKey, api_key and X-Api-Key are the words api, key.
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_SECRET = _set(
    "password passwords passwd passphrase pwd secret secrets apikey apikeys authorization "
    "cookie cookies bearer jwt privatekey accesskey"
)
_CREDENTIAL = _set("credential credentials")
_TOKEN = _set("token tokens auth")
# Words that are joined, as in PGPASSWORD, or split, as in PassWord.
_ENDS_SECRET = ("password", "passwd", "passphrase", "secret", "apikey", "privatekey", "accesskey")
_ENDS_CREDENTIAL = ("credential", "credentials")
_KEYS = _set("key keys")
_OF_KEYS = _set("api access private signing encryption session account master ssh deploy")
# Names that contain such a word and hold no secret: token_type, password_file, max_tokens.
_ABOUT = _set(
    "type url uri endpoint file path count limit usage used name names expires ttl required "
    "method scheme policy length size budget total in at"
)
_PUBLIC = _set("id scheme endpoint profile constraints type kind expires_at")
"""Fields of a credential that identify it (§9.8)."""

_VALUES = _set("value values")

_HINTS = _set(
    "pass pwd secret token key auth cookie bearer basic jwt credential :// sk- gho_ ghp_ ghs_ ghu_"
    " github_pat_ xox akia asia eyj -----begin ?sig &sig signature"
)
"""A string without any of these holds no secret. Most strings have none and are not searched."""

_PEM = re.compile(r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END|\Z)", re.DOTALL)
_KNOWN_FORMS = re.compile(
    r"(?<![\w-])(?:sk-[\w-]{16,512}|gh[opsu]_\w{20,255}|github_pat_\w{20,255}"
    r"|xox[abeprs]-[\w-]{10,255}|(?:AKIA|ASIA)[A-Z0-9]{16}(?!\w)"
    r"|eyJ[\w-]{8,8192}\.[\w-]{8,65536}(?:\.[\w-]{1,8192})?)"
)
_BEARER = re.compile(r"(?<!\w)(bearer[ \t]{1,4})([\w.~+/=-]{6,65536})", re.IGNORECASE)
_BASIC = re.compile(r"(?<!\w)(basic[ \t]{1,4})([\w+/]{6,65536}={0,2})", re.IGNORECASE)
_PROSE = _set("authentication authorization scheme scheme. token token. tokens tokens.")
_USERINFO = re.compile(r"(?<=://)[^\s/?#@:\"'<>]{0,256}:[^\s/?#@\"'<>]{1,1024}(?=@)")
_QUERY = re.compile(r"(?<=[?&;])([\w.-]{1,80})=([^&#\s\"'<>;]{1,8192})")
# name=value, name: value, "name": "value" (also where the quotes are escaped), --name value.
# The value is searched for only after a matching name, so a string takes one pass at most.
_NAMED = re.compile(
    r"(?<![\w-])([\w-]{2,80})"
    r"((?:\\{0,4}[\"'])?[ \t]{0,4}(?:[:=]>|:=|[:=])[ \t]{0,4}|(?<=\w)[ \t]{1,4}(?=[^\s-]))"
)
_QUOTED = re.compile(r"(\\{0,4}[\"'])(.*?)(?<!\\)\1", re.DOTALL)
_BARE = re.compile(r"[^\s,;&\"'{}\[\]\\]{1,65536}")
_LINE = re.compile(r"[^\r\n\"'\\]{1,65536}")
_TAG = re.compile(r"(<([\w.:-]{2,80})(?:\s[^<>]{0,200})?>)([^<>]{1,8192})(?=</)")
_COUNT = re.compile(r"[0-9.,]{1,12}|true|false|null|None")


class Scrubber:
    """Masks secrets in JSON values and returns new ones; the input is never changed.

    ::

        scrubber = Scrubber([token])
        scrubber({"headers": {"Authorization": "Bearer abc"}, "path": "/x"})
        # {"headers": {"Authorization": "**********"}, "path": "/x"}

    Masked are:

    - every value of a field with a name such as ``password``, ``secret``, ``authorization``,
      ``cookie``, ``api_key`` or ``private_key``, and strings of a field ``token``, in any spelling
      (``apiKey``, ``X-Api-Key``, ``PGPASSWORD``); the fields of ``credentials`` except those that
      identify one; the ``value`` of a record with such a ``name`` or ``key``, and the second
      element of a pair with such a name;
    - in strings: ``name=value``, ``"name": "value"`` and ``<name>value</name>`` with such a name,
      ``Bearer …`` and ``Basic …``, passwords in URLs, private keys in PEM, tokens of well-known
      forms (JWT, GitHub, Slack, AWS, ``sk-…``);
    - the values of ``secrets`` in all places, names of fields included, also percent-encoded or in
      base64.

    Other secrets are not found: a password in prose, and a secret that is compressed, encrypted,
    split over two events, or part of data in base64. Show the transcript of a job that handles
    secrets only to people who may see the secrets.

    Args:
        secrets: values that are known to be secret. A value of fewer than 4 characters is masked
            only where it is a whole word.
        names: further names whose values are secret, in any spelling.

    Raises:
        TypeError: ``secrets`` or ``names`` is a single string, or contains other types.
    """

    def __init__(
        self, secrets: Iterable[str | SecretStr] = (), *, names: Iterable[str] = ()
    ) -> None:
        values = [
            each.get_secret_value() if isinstance(each, SecretStr) else each
            for each in check.several("secrets", secrets, SecretStr | str, "strings or SecretStr")
        ]
        self._values = _Values(values)
        self._names = frozenset(tuple(_words(name)) for name in check.texts("names", names))

    def __call__(self, value: Any) -> Any:
        """The value with its secrets masked; dicts and lists in it are new ones."""
        return self._walk(value, 0)

    def field(self, name: str, value: Any) -> Any:
        """Mask the value of a field with this name."""
        return self._under(name, value, 0)

    def text(self, text: str) -> str:
        """The string with its secrets masked."""
        text = self._values.masked(text)
        return self._searched(text) if self._names or _hinted(text) else text

    def _searched(self, text: str) -> str:
        text = _PEM.sub(MASK, text)
        text = _KNOWN_FORMS.sub(MASK, text)
        text = _USERINFO.sub(MASK, text)
        text = _QUERY.sub(self._query, text)
        text = _TAG.sub(self._tag, text)
        text = self._pairs(text)
        return _BASIC.sub(_basic, _BEARER.sub(_bearer, text))

    def is_clean(self, text: str, ids: Sequence[str] = ()) -> bool:
        """Whether it is certain that nothing in these strings is masked; faster than to mask them.

        If it is false, `text` may return a string unchanged all the same.

        Args:
            text: a string, or several with line breaks between them.
            ids: further strings that come again and again, such as the id of a job.
        """
        if self._names or _hinted(text) or any(map(_hinted_name, ids)):
            return False
        whole = "\n".join((text, *ids))
        return self._values.masked(whole) == whole

    def _walk(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if not isinstance(value, dict | list | tuple):
            return value
        if depth >= _DEEPEST:  # not searched, so masked
            return MASK
        if not isinstance(value, dict):
            return self._items(value, depth + 1)
        found: dict[Any, Any] = {}
        # Environment variables or headers as records.
        of = next((value[each] for each in ("name", "key") if self._kind(value.get(each))), None)
        for name, each in value.items():
            shown = self._name(name, found)
            named = of if of is not None and name in _VALUES else name
            found[shown] = self._under(named, each, depth + 1)
        return found

    def _items(self, values: list[Any] | tuple[Any, ...], depth: int) -> list[Any]:
        found, before = [], ""
        if all(map(_is_pair, values)):  # headers as pairs
            return [
                [self._walk(name, depth + 1), self._under(name, each, depth + 1)]
                for name, each in values
            ]
        for each in values:
            if isinstance(each, str) and before.startswith("-") and self._kind(before):
                found.append(MASK)  # an argument list: --password VALUE
            else:
                found.append(self._walk(each, depth))
            before = each if isinstance(each, str) else ""
        return found

    def _name(self, name: Any, taken: dict[Any, Any]) -> Any:
        if not isinstance(name, str):
            return name
        masked, n = self._values.masked(name), 1
        if self._names or _hinted_name(masked):
            masked = self._searched(masked)
        shown = masked
        while shown in taken:  # two masked names would collide, and a field would be lost
            n += 1
            shown = f"{masked} ({n})"
        return shown

    def _under(self, name: Any, value: Any, depth: int) -> Any:
        kind = self._kind(name)
        if kind == "secret" and value is not None and not isinstance(value, bool):
            return MASK
        if kind == "token" and not isinstance(value, int | float | Decimal | None):
            if isinstance(value, list | tuple) and depth < _DEEPEST:
                return [self._under(name, each, depth + 1) for each in value]
            return MASK
        if kind == "credential":
            return self._credential(value, depth)
        return self._walk(value, depth)

    def _credential(self, value: Any, depth: int) -> Any:
        if isinstance(value, list | tuple) and depth < _DEEPEST:
            return [self._credential(each, depth + 1) for each in value]
        if isinstance(value, dict) and depth < _DEEPEST:
            found: dict[Any, Any] = {}
            for name, each in value.items():
                plain = name in _PUBLIC or each is None
                deep = isinstance(each, dict | list | tuple)
                shown = self._name(name, found)
                if plain:
                    found[shown] = self._walk(each, depth + 1)
                else:
                    found[shown] = self._credential(each, depth + 1) if deep else MASK
            return found
        return value if value is None or isinstance(value, int | float | Decimal) else MASK

    def _kind(self, name: Any) -> str:
        if not isinstance(name, str) or len(name) > _LONG_NAME:
            return ""
        if self._names and tuple(_words(name)) in self._names:
            return "secret"
        return _kind(name)

    def _tag(self, found: re.Match[str]) -> str:
        return f"{found[1]}{MASK}" if self._kind(found[2]) else found[0]

    def _query(self, found: re.Match[str]) -> str:
        words = _words(found[1])
        signed = bool(words) and words[-1] in {"sig", "signature", "code", "key"}
        return f"{found[1]}={MASK}" if signed or self._kind(found[1]) else found[0]

    def _pairs(self, text: str) -> str:
        pieces, done, at = [], 0, 0
        while (found := _NAMED.search(text, at)) is not None:
            at = found.end()
            name, separator = found[1], found[2]
            kind = self._kind(name)
            if not kind or (not separator.strip() and not name.startswith("-")):
                continue
            quoted = _QUOTED.match(text, at)
            if quoted is not None:
                start, end = quoted.span(2)
            else:
                line = kind == "secret" and bool({"cookie", "authorization"} & set(_words(name)))
                bare = (_LINE if line else _BARE).match(text, at)
                if bare is None:
                    continue
                start, end = bare.span()
                if text[start:end].lower() == "bearer":
                    continue  # the string after it is masked as such
            counted = kind == "token" and _COUNT.fullmatch(text, start, end)
            if start == end or counted:
                continue
            pieces += [text[done:start], MASK]
            done = at = end
        return "".join([*pieces, text[done:]]) if pieces else text


def _is_pair(value: Any) -> bool:
    return isinstance(value, list | tuple) and len(value) == 2 and isinstance(value[0], str)


def _hinted(text: str) -> bool:
    # One pass in C for each hint takes a tenth of the time of one regular expression for all.
    folded = text.lower() if text.isascii() else text.casefold()
    for hint in _HINTS:  # noqa: SIM110 - each event passes here; a generator takes twice the time
        if hint in folded:
            return True
    return False


_hinted_short = lru_cache(maxsize=4096)(_hinted)


def _hinted_name(name: str) -> bool:
    """Whether a name or an id may hold a secret: most come again, so the search is cached."""
    # A peer may send long ones, and a cache of them would have no limit in bytes.
    return _hinted_short(name) if len(name) <= _LONG_NAME else _hinted(name)


def _bearer(found: re.Match[str]) -> str:
    return found[0] if found[2].lower() in _PROSE else f"{found[1]}{MASK}"


def _basic(found: re.Match[str]) -> str:
    """Mask ``Basic …`` if the rest decodes from base64 to ``name:password``, not prose."""
    value = found[2].rstrip("=")
    try:
        plain = base64.b64decode(value + "=" * (-len(value) % 4))
    except ValueError:
        return found[0]
    return f"{found[1]}{MASK}" if b":" in plain else found[0]


def _words(name: str) -> list[str]:
    return [word.lower() for word in _WORD.findall(name)]


@lru_cache(maxsize=4096)
def _kind(name: str) -> str:
    """``secret``, ``token`` or ``credential`` for a name whose value is one; else empty."""
    words = _words(name)
    if not words or words[-1] in _ABOUT:
        return ""
    there = {*words, *(a + b for a, b in itertools.pairwise(words))}
    if there & _SECRET or any(word.endswith(_ENDS_SECRET) for word in words):
        return "secret"
    if there & _CREDENTIAL or any(word.endswith(_ENDS_CREDENTIAL) for word in words):
        return "credential" if words[-1] not in {"id", "ids"} else ""
    if there & _TOKEN or any(word.endswith("token") for word in words):
        return "token"
    pairs = itertools.pairwise(words)
    return "secret" if any(a in _OF_KEYS and b in _KEYS for a, b in pairs) else ""


class _Values:
    """Finds known secrets in strings."""

    def __init__(self, values: list[str]) -> None:
        whole = [value for value in values if len(value) >= _SHORT]
        self._forms = sorted({form for value in whole for form in _spellings(value)})
        self._forms.sort(key=len, reverse=True)
        alone = {value for value in values if 0 < len(value) < _SHORT}
        words = [rf"(?<!\w){re.escape(value)}(?!\w)" for value in sorted(alone)]
        self._alone = re.compile("|".join(words)) if words else None

    def masked(self, text: str) -> str:
        for form in self._forms:
            text = text.replace(form, MASK)
        return text if self._alone is None else self._alone.sub(MASK, text)


def _spellings(value: str) -> set[str]:
    """The forms in which a string may contain the value."""
    data = value.encode("utf-8", "surrogatepass")
    found = {value, quote(value, safe="", errors="replace"), quote(value, errors="replace")}
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    found.add(escaped)
    # Alone or after other bytes: inside base64 data the value has one of three forms.
    encoders: tuple[Callable[[bytes], bytes], ...] = (base64.b64encode, base64.urlsafe_b64encode)
    for encoder in encoders:
        for shift in range(3):
            text = encoder(b"\0" * shift + data).decode()
            inner = text[(0, 2, 3)[shift] :].rstrip("=")
            # The last character also holds bits of the bytes after the value.
            inner = inner[:-1] if (len(data) + shift) % 3 else inner
            if len(inner) >= 8:
                found.add(inner)
    return found
