"""Sphinx configuration: Markdown pages, the API reference from docstrings."""

import importlib.util
from importlib.metadata import version as installed_version

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
autodoc_default_options = {"members": True, "show-inheritance": True}
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_class_signature = "mixed"
napoleon_use_ivar = True
napoleon_use_rtype = False
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

# A reference page is built once its module is there.
for _page in (
    "client", "errors", "events", "job", "models", "policy", "runtime", "rx", "stores", "testing",
    "transports",
):  # fmt: skip
    _spec = importlib.util.find_spec(f"arcp_client.{_page}")
    if _spec is None or _spec.origin is None:
        exclude_patterns.append(f"reference/{_page}.md")
