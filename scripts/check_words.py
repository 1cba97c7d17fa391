# SPDX-License-Identifier: Apache-2.0
"""Check that code, help texts and documentation are written in plain technical English.

Fails with ``path:line: word`` for each word of a private style. ``--count`` prints the number of
findings for each folder instead.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent

COVERED = ("*.md", "docs", "nri_scope", "scripts", "benchmarks", "examples")
"""Files and folders that are checked, as patterns below the root."""

EXCLUDED = (
    "nri_scope/_gen",
    # Describes releases in their original words.
    "CHANGELOG.md",
    # Quotes the words.
    "scripts/check_words.py",
)

INSTEAD = {
    r"whoever|whomever|whosoever": "who does it: the client, the caller, the reader",
    r"somebody|anybody|everybody|nobody": "the client, the caller, a user, no process",
    r"in vain": "without effect, not applied",
    r"likewise": "the same for …, also",
    r"what (?:is|are|was|were) (?:no|(?-i:none)|neither)": "the thing itself: 'other entries'",
    r"strangers?|stranger's": "untrusted",
    r"(?:any|every|no|some)(?:thing|one)? of ours|\w+ of ours": "our …, nri-scope's …",
    r"all else": "everything else, the rest",
    r"for ever|for good": "forever, permanently",
    r"doings": "changes, actions",
    r"manners": "behaviour",
    r"no news|no business": "what it means: no change, not handled here",
    r"let(?:s|ting)? go of": "free, release, drop",
    r"(?:is|are|was|were|be) told (?:of|about)": "gets, receives, is notified of",
}
"""Patterns of words to avoid, each with what to write instead."""

# A line break counts as a space, with the comment sign or quote mark that follows it.
_SPACE = r'(?:[ \t]+|[ \t]*"?\n[ \t]*(?:# |f?")?[ \t]*)'
_WORDS = {
    re.compile(rf"\b(?:{pattern.replace(' ', _SPACE)})\b(?![-_])", re.IGNORECASE): instead
    for pattern, instead in INSTEAD.items()
}


def findings(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the words found and what to write instead, in the order of lines."""
    found = [
        (
            text.count("\n", 0, match.start()) + 1,
            " ".join(re.findall(r"[\w'’-]+", match[0])),
            instead,
        )
        for pattern, instead in _WORDS.items()
        for match in pattern.finditer(text)
    ]
    yield from sorted(found)


def files() -> Iterator[Path]:
    """Yield the files to check."""
    for pattern in COVERED:
        for start in sorted(ROOT.glob(pattern)):
            inside = (path for kind in ("*.py", "*.md", "*.j2") for path in start.rglob(kind))
            for path in sorted(inside) if start.is_dir() else [start]:
                if not _below(path, EXCLUDED):
                    yield path


def main() -> int:
    """Return exit status 1 when a covered file has a word to avoid."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", action="store_true", help="print findings per folder, and pass")
    options = parser.parse_args()
    per_folder: Counter[str] = Counter()
    for path in files():
        for line, words, instead in findings(path.read_text(encoding="utf-8")):
            name = path.relative_to(ROOT)
            per_folder["/".join(name.parts[:2])] += 1
            if not options.count:
                sys.stdout.write(f"{name}:{line}: {words!r}; write: {instead}\n")
    if options.count:
        sys.stdout.writelines(f"{number:5} {name}\n" for name, number in sorted(per_folder.items()))
        return 0
    return 1 if per_folder else 0


def _below(path: Path, names: tuple[str, ...]) -> bool:
    return any(path.is_relative_to(ROOT / name) for name in names)


if __name__ == "__main__":
    sys.exit(main())
