"""The documentation site: Markdown beside the code, the API and the commands from the code."""

from __future__ import annotations

import sys
from pathlib import Path

from tripheno import __version__

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

project = "tripheno"
author = "The tripheno authors"
copyright = author
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "command_reference", "plain_docstrings"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "_extensions"]
autodoc_typehints = "description"
autodoc_member_order = "bysource"
nitpicky = False

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["tripheno.css"]
html_title = f"tripheno {release}"
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "light_css_variables": {
        "color-brand-primary": "#2f6fa8",
        "color-brand-content": "#1f5c94",
    },
}
