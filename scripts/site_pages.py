# SPDX-License-Identifier: Apache-2.0
"""Add pages from outside docs/ to the site: the project's pages, and API pages from docstrings.

MkDocs calls these functions, see `hooks` in mkdocs.yml.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PROJECT_PAGES = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
}
"""Files in the project's root folder, with their names on the site."""
LIBRARY = ("api", "plugin", "pytest_plugin", "errors")
"""Modules with docstrings for users."""

_PROJECT_LINK = re.compile(r"\]\(docs/([^)]*)\)|(src(?:set)?=\")docs/")
_OUTSIDE_LINK = re.compile(r"\[([^]]*)\]\(\.\./([^)]*)\)")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the project's pages and the API pages."""
    for name, page in PROJECT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        inside = _PROJECT_LINK.sub(lambda m: f"]({m[1]})" if m[1] else m[2], text)
        files.append(File.generated(config, page, content=inside))
    for name in LIBRARY:
        text = f"# nri_scope.{name}\n\n::: nri_scope.{name}\n"
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Redirect links to the project's pages; replace links to files that are not on the site."""

    def inside(link: re.Match[str]) -> str:
        text, target = link.groups()
        return f"[{text}]({PROJECT_PAGES[target]})" if target in PROJECT_PAGES else f"`{text}`"

    return _OUTSIDE_LINK.sub(inside, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Replace the double colon of a docstring before an example with a single one."""
    return html.replace("::</p>", ":</p>")
