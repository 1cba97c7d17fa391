# SPDX-License-Identifier: Apache-2.0
"""Count the differ's false statements and the statements with an unknown answer.

``python -m tests.differ.law_report [PLAYS [FIRST]]``
"""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from .node import Node
from .statements import Verdict, check


def report(first: int, plays: int) -> Verdict:
    """Run the plays with these seeds and print their false statements."""
    total = Verdict()
    for seed in range(first, first + plays):
        with TemporaryDirectory() as folder:
            node = Node(seed, Path(folder) / "play.nriscope.db")
            node.play()
            verdict = check(node)
        for one in verdict.false:
            print(f"seed {seed}, {node.runtime.name} {node.runtime.nri}: {one}")
        total.add(verdict)
    return total


def main() -> None:
    """Print the number and share of unknown answers by kind of statement."""
    plays, first = (int(one) for one in (*sys.argv[1:], *("100", "0")[len(sys.argv) - 1 :]))
    total = report(first, plays)
    print(f"{plays} plays, {len(total.false)} false statements")
    print(total)


if __name__ == "__main__":
    main()
