"""Gives each public name an entry under every module that exports it.

The table in ``reference/api.md`` lists the public modules. An object is documented once; the other
modules that export it get an alias, so that references and other projects' intersphinx find it
under the name that programs import.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

MODULE = re.compile(r"^\| `(arcp_client[\w.]*)` \|", re.MULTILINE)


def public_modules(docs: Path) -> list[str]:
    """The modules that the table names, in its order."""
    return MODULE.findall((docs / "reference" / "api.md").read_text(encoding="utf-8"))


def add_aliases(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Register ``module.name`` for objects that are documented under another path."""
    objects = env.domains.python_domain.objects
    found: dict[int, str] = {}
    exported = [
        (f"{module}.{name}", getattr(importlib.import_module(module), name))
        for module in public_modules(Path(app.srcdir))
        for name in importlib.import_module(module).__all__
    ]
    for path, value in exported:
        if path in objects and not objects[path].aliased:
            found.setdefault(id(value), path)
    for path, value in exported:
        if path not in objects and id(value) in found:
            entry = objects[found[id(value)]]._replace(aliased=True)
            # the inventory lists modules from another table, which has no aliases
            objects[path] = entry._replace(objtype="data") if entry.objtype == "module" else entry
    return []


def setup(app: Sphinx) -> dict[str, bool]:
    for module in public_modules(Path(app.srcdir)):  # before autodoc, which reloads some of them
        importlib.import_module(module)
    app.connect("env-updated", add_aliases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
