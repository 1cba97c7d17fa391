# SPDX-License-Identifier: Apache-2.0
"""Turn a recording into a document to share, with findings about what went wrong in it.

In: an open recording. Out: bounded `Facts`, collected in one pass by `collect`, and HTML, Markdown
and the findings of ``--diagnose`` as views of them. This room does not depend on the command line,
and its views do not read the recording.
"""
