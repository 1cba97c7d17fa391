# SPDX-License-Identifier: Apache-2.0
"""Show runtimes, plugin connections and gaps.

In: sessions and gaps from the store. Out: lines, and messages about the selection. It never reads
the recording outside the store's threads.
"""
