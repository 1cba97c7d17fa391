# SPDX-License-Identifier: Apache-2.0
"""Define the file format of recordings, and read recordings in every way.

In: the path of a recording or a bundle, which may be untrusted. Each byte of it is treated as
hostile: where SQLite may open it is decided first, its schema is checked, counts and sizes have
limits, and every query has a time budget. Out: sessions, events, objects, gaps, notes and marks as
the values of `nri_scope.events`, log rows, statistics and documents. SQL and ``sqlite3`` are known
here, in `nri_scope.recorder` and in `nri_scope.share`, and nowhere else. This room never knows who
changed what, or how anything is displayed beyond plain text.
"""
