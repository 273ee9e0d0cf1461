"""The built documentation: complete, without internals, without broken links, searchable."""

from __future__ import annotations

import importlib
import json
import posixpath
import re
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.async_api import async_playwright
from sphinx.search.en import SearchEnglish

import arcp_client
from arcp_client.version import DOCS_URL
from tests.docs.site import DOCS, ROOT, Entry, Page, built_site, inventory
from tests.e2e.web.conftest import ARGS, chromium

pytestmark = pytest.mark.timeout(900)

MODULES = re.findall(
    r"^\| `(arcp_client[\w.]*)` \|", (DOCS / "reference" / "api.md").read_text("utf-8"), re.M
)
BEHIND = {"genindex.html", "py-modindex.html", "search.html"}


@pytest.fixture(scope="module")
def site() -> Path:
    return built_site()


@pytest.fixture(scope="module")
def names(site: Path) -> dict[str, Entry]:
    return inventory(site)


@cache
def pages_of(site: Path) -> dict[str, Page]:
    return {
        path.relative_to(site).as_posix(): Page(path.read_text(encoding="utf-8"))
        for path in sorted(site.rglob("*.html"))
        if "_static" not in path.parts
    }


# ------------------------------------------------------------------ the reference


def exported(module: str) -> list[str]:
    return [f"{module}.{name}" for name in importlib.import_module(module).__all__]


def test_the_table_of_public_modules_has_the_modules_of_the_front_door() -> None:
    assert "arcp_client" in MODULES
    assert len(MODULES) == len(set(MODULES))
    assert {f"arcp_client.{name}" for name in ("errors", "events", "rx", "testing")} <= set(MODULES)
    assert not [name for name in MODULES if "._" in name]


@pytest.mark.parametrize("module", MODULES)
def test_each_public_name_has_an_entry(module: str, names: dict[str, Entry]) -> None:
    assert [name for name in exported(module) if name not in names] == []


def test_nothing_else_has_an_entry(names: dict[str, Entry]) -> None:
    public = {name for module in MODULES for name in exported(module)} - set(MODULES)
    displayed = {name for name, entry in names.items() if not entry.alias}
    assert len(displayed) > 500

    def is_public(name: str) -> bool:
        """A module, an exported name, or a member of one."""
        parts = name.split(".")
        above = {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
        return name in MODULES or bool(above & public)

    assert sorted(name for name in displayed if not is_public(name)) == []
    assert [name for name in displayed if re.search(r"\._(?!_)", name)] == []


def test_the_front_door_is_listed_name_by_name() -> None:
    text = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\{py:\w+\}`~arcp_client\.(\w+)`", text))
    assert listed == set(arcp_client.__all__) - {"__version__"}


# ------------------------------------------------------------------ links


def test_each_link_inside_the_site_leads_to_a_page_and_an_anchor_that_exist(site: Path) -> None:
    pages = pages_of(site)
    broken = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = posixpath.normpath(
                posixpath.join(posixpath.dirname(name), unquote(parts.path)) if parts.path else name
            )
            if target not in pages:
                if not (site / target).is_file():
                    broken.append((name, link))
            elif parts.fragment and target not in BEHIND:
                anchor = unquote(parts.fragment)
                broken += [] if anchor in pages[target].anchors else [(name, link)]
    assert broken == []


def test_each_link_to_another_site_is_well_formed(site: Path) -> None:
    found = {link for page in pages_of(site).values() for link in page.links if ":" in link}
    wrong = []
    for link in found:
        parts = urlsplit(link)
        is_web = parts.scheme == "https" and re.fullmatch(
            r"[a-z0-9-]+(\.[a-z0-9-]+)+", parts.netloc
        )
        if not (is_web or parts.scheme in ("mailto", "data")) or " " in link:
            wrong.append(link)
    assert wrong == []
    own = [link for link in found if link.startswith(DOCS_URL)]
    for link in own:
        path = urlsplit(link).path.removeprefix(urlsplit(DOCS_URL).path) or "index.html"
        assert (site / path).is_file(), link


# ------------------------------------------------------------------ what surrounds the pages


def test_each_page_has_one_description_of_its_own(site: Path) -> None:
    found = {name: page.descriptions for name, page in pages_of(site).items() if name not in BEHIND}
    assert {name: texts for name, texts in found.items() if len(texts) != 1} == {}
    texts = [text for (text,) in found.values()]
    assert [text for text in texts if not 20 <= len(text) <= 300] == []
    assert len(set(texts)) == len(texts)


def test_pages_show_the_version_and_have_buttons_that_copy_code(site: Path) -> None:
    text = (site / "tutorial" / "01-first-job.html").read_text(encoding="utf-8")
    assert f"arcp-client {arcp_client.__version__}" in text
    assert "copybutton.js" in text


def test_the_site_has_changelog_contributing_and_security(site: Path) -> None:
    for page in ("reference/changelog", "contributing", "explanation/security"):
        assert f"{page}.html" in pages_of(site)


def test_every_page_is_in_the_navigation(site: Path) -> None:
    start = set(pages_of(site)["index.html"].links)
    missing = [
        page.relative_to(DOCS).with_suffix(".html").as_posix()
        for page in DOCS.rglob("*.md")
        if "_build" not in page.parts and page.name not in ("index.md", "e.md")
    ]
    assert [
        page for page in missing if page not in {link.partition("#")[0] for link in start}
    ] == []


# ------------------------------------------------------------------ search

FOUND = {
    "what is a lease": "explanation/what-is-arcp",
    "lease patterns": "reference/leases",
    "nginx": "howto/tls-and-proxies",
    "nginx buffering": "howto/stream-to-browsers",
    "retry": "howto/errors-and-retries",
    "idempotency key": "howto/errors-and-retries",
    "concat_map_async": "reference/rx",
    "celery": "howto/sync",
    "textual": "howto/textual",
    "systemd": "howto/deploy",
    "reference sdk": "howto/migrate",
}


@pytest.fixture(scope="module")
def index(site: Path) -> dict[str, object]:
    text = (site / "searchindex.js").read_text(encoding="utf-8")
    found = json.loads(text.removeprefix("Search.setIndex(").rstrip().removesuffix(")"))
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize("query", FOUND)
def test_a_search_finds_the_page_that_answers_it(query: str, index: dict[str, object]) -> None:
    """As the script of the search page does: each word, stemmed, in titles and texts."""
    stem = SearchEnglish({}).stem
    docnames, terms, titles = index["docnames"], index["terms"], index["titleterms"]
    assert isinstance(docnames, list)
    assert isinstance(terms, dict)
    assert isinstance(titles, dict)
    pages = set(range(len(docnames)))
    for word in set(query.lower().split()) - set(SearchEnglish.stopwords):
        hits: set[int] = set()
        for table in (terms, titles):
            numbers = table.get(stem(word), table.get(word, []))
            hits |= {numbers} if isinstance(numbers, int) else set(numbers)
        pages &= hits
    assert FOUND[query] in {docnames[number] for number in pages}


async def test_the_search_page_finds_it_in_a_browser(site: Path) -> None:
    path = chromium()
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=path, args=ARGS)
        page = await browser.new_page()
        await page.goto(f"{(site / 'search.html').as_uri()}?q=nginx")
        results = page.locator("#search-results li a")
        await results.first.wait_for()
        assert "TLS and proxies" in await results.all_inner_texts()
        await browser.close()


# ------------------------------------------------------------------ for language models


def test_llms_txt_links_to_a_copy_of_every_page(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    title, _, summary, *_ = text.splitlines()
    assert title == f"# arcp-client {arcp_client.__version__}"
    assert summary.startswith("> ")
    links = re.findall(r"^- \[[^]]+\]\((\S+)\)", text, re.MULTILINE)
    for link in links:
        assert link.startswith(DOCS_URL)
        assert (site / link.removeprefix(DOCS_URL)).is_file(), link
    pages = {name.removesuffix(".html") for name in pages_of(site)} - {"index", "e"}
    pages -= {name.removesuffix(".html") for name in BEHIND}
    assert {link.removeprefix(DOCS_URL).removesuffix(".md") for link in links} == pages


def test_llms_full_txt_has_the_pages_with_their_examples_and_the_reference(site: Path) -> None:
    text = (site / "llms-full.txt").read_text(encoding="utf-8")
    assert (ROOT / "examples" / "submit_and_follow.py").read_text(encoding="utf-8") in text
    assert "class arcp_client.Client(" in text
    for leftover in ("{literalinclude}", "{toctree}", "automodule::", "{eval-rst}"):
        assert leftover not in text
