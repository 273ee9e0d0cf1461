"""Sphinx configuration: Markdown pages, the API reference from docstrings."""

import inspect
import sys
import types
from pathlib import Path
from typing import Any

import ag_ui.core  # noqa: F401  autodoc reloads modules as type checkers see them; it cannot be
from sphinx.application import Sphinx

from arcp_client.acp import schema, updates
from arcp_client.events import Event
from arcp_client.job import JobHandle
from arcp_client.projection import fold
from arcp_client.version import DOCS_URL, __version__

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

fold.JobHandle = JobHandle  # imported there for type checkers only; autodoc resolves it by name

for name in updates.__all__:  # autodoc sees the names that a module has, not those it makes later
    getattr(updates, name)

project = "arcp-client"
author = "arcp-client contributors"
copyright = "2026, arcp-client contributors"
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "public_names",
    "descriptions",
    "llms",
]
exclude_patterns = ["_build", "_ext"]
html_theme = "furo"
html_title = f"arcp-client {release}"
html_baseurl = DOCS_URL
html_show_sphinx = False
copybutton_exclude = ".linenos, .gp, .go"  # copies commands without prompts and their output
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3

default_role = "literal"  # docstrings name things in single backticks
autodoc_default_options = {"members": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88


def own_fields_only(
    _app: Sphinx, what: str, _name: str, obj: Any, _options: Any, _signature: str, returns: str
) -> tuple[str, str] | None:
    """The fields that all events share are documented once, at ``Event``."""
    if what != "class" or not issubclass(obj, Event):
        return None
    shared = () if obj is Event else Event.__struct_fields__
    signature = inspect.signature(obj, eval_str=True)
    own = [
        parameter
        for name, parameter in signature.parameters.items()
        if name not in shared and not name.startswith("_")
    ]
    return str(signature.replace(parameters=own)), returns


def undocumented_fields(
    _app: Sphinx, _what: str, name: str, _obj: Any, _skip: bool, options: Any
) -> bool | None:
    """The types of ACP: the fields of a struct stand in its signature and in its docstring."""
    return True if options.undoc_members and name not in schema.__all__ else None


def no_docstring_of_unions(
    _app: Sphinx, _what: str, _name: str, obj: Any, _options: Any, lines: list[str]
) -> None:
    if isinstance(obj, types.UnionType):
        lines.clear()  # it is the docstring of the class of all unions


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-docstring", no_docstring_of_unions)
    app.connect("autodoc-process-signature", own_fields_only)
    app.connect("autodoc-skip-member", undocumented_fields)
