# SPDX-License-Identifier: Apache-2.0
"""Add to the site what is not in docs/: the project's own pages, and the library's from docstrings.

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
"""Files of the project's folder, and what they are called on the site."""
LIBRARY = ("plugin", "pytest_plugin", "errors")
"""The modules whose docstrings are documentation for users."""

_PROJECT_LINK = re.compile(r"\]\(docs/([^)]*)\)|(src(?:set)?=\")docs/")
_OUTSIDE_LINK = re.compile(r"\[([^]]*)\]\(\.\./([^)]*)\)")


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    """Add the pages."""
    for name, page in PROJECT_PAGES.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        inside = _PROJECT_LINK.sub(lambda m: f"]({m[1]})" if m[1] else m[2], text)
        files.append(File.generated(config, page, content=inside))
    for name in LIBRARY:
        text = f"# nri_scope.{name}\n\n::: nri_scope.{name}\n"
        files.append(File.generated(config, f"api/{name}.md", content=text))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Link from docs/ to the project's pages; other files of the project are not on the site."""

    def inside(link: re.Match[str]) -> str:
        text, target = link.groups()
        return f"[{text}]({PROJECT_PAGES[target]})" if target in PROJECT_PAGES else f"`{text}`"

    return _OUTSIDE_LINK.sub(inside, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """End a paragraph before an example, which a docstring marks by two colons, with one."""
    return html.replace("::</p>", ":</p>")
