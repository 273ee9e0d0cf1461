"""Writes ``llms.txt``, ``llms-full.txt`` and a Markdown copy of each page, for language models.

The format is that of https://llmstxt.org: a title, a summary, and lists of links with
descriptions. Pages are Markdown with the examples that they include; the reference is plain text,
as Sphinx renders the docstrings.
"""

from __future__ import annotations

import re
from pathlib import Path

from descriptions import description
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.builders.text import TextBuilder
from sphinx.writers.text import TextTranslator

INCLUDE = re.compile(
    r"^```\{literalinclude\} (\S+)\n(?::language: (\w+)\n)?(?::\w+:.*\n)*```$", re.MULTILINE
)
MARKDOWN_INCLUDE = re.compile(r"^```\{include\} (\S+)\n(?::[\w-]+:.*\n)*```$", re.MULTILINE)
TOCTREE = re.compile(r"^```\{toctree\}\n.*?^```\n", re.MULTILINE | re.DOTALL)
AUTODOC = re.compile(r"^\.\. (auto\w+|py:\w+)::", re.MULTILINE)
FRONT_MATTER = re.compile(r"\A---\n.*?^---\n", re.MULTILINE | re.DOTALL)
RELATIVE = re.compile(r"\]\((?!https?://|#)([^)\s#]*\.md)")


def markdown(app: Sphinx, page: str) -> str:
    """One page as text, without anything that only Sphinx understands."""
    path = Path(app.env.doc2path(page))
    text = FRONT_MATTER.sub("", path.read_text(encoding="utf-8"))
    if AUTODOC.search(text):
        return rendered(app, page)

    def included(found: re.Match[str]) -> str:
        code = (path.parent / found[1]).read_text(encoding="utf-8").rstrip("\n")
        return f"```{found[2] or ''}\n{code}\n```"

    def inserted(found: re.Match[str]) -> str:
        return (path.parent / found[1]).read_text(encoding="utf-8").rstrip("\n")

    text = MARKDOWN_INCLUDE.sub(inserted, INCLUDE.sub(included, text))
    return TOCTREE.sub("", text).strip() + "\n"


def rendered(app: Sphinx, page: str) -> str:
    """A page of the reference as plain text."""
    builder = TextBuilder(app, app.env)
    builder.secnumbers = {}
    tree = app.env.get_and_resolve_doctree(page, builder, tags=app.tags, prune_toctrees=True)
    translator = TextTranslator(tree, builder)
    tree.walkabout(translator)
    return f"{translator.body.strip()}\n"


def sections(app: Sphinx) -> list[tuple[str, list[str]]]:
    """The captions of the first page, each with its pages and the pages below these."""
    below = app.env.toctree_includes

    def tree(page: str) -> list[str]:
        return [page, *(deeper for child in below.get(page, ()) for deeper in tree(child))]

    start = app.env.get_doctree(app.config.root_doc)
    return [
        (toctree["caption"], [page for _, entry in toctree["entries"] for page in tree(entry)])
        for toctree in start.findall(addnodes.toctree)
    ]


def write(app: Sphinx, failure: Exception | None) -> None:
    if failure is not None or app.builder.name != "html":
        return
    env, out = app.env, Path(app.outdir)
    base = str(app.config.html_baseurl)
    root = app.config.root_doc
    summary = description(env.get_doctree(root))
    head = f"# {app.config.project} {app.config.release}\n\n> {summary}\n"
    links, full = [head], [head, markdown(app, root)]
    for caption, pages in sections(app):
        links.append(f"\n## {caption}\n")
        for page in dict.fromkeys(pages):
            text = markdown(app, page)
            copy = out / f"{page}.md"
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(text, encoding="utf-8")
            about = description(env.get_doctree(page))
            title = env.titles[page].astext()
            links.append(f"- [{title}]({base}{page}.md)" + (f": {about}" if about else ""))
            full.append(f"\n---\n\nSource: {base}{page}.html\n\n{text}")
    (out / f"{root}.md").write_text(markdown(app, root), encoding="utf-8")
    (out / "llms.txt").write_text("\n".join(links) + "\n", encoding="utf-8")
    (out / "llms-full.txt").write_text("\n".join(full), encoding="utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
