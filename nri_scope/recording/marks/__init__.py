# SPDX-License-Identifier: Apache-2.0
"""Store users' marks and comments: in a recording, or beside one that cannot be written.

In: a recording's path, and marks to set or remove. Out: the newest mark of each event. This package
detects whether a recorder is writing and never blocks it; it never changes anything but marks in a
recording.
"""
