# SPDX-License-Identifier: Apache-2.0
"""Write a recording while it happens.

In: sessions and captured exchanges, which an `Inbox` (`nri_scope.capture`) passes to one writer
thread. It encodes them into rows, limits the size of the ring and commits. Out: the SQLite file
that `nri_scope.recording` defines, and each written event, for printing. `complete_recording`
writes entries of other recordings by the same encoder. This room never uses sockets, replies to the
runtime or displays a recording; redaction at the source is passed in as an argument.
"""
