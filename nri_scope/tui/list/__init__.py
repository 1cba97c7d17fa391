# SPDX-License-Identifier: Apache-2.0
"""Show the list of events: columns, cells, rows read around the screen, scrolling and following.

In: a view of the store, and keys. Out: drawn rows, and messages about the selected row. Drawing
never waits for the recording.
"""
