# SPDX-License-Identifier: Apache-2.0
"""Define the file format of recordings, and read recordings.

In: the path of a recording or a bundle, which may be untrusted. Every byte of it is treated as
hostile: its location is checked before SQLite opens it, then its schema; counts and sizes have
limits, and every query has a time budget. Out: sessions, events, objects, gaps, notes and marks as
values of `nri_scope.events`, log rows, statistics and documents. Only this room,
`nri_scope.recorder` and `nri_scope.share` use SQL and ``sqlite3``. This room never determines who
changed a value, and renders plain text only.
"""
