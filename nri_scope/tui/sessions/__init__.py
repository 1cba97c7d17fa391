# SPDX-License-Identifier: Apache-2.0
"""Show runtimes, plugin connections and gaps.

In: sessions and gaps from the store. Out: lines, and messages about what was chosen. The recording
is read only in the store's threads.
"""
