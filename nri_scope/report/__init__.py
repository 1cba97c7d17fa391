# SPDX-License-Identifier: Apache-2.0
"""A recording as a document to send to other people, and what in it asks for attention.

`collect` goes through a recording once and keeps a bounded part of it as plain `Facts`; HTML,
Markdown and the findings of ``--diagnose`` are views of these.
"""
