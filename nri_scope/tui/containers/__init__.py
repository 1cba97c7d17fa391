# SPDX-License-Identifier: Apache-2.0
"""Show pods and containers as an outline, with counts of their lives.

In: pods, containers and events from the store. Out: lines, and messages about what was chosen. It
never reads the recording outside the store's threads.
"""
