# SPDX-License-Identifier: Apache-2.0
"""The view of runtimes, plugin connections and gaps."""
