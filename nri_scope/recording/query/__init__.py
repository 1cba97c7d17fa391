# SPDX-License-Identifier: Apache-2.0
"""Answer questions about a recording that need more than one row.

In: a `Recording` of `..reading`, and a name, a filter, a pod, a container or a time. Out: what is
meant (`lookup`), its events (`container_events`, `event_pages`), what was observed (`coverage`),
what became of creations, and counts (`stats`). This package never attributes a change to a plugin,
and never writes to the recording.
"""
