# SPDX-License-Identifier: Apache-2.0
"""Write the output of commands into README.md: two lines each, as the commands print them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PATH = ROOT / "README.md"

SHOWN = {
    "nri-scope blame": (r" FOO=", r" shares: "),
    "nri-scope report": (r"missed its deadline", r"was disconnected"),
    "nri-scope replay": (r"^payments-prod/checkout-api-\S+x2x9z/checkout-api$", r"^  \+ devices"),
}
"""Patterns of the lines to show, by the beginning of the command."""

_BLOCKS = re.compile(r"^```\n(.*)\n```\n\n```text\n(?:.*\n)*?```$", re.MULTILINE)
"""A command, and a block with its output."""


def render() -> str:
    """Return README.md with the present output of its commands."""
    return _BLOCKS.sub(
        lambda block: f"```\n{block[1]}\n```\n\n```text\n{_lines(block[1])}```",
        PATH.read_text(encoding="utf-8"),
    )


def _lines(command: str) -> str:
    """Return the lines to show of a command's output."""
    (patterns,) = (shown for beginning, shown in SHOWN.items() if command.startswith(beginning))
    output = run(command).stdout
    found = [re.search(f".*(?:{pattern}).*\n", output, re.MULTILINE) for pattern in patterns]
    if None in found:
        raise SystemExit(f"README.md: {command}: no line matches one of {patterns}:\n{output}")
    return "".join(line[0] for line in found if line is not None)


def run(command: str) -> subprocess.CompletedProcess[str]:
    """Run a command line of the README in this checkout, as after activating its environment."""
    environment = {
        **{name: value for name, value in os.environ.items() if name != "COLUMNS"},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TZ": "UTC",
        "LC_ALL": "C.UTF-8",
    }
    return subprocess.run(
        ["sh", "-c", command],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
