# SPDX-License-Identifier: Apache-2.0
"""``python -m nri_scope`` is ``nri-scope``."""

from nri_scope.cli.main import main

main()
