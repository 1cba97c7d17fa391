# SPDX-License-Identifier: Apache-2.0
"""Entry points of the installed programs: ^C while modules are imported ends them quietly."""

from __future__ import annotations

import sys

_EXIT_INTERRUPTED = 130


def main() -> None:
    """Run ``nri-scope`` and exit with its status."""
    try:
        from .main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)


def cluster() -> None:
    """Run ``kubectl nri-scope`` and exit with its status."""
    try:
        from .kubectl.main import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)
