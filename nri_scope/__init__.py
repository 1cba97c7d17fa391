# SPDX-License-Identifier: Apache-2.0
"""nri-scope: see, record, compare and replay what runtimes and NRI plugins say to each other."""

__version__ = "0.1.0"
