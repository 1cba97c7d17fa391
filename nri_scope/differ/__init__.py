# SPDX-License-Identifier: Apache-2.0
"""Find out which plugin changed what of a container, and show it in OCI terms.

In: events of several connections, from a recording or from one that grows. Out: rounds with their
steps, histories of containers, comparisons, and these as text, Markdown and JSON. `attribution`
decides, `blame` and `render` only show, `live` follows. This room never knows the command line,
or how a recording is stored.
"""
