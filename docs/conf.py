"""Sphinx configuration: Markdown pages, the API reference from docstrings."""

import inspect
from importlib.metadata import version as installed_version
from typing import Any

import ag_ui.core  # noqa: F401  autodoc reloads modules as type checkers see them; it cannot be
from sphinx.application import Sphinx

from arcp_client.events import Event

project = "arcp-client"
author = "arcp-client contributors"
copyright = "2026, arcp-client contributors"
release = version = installed_version("arcp-client")

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"arcp-client {release}"
html_show_sphinx = False
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


def setup(app: Sphinx) -> None:
    app.connect("autodoc-process-signature", own_fields_only)
