# SPDX-License-Identifier: Apache-2.0
"""Write the generated pages of docs/, or check that they are up to date (``--check``)."""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable
from pathlib import Path

from scripts import cli_reference, recording_format, redaction_page, tui_page

DOCS = Path(__file__).parent.parent / "docs"

PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_reference.render,
    "recording-format.md": recording_format.render,
    "redaction.md": redaction_page.render,
    "tui.md": tui_page.render,
}


def main() -> int:
    """Exit status 1 when ``--check`` finds a page that differs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing, fail on a difference")
    check = parser.parse_args().check
    stale = False
    for name, render in PAGES.items():
        path = DOCS / name
        page = render()
        if not check:
            path.write_text(page, encoding="utf-8")
            continue
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if current != page:
            stale = True
            sys.stdout.writelines(
                difflib.unified_diff(
                    current.splitlines(keepends=True),
                    page.splitlines(keepends=True),
                    f"docs/{name}",
                    "generated (make docs)",
                )
            )
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
