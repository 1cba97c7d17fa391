# SPDX-License-Identifier: Apache-2.0
"""Run the ``nri-scope`` command with ``python -m nri_scope``."""

from nri_scope.cli.start import main

main()
