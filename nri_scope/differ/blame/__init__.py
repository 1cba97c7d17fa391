# SPDX-License-Identifier: Apache-2.0
"""Show a container's spec line by line, with the owner and the previous value of each line.

In: a container's history from `attribution`. Out: lines with a gutter, or a JSON document.
This package never attributes changes, and never reads a recording.
"""
