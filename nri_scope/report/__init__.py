# SPDX-License-Identifier: Apache-2.0
"""Turn a recording into a document to share, with findings about its problems.

In: an open recording. Out: bounded `Facts`, collected in one pass by `collect`, or the findings
alone by `diagnose`; HTML, Markdown and the findings of ``--diagnose`` as views of them. This room
never depends on the command line; its views never read the recording.
"""
