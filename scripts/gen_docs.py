# SPDX-License-Identifier: Apache-2.0
"""Generate pages of docs/ from commands, schema and key bindings, and share/ from the commands.

Also write the present output of the README's commands into README.md.

``--check`` writes nothing, and fails if a file is out of date.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from pathlib import Path

from scripts import (
    cli_reference,
    completions,
    man_pages,
    plugins_page,
    readme_page,
    recording_format,
    redaction_page,
    report_page,
    tui_page,
)

ROOT = Path(__file__).parent.parent
SHARE = ROOT / "share"
"""Installed by the wheel below the prefix; all files are generated."""


def render() -> dict[Path, str]:
    """Return the text of every generated file by its path."""
    files = {
        readme_page.PATH: readme_page.render(),
        ROOT / "docs/cli.md": cli_reference.render(),
        plugins_page.PAGE: plugins_page.render(),
        ROOT / "docs/recording-format.md": recording_format.render(),
        ROOT / "docs/redaction.md": redaction_page.render(),
        report_page.PAGE: report_page.render(),
        ROOT / "docs/tui.md": tui_page.render(),
    }
    files |= {SHARE / "man/man1" / name: page for name, page in man_pages.render().items()}
    files |= {SHARE / place: script for place, script in completions.render().items()}
    return files


def main() -> int:
    """Write the files; with ``--check`` return 1 if a file is out of date."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, fail on a difference")
    check = parser.parse_args().check
    fresh = render()
    outdated = {path for path in SHARE.rglob("*") if path.is_file()} - fresh.keys()
    stale = False
    for path, text in [*fresh.items(), *((path, "") for path in sorted(outdated))]:
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        elif current != text:
            stale = True
            name = path.relative_to(ROOT).as_posix()
            sys.stdout.writelines(
                difflib.unified_diff(
                    current.splitlines(keepends=True),
                    text.splitlines(keepends=True),
                    name,
                    f"{name} (make docs)",
                )
            )
    if not check:
        for path in outdated:
            path.unlink()
    return int(stale)


if __name__ == "__main__":
    sys.exit(main())
