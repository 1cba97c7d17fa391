# SPDX-License-Identifier: Apache-2.0
"""Run the commands of keys: filter, find, mark, copy, save, export, replay.

In: the parts of the screen that a command uses, as arguments, and the key. Out: a changed
view, a message, or a file. A command uses the app only to run background work.
"""
