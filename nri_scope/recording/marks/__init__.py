# SPDX-License-Identifier: Apache-2.0
"""Keep users' marks and comments: in a recording, or beside one that cannot be written.

In: a recording's path, marks to set or to remove. Out: the newest mark of each event. This package
detects whether a recorder is writing and never keeps it waiting; it never changes anything else in
a recording.
"""
