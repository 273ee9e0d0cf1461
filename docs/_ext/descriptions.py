"""Gives each page a description for search engines: its front matter, or its first paragraph."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

LONGEST = 200


def description(doctree: nodes.document) -> str:
    """The first paragraph of a page, cut at a word."""
    for paragraph in doctree.findall(nodes.paragraph):
        if not isinstance(paragraph.parent, nodes.section):
            continue  # of a table, a list or a note
        text = " ".join(paragraph.astext().split())
        if len(text) > LONGEST:
            text = text[:LONGEST].rpartition(" ")[0].rstrip(",;:") + " …"
        return text
    return ""


def add_description(
    _app: Sphinx, _page: str, _template: str, context: dict[str, Any], doctree: Any
) -> None:
    if doctree is None or 'name="description"' in context.get("metatags", ""):
        return
    if text := description(doctree):
        node = nodes.meta(name="description", content=text)
        escaped = node["content"].replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
        context["metatags"] += f'<meta name="description" content="{escaped}" />\n'


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("html-page-context", add_description)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
