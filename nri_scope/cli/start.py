# SPDX-License-Identifier: Apache-2.0
"""Entry points of the installed programs: ^C while modules are imported ends them quietly."""

from __future__ import annotations

import importlib
import sys

_EXIT_INTERRUPTED = 130


def main(module: str = "nri_scope.cli.main") -> None:
    """Run ``nri-scope``, or another program's module, and exit with its status."""
    try:
        importlib.import_module(module).main()
    except KeyboardInterrupt:
        sys.exit(_EXIT_INTERRUPTED)


def cluster() -> None:
    """Run ``kubectl nri-scope`` and exit with its status."""
    main("nri_scope.cli.kubectl.main")
