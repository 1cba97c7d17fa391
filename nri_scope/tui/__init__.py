# SPDX-License-Identifier: Apache-2.0
"""Show a recording in the terminal.

In: a recording's path, keys and mouse events. Out: a screen, and files created by commands. The app
composes the frame, the views and the commands. This room reads through the recording's readers, and
never depends on SQL or on how the file is written.
"""

import os

# Read by Textual at import. With its default of 60, a change may wait 17 ms until it is drawn.
os.environ.setdefault("TEXTUAL_FPS", "200")
