# SPDX-License-Identifier: Apache-2.0
"""nri-scope: watch, record, compare and replay traffic between runtimes and NRI plugins."""

__version__ = "0.1.0"
