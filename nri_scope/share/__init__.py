# SPDX-License-Identifier: Apache-2.0
"""Prepare recordings for sharing: redact, extract a part, pack, or convert them.

In: an open recording, a selection of its events, and the user's rules. Out: a new recording
(`extract`), a bundle whose files were scanned for the replaced values (`bundle`), or another format
(`formats`). `redaction` also serves the recorder (``record --redact``) and commands that show a
recording. This package does not depend on command options or the screen.
"""
