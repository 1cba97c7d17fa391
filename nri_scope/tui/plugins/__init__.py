# SPDX-License-Identifier: Apache-2.0
"""Show the chain of plugins and their sessions, with counts and times of calls.

In: sessions, gaps and counts from the store. Out: lines, and messages about the selection. It never
reads the recording outside the store's threads.
"""
