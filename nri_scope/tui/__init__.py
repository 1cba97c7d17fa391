# SPDX-License-Identifier: Apache-2.0
"""Show a recording in the terminal.

In: a recording's path, keys and the mouse. Out: a screen, and the files created by keys. The app
composes the frame, the views and the commands. This room uses the recording's readers, and
contains neither SQL nor knowledge of how the file is written.
"""
