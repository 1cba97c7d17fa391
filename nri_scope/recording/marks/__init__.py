# SPDX-License-Identifier: Apache-2.0
"""Store users' marks and comments beside a recording.

In: a recording's path, and marks to set or remove. Out: the newest mark of each event, including
those in the recording. This package never changes a recording. It also detects whether a recorder
is writing, without blocking it.
"""
