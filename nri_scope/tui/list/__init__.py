# SPDX-License-Identifier: Apache-2.0
"""Show the list of events: columns, cells, reading rows around the screen, scrolling and following.

In: a view of the store, keys. Out: drawn rows, and messages about the selected row. It never waits
for the recording while drawing.
"""
