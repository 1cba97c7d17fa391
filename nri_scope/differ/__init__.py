# SPDX-License-Identifier: Apache-2.0
"""Attribute changes of containers to plugins, and show them in OCI terms.

In: events of several connections, from a complete or a growing recording. Out: rounds with their
steps, histories of containers, comparisons, and these as text, Markdown and JSON. `attribution`
finds the owners, `blame` and `render` format them, `live` follows a growing recording. This room
never depends on the command line, or on the storage of a recording.
"""
