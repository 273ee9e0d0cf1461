"""Generates ``schema.py`` and ``schema_v2.py`` of ``arcp_client.acp`` from JSON schemas.

    npm pack @agentclientprotocol/sdk@2.4.0 && tar xf agentclientprotocol-sdk-2.4.0.tgz
    python scripts/generate_acp_types.py package

The npm package carries the newest schemas that are published anywhere: of each protocol version a
stable and an unstable one. The unstable one has everything, and what the stable one lacks is marked
as such. The file of version 2 has only what the client uses and version 1 does not have.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent.parent / "arcp_client" / "acp" / "schema.py"
NAME_V2 = "schema_v2.py"
_CAMEL = re.compile(r"[^A-Za-z0-9]+")

# The surface of proxies, envelopes of JSON-RPC, and extension points: nothing a client handles.
SKIPPED = re.compile(
    r"^(Ext|.*Proxy|MessageMcp|McpError|McpRequestId|(Agent|Client)(Request|Response|Notification)$)"
)
NOTICE = re.compile(r"\*\*UNSTABLE\*\*|This (capability|feature) is not part of the spec yet")
# Objects whose variants differ in optional members only: one class with all of them.
MERGED = {
    "AvailableCommandInput",
    "ElicitationFormMode",
    "ElicitationUrlMode",
    "EmbeddedResourceResource",
    "IdleStateUpdate",
    "SetSessionConfigOptionRequest",
}
# Sent, never received: no variant is unknown, and the one without a tag goes out without one.
SENT_ONLY = {"McpServer"}
# Where a missing tag means this variant.
UNTAGGED = {"AuthMethod": "agent", "MultiSelectItems": "titled"}

# The updates that only version 2 has, and the messages that it changed and the client decodes.
UPDATES_V2 = (
    "StateUpdate",
    "UserMessage",
    "AgentMessage",
    "AgentThought",
    "ToolCallContentChunk",
    "TerminalUpdate",
    "TerminalOutputChunk",
)
ROOTS_V2 = (
    *UPDATES_V2,
    "InitializeRequest",
    "InitializeResponse",
    "PromptResponse",
    "RequestPermissionRequest",
    "UnsupportedProtocolVersionErrorData",
)
MERGED_V2 = MERGED | {"StateUpdate"}
# The same things in both versions: users match on the classes of version 1.
SHARED = {
    "ContentBlock",
    "ElicitationCapabilities",
    "EnvVariable",
    "Error",
    "Implementation",
    "ProvidersCapabilities",
    "TerminalExitStatus",
    "ToolCallContent",
    "ToolCallUpdate",
    "Usage",
}


def camel(text: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in _CAMEL.split(text) if part)


def snake(text: str) -> str:
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda m: "_" + m[1], text).lower().lstrip("_")


def renamed(name: str) -> str:
    """What msgspec's ``rename="camel"`` makes of a Python name."""
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)


def first_sentence(text: str) -> str:
    paragraphs = [p for p in text.strip().split("\n\n") if not NOTICE.match(p)]
    paragraph = " ".join(paragraphs[0].split()) if paragraphs else ""
    return re.split(r"(?<=[^.][^.]\.)\s", paragraph)[0].replace("\\", "\\\\").replace('"""', "'''")


def plain(node: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in node.items() if key != "description"}


class Generator:
    def __init__(
        self,
        stable: dict[str, Any],
        everything: dict[str, Any],
        merged: set[str] = MERGED,
        shared: tuple[str, ...] = (),
    ) -> None:
        self.stable = stable
        self.merged = merged
        self.shared = shared  # the names that are imported from the file of version 1
        self.defs = {k: v for k, v in everything.items() if not SKIPPED.match(k)}
        self.classes: dict[str, tuple[str, str]] = {}  # name -> (base, text)
        self.aliases: list[str] = []
        self.defaults: dict[str, str] = {}
        self.tags: dict[str, list[tuple[str, str, str]]] = {}  # def -> (union, tag field, tag)

    # ------------------------------------------------------------------ shapes

    def ref(self, node: dict[str, Any]) -> str | None:
        target = node.get("$ref")
        if target is None and len(node.get("allOf", ())) == 1:
            target = node["allOf"][0].get("$ref")
        return None if target is None else target.rsplit("/", 1)[-1]

    def tag_of(self, variant: dict[str, Any]) -> tuple[str, str] | None:
        for name, prop in variant.get("properties", {}).items():
            if isinstance(prop.get("const"), str):
                return name, prop["const"]
        return None

    def variants(self, node: dict[str, Any]) -> list[dict[str, Any]]:
        return node.get("oneOf") or node.get("anyOf") or []

    def is_union(self, name: str) -> bool:
        return name not in self.merged and any(
            self.tag_of(v) for v in self.variants(self.defs[name])
        )

    def is_struct(self, name: str) -> bool:
        node = self.defs[name]
        return name in self.merged or (node.get("type") == "object" and not self.is_union(name))

    def members(self, node: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """All properties of an object, those of its parts and variants included."""
        found: dict[str, Any] = {}
        required: set[str] = set()
        for part in node.get("allOf", ()):
            props, needed = self.members(self.resolved(part))
            found |= props
            required |= needed
        found |= node.get("properties", {})
        required |= set(node.get("required", ()))
        every: set[str] | None = None
        for variant in self.variants(node):
            props, needed = self.members(self.resolved(variant))
            for name, prop in props.items():
                if name in found and plain(found[name]) != plain(prop):
                    found[name] = self.common(found[name], prop)
                found.setdefault(name, prop)
            every = needed if every is None else every & needed
        return found, required | (every or set())

    def common(self, one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
        """The type of a member that variants describe differently."""
        if "const" in one and "const" in other:
            return {"type": "string"}
        if self.merged is not MERGED_V2:
            return {}
        kinds = {kind for node in (one, other) for kind in self.kinds(node)}
        return {"type": sorted(kinds, key=lambda kind: kind == "null")}

    def kinds(self, node: dict[str, Any]) -> list[str]:
        kinds = node.get("type", "string")
        return [kinds] if isinstance(kinds, str) else list(kinds)

    def resolved(self, node: dict[str, Any]) -> dict[str, Any]:
        target = node.get("$ref")
        return self.defs[target.rsplit("/", 1)[-1]] if target else node

    # ------------------------------------------------------------------ annotations

    def annotation(self, node: dict[str, Any]) -> str:
        name = self.ref(node)
        if name is not None:
            return name if name in self.defs else "Any"
        options = self.variants(node)
        if options:
            if all(o.get("type") == "array" for o in options):
                return self.merged_array(options)
            return self.joined([self.annotation(option) for option in options])
        kinds = node.get("type")
        if kinds is None:
            return "str" if isinstance(node.get("const"), str) else "Any"
        names = [self.scalar(kind, node) for kind in ([kinds] if isinstance(kinds, str) else kinds)]
        return self.joined(names)

    def joined(self, kinds: list[str]) -> str:
        return " | ".join(sorted(dict.fromkeys(kinds), key=lambda kind: kind == "None"))

    def scalar(self, kind: str, node: dict[str, Any]) -> str:
        if kind == "array":
            return f"list[{self.annotation(node.get('items', {}))}]"
        if kind == "object":
            extra = node.get("additionalProperties", True)
            value = "Any" if isinstance(extra, bool) else self.annotation(extra)
            return f"dict[str, {value}]"
        return {
            "string": "str",
            "integer": "int",
            "number": "float",
            "boolean": "bool",
            "null": "None",
        }[kind]

    def merged_array(self, options: list[dict[str, Any]]) -> str:
        name = "SessionConfigSelectEntry"
        node = {
            "description": "An option, or (with ``group`` and ``options``) a group of options.",
            "anyOf": [option["items"] for option in options],
        }
        self.struct(name, node)
        return f"list[{name}]"

    # ------------------------------------------------------------------ classes

    def field(self, wire: str, node: dict[str, Any], needed: bool) -> str:
        name = snake(wire.lstrip("_"))
        kind = self.annotation(node)
        default = None
        if not needed:
            default = "None"
            value = node.get("default")
            if isinstance(value, bool | str):
                default = repr(value)
            elif "None" not in kind.split(" | "):
                if kind.startswith("list["):
                    default = "[]"
                elif kind.startswith("dict["):
                    default = "{}"
                elif kind != "Any":
                    kind += " | None"
        if renamed(name) != wire:
            inside = f'name="{wire}"' + ("" if default is None else f", default={default}")
            return f"{name}: {kind} = field({inside})"
        return f"{name}: {kind}" + ("" if default is None else f" = {default}")

    def struct(
        self,
        name: str,
        node: dict[str, Any],
        *,
        base: str = "Base",
        tag: tuple[str, str] | None = None,
        stable: bool = True,
        without: str = "",
        known: dict[str, Any] | None = None,
    ) -> None:
        members, required = self.members(node)
        members.pop(without, None)
        order = sorted(members, key=lambda m: (m == "_meta", m not in required))
        doc = first_sentence(node.get("description", "")) or f"{name}."
        lines = [f"{'' if stable else 'Unstable. '}{doc}"]
        about = []
        for wire in order:
            text = first_sentence(members[wire].get("description", ""))
            if wire == "_meta" or not text:
                continue
            mark = "" if not stable or known is None or wire in known else "(unstable) "
            about.append(f"    {snake(wire.lstrip('_'))}: {mark}{text}")
        if about:
            lines += ["", "Attributes:", *about]
        body = self.docstring(lines)
        if not stable:
            body.append("    unstable: ClassVar[bool] = True")
        body += ["    " + self.field(w, members[w], w in required) for w in order]
        arguments = f"{base}, frozen=True, kw_only=True"
        if tag is not None:
            arguments += f', tag_field="{tag[0]}", tag="{tag[1]}"'
        self.classes[name] = (base, f"class {name}({arguments}):\n" + "\n".join(body) + "\n")

    def docstring(self, lines: list[str]) -> list[str]:
        out = []
        for line in lines:
            indent = "    " + " " * (len(line) - len(line.lstrip()))
            hang = indent + ("    " if line.startswith("    ") else "")
            out += textwrap.wrap(
                line.strip(),
                96,
                initial_indent=indent,
                subsequent_indent=hang,
                break_long_words=False,
                break_on_hyphens=False,
            ) or [""]
        out[0] = '    """' + out[0].lstrip()
        if len(out) == 1 and len(out[0]) < 94:
            out[0] += '"""'
        else:
            out.append('    """')
        return out

    def union(self, name: str) -> None:
        node = self.defs[name]
        own = {k: v for k, v in node.items() if k not in ("oneOf", "anyOf")}
        has_own = bool(node.get("properties"))
        parts, tag_field = [], ""
        for variant in self.variants(node):
            tag = self.tag_of(variant)
            target = self.ref(variant)
            if tag is None:
                if target is not None and (name in SENT_ONLY or name in UNTAGGED):
                    parts.append(target)  # tagged in ``collect`` if it has to be
                continue
            tag_field = tag[0]
            if has_own or target is None:
                part = f"{name}{camel(tag[1])}"
                merged = {**own, "description": variant.get("description", "")}
                merged["allOf"] = [own, *variant.get("allOf", [])]
                self.struct(part, merged, tag=tag, without=tag_field, stable=name in self.stable)
            elif len(self.tags[target]) > 1:
                part = camel(tag[1])
                text = self.docstring([first_sentence(variant.get("description", part))])
                inside = f'{target}, frozen=True, tag_field="{tag_field}", tag="{tag[1]}"'
                self.classes[part] = (target, f"class {part}({inside}):\n" + "\n".join(text) + "\n")
            else:
                part = target
            parts.append(part)
        if name not in SENT_ONLY:
            unknown = f"{'Other' if f'Unknown{name}' in self.defs else 'Unknown'}{name}"
            base = "UnknownUpdate" if name == "SessionUpdate" else "Unknown"
            doc = f'    """A {name} that the schema does not have, or not in this shape."""'
            self.classes[unknown] = (
                base,
                f"class {unknown}({base}, frozen=True,"
                f' tag_field="{tag_field}", tag="\\0"):\n{doc}\n',
            )
            parts.append(unknown)
        if name in UNTAGGED:
            self.defaults[name] = UNTAGGED[name]
        self.aliases.append(f"{name}: TypeAlias = {' | '.join(parts)}")

    def collect(self) -> None:
        for name in self.defs:
            if not self.is_union(name):
                continue
            for variant in self.variants(self.defs[name]):
                target, tag = self.ref(variant), self.tag_of(variant)
                if target is not None and tag is None and name in UNTAGGED:
                    field = next(t for v in self.variants(self.defs[name]) if (t := self.tag_of(v)))
                    tag = (field[0], UNTAGGED[name])
                if target is not None and tag is not None:
                    self.tags.setdefault(target, []).append((name, *tag))

    def run(self) -> None:
        self.collect()
        updates = {
            target
            for target, uses in self.tags.items()
            if any(u[0] == "SessionUpdate" for u in uses)
        }
        for name, node in self.defs.items():
            if self.is_union(name):
                self.union(name)
            elif self.is_struct(name):
                uses = [u for u in self.tags.get(name, []) if not self.defs[u[0]].get("properties")]
                known = self.stable.get(name)
                self.struct(
                    name,
                    node,
                    base="Update" if name in updates else "Base",
                    tag=uses[0][1:] if len(uses) == 1 else None,
                    stable=known is not None,
                    known=None if known is None else self.members_of_stable(name),
                )
            else:
                self.alias(name, node)

    def members_of_stable(self, name: str) -> dict[str, Any]:
        everything, self.defs = self.defs, self.stable
        try:
            return self.members(self.stable[name])[0]
        finally:
            self.defs = everything

    def alias(self, name: str, node: dict[str, Any]) -> None:
        consts = [v["const"] for v in self.variants(node) if isinstance(v.get("const"), str)]
        if consts:
            note = "  # open: " + ", ".join(consts)
            self.aliases.append(f"{name}: TypeAlias = str{note}")
        else:
            self.aliases.append(f"{name}: TypeAlias = {self.annotation(node)}")

    # ------------------------------------------------------------------ version 2

    def narrow(self, roots: Sequence[str], older: Generator) -> None:
        """Keep what the roots need; import from the older version what is the same there."""
        own = {name: text for name, (_, text) in self.classes.items()}
        own |= {alias.partition(":")[0]: alias for alias in self.aliases}
        known = {name: text for name, (_, text) in older.classes.items()}
        known |= {alias.partition(":")[0]: alias for alias in older.aliases}
        same = {name for name in own if bare(own[name]) == bare(known.get(name, ""))} | SHARED
        while True:
            changed = {n for n in same - SHARED if (words(own[n]) & own.keys()) - same}
            if not changed:
                break
            same -= changed
        kept: set[str] = set()
        shared: set[str] = set()
        waiting = list(roots)
        while waiting:
            name = waiting.pop()
            if name in same:
                shared.add(name)
            elif name not in kept:
                kept.add(name)
                waiting += sorted(words(own[name]) & own.keys())
        self.shared = tuple(sorted(shared))
        self.classes = {name: made for name, made in self.classes.items() if name in kept}
        self.aliases = [alias for alias in self.aliases if alias.partition(":")[0] in kept]

    # ------------------------------------------------------------------ the file

    def methods(self) -> str:
        stable, unstable = set(), set()
        for name, node in self.defs.items():
            method = node.get("x-method")
            if method is not None and not name.endswith("Response"):
                (stable if name in self.stable else unstable).add(method)

        def rendered(names: set[str]) -> str:
            return "frozenset({" + "".join(f'"{n}",' for n in sorted(names)) + "})"

        return (
            f"STABLE_METHODS = {rendered(stable)}\n"
            f"UNSTABLE_METHODS = {rendered(unstable - stable)}\n"
        )

    def text(self, source: str, updates: Sequence[str] = ()) -> str:
        head = textwrap.dedent(f'''\
            """The types of the Agent Client Protocol, to decode and encode its JSON. GENERATED.

            {textwrap.fill(source, 96, subsequent_indent=" " * 12)}

            Do not edit. Classes and fields that the stable schema lacks are marked as unstable.
            Enumerations are open: they are ``str``, with the known values in a comment. Unions are
            open too, and keep what they do not know as an `Unknown`.
            """

            # ruff: noqa: {"RUF012" if self.shared else "E501, RUF012"}
            from __future__ import annotations

            from typing import Any, ClassVar, TypeAlias

            from msgspec import field

            from arcp_client.acp._base import Base, Unknown, UnknownUpdate, Update
            ''')
        if self.shared:
            names = "".join(f"    {name},\n" for name in self.shared)
            head += f"from arcp_client.acp.schema import (\n{names})\n"
        done: set[str] = {"Base", "Unknown", "UnknownUpdate", "Update", *self.shared}
        body: list[str] = []
        waiting = dict(self.classes)
        while waiting:
            for name, (base, text) in list(waiting.items()):
                if base in done:
                    body.append(text)
                    done.add(name)
                    del waiting[name]
        tables = ["UPDATES"]
        ends = []
        if not updates:
            update_union = next(a for a in self.aliases if a.startswith("SessionUpdate:"))
            names_of = update_union.partition("= ")[2].split(" | ")
            updates = [name for name in names_of if not name.startswith("Unknown")]
            tables += ["STABLE_METHODS", "UNSTABLE_METHODS", "UNTAGGED"]
            ends = [f"UNTAGGED = {self.defaults!r}\n", self.methods()]
        ends.insert(
            0,
            "UPDATES: tuple[type[Update], ...] = (\n"
            + "".join(f"    {name},\n" for name in updates)
            + ")\n",
        )
        exported = sorted([*self.classes, *(a.partition(":")[0] for a in self.aliases), *tables])
        everything = "__all__ = [\n" + "".join(f'    "{n}",\n' for n in exported) + "]\n"
        aliases = "\n".join(self.aliases) + "\n"
        # Aliases name classes; as annotations are strings they may stand behind them.
        return "\n".join([head, everything, *body, aliases, *ends])


def words(text: str) -> set[str]:
    """The names in code, without those in strings and comments."""
    return set(re.findall(r"[A-Z]\w+", bare(text)))


def bare(text: str) -> str:
    """Code without docstrings, comments and what says that it is unstable."""
    text = re.sub(r'"""[\s\S]*?"""|  # .*|    unstable: .*\n|"[^"]*"', "", text)
    return re.sub(r"\n\s*\n", "\n", text)


def load(package: Path, version: str) -> tuple[dict[str, Any], dict[str, Any], str]:
    """The definitions of the stable and of the unstable schema, and a digest of the latter."""
    stable_path = package / "schema" / version / "schema.json"
    every_path = package / "schema" / version / "schema.unstable.json"
    digest = hashlib.sha256(every_path.read_bytes()).hexdigest()[:16]
    stable, every = json.loads(stable_path.read_text()), json.loads(every_path.read_text())
    return stable["$defs"], every["$defs"], digest


def write(path: Path, text: str) -> None:
    path.write_text(text)
    ruff = [sys.executable, "-m", "ruff"]
    chosen = "--select=I,RUF022" if path == OUT else "--select=I,RUF022,F401"
    subprocess.run([*ruff, "check", "--quiet", "--fix", chosen, str(path)], check=False)
    subprocess.run([*ruff, "format", "--quiet", str(path)], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="an unpacked @agentclientprotocol/sdk")
    package = parser.parse_args().package
    version = json.loads((package / "package.json").read_text())
    of = f"npm {version['name']} {version['version']}"
    stable, every, digest = load(package, "v1")
    generator = Generator(stable, every)
    generator.run()
    source = (
        f"Made by scripts/generate_acp_types.py from schema/v1/schema.json and schema.unstable.json"
        f" of {of} (protocol version 1; sha256 {digest}…)."
    )
    write(OUT, generator.text(source))
    stable, every, digest = load(package, "v2")
    newer = Generator(stable, every, MERGED_V2)
    newer.run()
    newer.narrow(ROOTS_V2, generator)
    source = (
        f"Made by scripts/generate_acp_types.py from schema/v2 of {of} (the draft of protocol"
        f" version 2; sha256 {digest}…). It has what the client uses and `schema` does not have."
    )
    write(OUT.with_name(NAME_V2), newer.text(source, UPDATES_V2))


if __name__ == "__main__":
    main()
