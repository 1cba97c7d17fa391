# SPDX-License-Identifier: Apache-2.0
"""Turn a recording into a document to share, with findings about what went wrong in it.

In: an open recording. Out: bounded `Facts`, collected in one pass by `collect`, and HTML, Markdown
and the findings of ``--diagnose`` as views of them. This room never knows the command line; its
views never read the recording.
"""
