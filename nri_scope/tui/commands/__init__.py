# SPDX-License-Identifier: Apache-2.0
"""Do what keys start: filter, find, mark, copy, save, export, replay.

In: the parts of the screen that a command works with, as arguments, and the key. Out: a changed
view, a message, or a file. A command never knows the app, except as the place for background work.
"""
