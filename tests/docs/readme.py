# SPDX-License-Identifier: Apache-2.0
"""Parts of README.md: code blocks, commands and prose."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
TEXT = (ROOT / "README.md").read_text(encoding="utf-8")

_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(language: str = "", page: str = TEXT) -> list[str]:
    """The code blocks of a language; blocks without a language contain shell commands."""
    return [text for name, text in _BLOCK.findall(page) if name == language]


def commands() -> list[str]:
    """The lines of shell blocks, without comments."""
    lines = [line for block in blocks() for line in block.splitlines()]
    return [re.sub(r"\s+# .*", "", line) for line in lines if line.strip()]


def prose() -> str:
    """The text outside of code blocks."""
    return _BLOCK.sub("", TEXT)


def subcommand(line: str) -> tuple[str, list[str]] | None:
    """The nri-scope subcommand in a line, with its arguments; None for other programs."""
    words = shlex.split(line)
    if words[0] == "sudo":
        words = words[1:]
    return (words[1], words[2:]) if Path(words[0]).name == "nri-scope" else None
