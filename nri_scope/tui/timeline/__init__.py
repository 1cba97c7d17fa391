# SPDX-License-Identifier: Apache-2.0
"""Show lives of pods and containers to scale.

In: lives and events from the store. Out: lanes of characters, and messages about what was chosen.
It never reads the recording outside the store's threads.
"""
