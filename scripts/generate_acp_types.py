"""Two JSON schemas of the Agent Client Protocol in, ``arcp_client/acp/schema.py`` out.

    npm pack @agentclientprotocol/sdk@2.4.0 && tar xf agentclientprotocol-sdk-2.4.0.tgz
    python scripts/generate_acp_types.py package

The npm package carries the newest schema that is published anywhere. It holds a stable and an
unstable one; the unstable one has everything, and what the stable one lacks is marked as such.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

OUT = Path(__file__).parent.parent / "arcp_client" / "acp" / "schema.py"
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
    def __init__(self, stable: dict[str, Any], everything: dict[str, Any]) -> None:
        self.stable = stable
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
        return name not in MERGED and any(self.tag_of(v) for v in self.variants(self.defs[name]))

    def is_struct(self, name: str) -> bool:
        node = self.defs[name]
        return name in MERGED or (node.get("type") == "object" and not self.is_union(name))

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
                    constants = "const" in prop and "const" in found[name]
                    found[name] = {"type": "string"} if constants else {}
                found.setdefault(name, prop)
            every = needed if every is None else every & needed
        return found, required | (every or set())

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

    def text(self, source: str) -> str:
        head = textwrap.dedent(f'''\
            """The types of the Agent Client Protocol, to decode and encode its JSON. GENERATED.

            {textwrap.fill(source, 96, subsequent_indent=" " * 12)}

            Do not edit. Classes and fields that the stable schema lacks are marked as unstable.
            Enumerations are open: they are ``str``, with the known values in a comment. Unions are
            open too, and keep what they do not know as an `Unknown`.
            """

            # ruff: noqa: E501, RUF012
            from __future__ import annotations

            from typing import Any, ClassVar, TypeAlias

            from msgspec import field

            from arcp_client.acp._base import Base, Unknown, UnknownUpdate, Update

            ''')
        done: set[str] = {"Base", "Unknown", "UnknownUpdate", "Update"}
        body: list[str] = []
        waiting = dict(self.classes)
        while waiting:
            for name, (base, text) in list(waiting.items()):
                if base in done:
                    body.append(text)
                    done.add(name)
                    del waiting[name]
        update_union = next(a for a in self.aliases if a.startswith("SessionUpdate:"))
        names = update_union.partition("= ")[2].split(" | ")
        updates = (
            "UPDATES: tuple[type[Update], ...] = (\n"
            + "".join(f"    {n},\n" for n in names if not n.startswith("Unknown"))
            + ")\n"
        )
        defaults = f"UNTAGGED = {self.defaults!r}\n"
        tables = ["STABLE_METHODS", "UNSTABLE_METHODS", "UNTAGGED", "UPDATES"]
        exported = sorted([*self.classes, *(a.partition(":")[0] for a in self.aliases), *tables])
        everything = "__all__ = [\n" + "".join(f'    "{n}",\n' for n in exported) + "]\n"
        aliases = "\n".join(self.aliases) + "\n"
        # Aliases name classes; as annotations are strings they may stand behind them.
        return "\n".join([head, everything, *body, aliases, updates, defaults, self.methods()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="an unpacked @agentclientprotocol/sdk")
    package = parser.parse_args().package
    version = json.loads((package / "package.json").read_text())
    stable_path = package / "schema" / "v1" / "schema.json"
    every_path = package / "schema" / "v1" / "schema.unstable.json"
    digest = hashlib.sha256(every_path.read_bytes()).hexdigest()[:16]
    source = (
        f"Made by scripts/generate_acp_types.py from schema/v1/schema.json and schema.unstable.json"
        f" of npm {version['name']} {version['version']} (protocol version 1; sha256 {digest}…)."
    )
    generator = Generator(
        json.loads(stable_path.read_text())["$defs"], json.loads(every_path.read_text())["$defs"]
    )
    generator.run()
    OUT.write_text(generator.text(source))
    ruff = [sys.executable, "-m", "ruff"]
    subprocess.run([*ruff, "check", "--quiet", "--fix", "--select=I,RUF022", str(OUT)], check=False)
    subprocess.run([*ruff, "format", "--quiet", str(OUT)], check=False)


if __name__ == "__main__":
    main()
