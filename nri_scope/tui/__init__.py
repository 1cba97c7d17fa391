# SPDX-License-Identifier: Apache-2.0
"""Show a recording in the terminal.

In: a recording's path, keys and the mouse. Out: a screen, and the files that a key makes. The app
composes the frame, the views and the commands. This room reads through the recording's readers, and
never knows SQL or how the file is written.
"""

import os

# Textual reads it when it is imported: its 60 let a change wait up to 17 ms before it is drawn.
os.environ.setdefault("TEXTUAL_FPS", "200")
