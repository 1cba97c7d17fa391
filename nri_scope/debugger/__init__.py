# SPDX-License-Identifier: Apache-2.0
"""Debug a plugin: a replay that stops before events, on a screen.

In: a job of `replay`, and keys. Out: the events with their requests, replies and changes, and what
differs from the run before. Recordings are untrusted: every text is escaped. This room never sends
a request itself; `replay` does.
"""
