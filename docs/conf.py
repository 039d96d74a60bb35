"""Configuration of the documentation site: `make docs`. Pages are Markdown; the reference comes from docstrings.

Nothing is fetched from the network, neither when the site is built nor when it is viewed. Docstrings are written to be
read in the source and with `help`; what Sphinx needs beyond that is added here.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.ext.autodoc.mock import _MockObject

import kinetree

project = "Kinetree"
author = "The Kinetree developers"
copyright = author  # noqa: A001 - Sphinx's name
version = release = kinetree.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_title = f"Kinetree {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_logo = html_favicon = "_static/logo.svg"
html_copy_source = False
html_show_sphinx = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#1f5673", "color-brand-content": "#1f5673"},
    "dark_css_variables": {"color-brand-primary": "#8ec7e4", "color-brand-content": "#8ec7e4"},
}

myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence"]

napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_attr_annotations = True
napoleon_use_ivar = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
autodoc_default_options = {"members": True, "special-members": "__call__"}
# always, so that the site does not depend on what is installed; `kinetree.jax` sets entries of JAX's tables
autodoc_mock_imports = ["jax", "torch"]
_MockObject.__setitem__ = lambda *_: None
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries_show_parents = "hide"

_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)(?=(\w?))")


def _marked_up(text: str) -> str:
    """Backticks as in Markdown, and asterisks that mean themselves."""
    parts = re.split(r"(``.+?``)", _CODE.sub(lambda m: f"``{m[1]}``" + ("\\ " if m[2] else ""), text))
    return "".join(part if part.startswith("``") else re.sub(r"(?<!\\)\*", r"\*", part) for part in parts)


def _docstring(_app: Any, what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    if lines and what in ("attribute", "property", "data"):
        # napoleon would take what stands before the colon for a type
        lines[0] = lines[0].replace(": ", " – ", 1)
    lines[:] = [_marked_up(line) for line in lines]


def _left_out(_app: Any, _what: str, _name: str, member: Any, _skip: bool, _options: Any) -> bool | None:
    """Leave out fields of named tuples, which the class documents, and what is internal; None leaves it to others."""
    return True if str(member.__doc__).startswith(("Alias for field number", "Internal.")) else None


def setup(app: Any) -> None:
    """Connect the above, before napoleon."""
    app.connect("autodoc-process-docstring", _docstring, priority=100)
    app.connect("autodoc-skip-member", _left_out)
