# SPDX-License-Identifier: Apache-2.0
"""Implement the commands of keys: filter, find, mark, copy, save, export.

In: the parts of the screen that a command uses, as arguments. Out: a changed view, a message, or a
file. A command never uses the app, except for background work and screens.
"""
