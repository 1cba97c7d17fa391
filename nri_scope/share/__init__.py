# SPDX-License-Identifier: Apache-2.0
"""Prepare recordings for sharing: redacted, reduced to a part, packed, or in another format.

In: an open recording, a selection of its events, and the user's rules. Out: a new recording
(`extract`), a bundle whose files were scanned for the replaced values (`bundle`), or another
format (`formats`). `redaction` also serves the recorder (``record --redact``) and commands that
display a recording. This room never depends on command-line options or the terminal.
"""
