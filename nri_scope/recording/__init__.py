# SPDX-License-Identifier: Apache-2.0
"""Define the file format of recordings, and read recordings.

In: the path of a recording or a bundle, which may be untrusted. Each byte of it is treated as
hostile: where SQLite may open it is decided first, its schema is checked, counts and sizes have
limits, and every query has a time budget. Out: sessions, events, objects, gaps, notes and marks as
the values of `nri_scope.events`, log rows, statistics and documents. Only this room,
`nri_scope.recorder` and `nri_scope.share` use SQL and ``sqlite3``. This room never knows who
changed a value, or how anything is displayed beyond plain text.
"""
