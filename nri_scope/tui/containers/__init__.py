# SPDX-License-Identifier: Apache-2.0
"""Show pods and containers as an outline, with counts of their lives.

In: pods, containers and events from the store. Out: lines, and messages about what was chosen. The
recording is read only in the store's threads.
"""
