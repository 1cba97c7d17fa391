# SPDX-License-Identifier: Apache-2.0
"""Show pods and containers as a tree, with their states and counts of events.

In: pods, containers and events from the store. Out: lines, and messages about the selection. It
never reads the recording outside the store's threads.
"""
