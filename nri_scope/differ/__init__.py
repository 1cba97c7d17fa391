# SPDX-License-Identifier: Apache-2.0
"""Attribute changes of containers to plugins, and show them in OCI terms.

In: events of several connections, from a complete or a growing recording. Out: rounds with their
steps, histories of containers, comparisons, and these as text and JSON. `attribution`
finds the owners, `blame` and `render` format them, `live` follows a growing recording. This room
reads recordings through their reader, without SQL, and never depends on the command line.
"""
