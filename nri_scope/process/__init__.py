# SPDX-License-Identifier: Apache-2.0
"""Start helper processes and handle stop signals, in one way for all commands.

In: the name of a Python module, descriptors and arguments. Out: a process that runs the module
and ends when this one does, a channel of framed messages to it, and how it ended. This package
never knows the content of the messages, NRI, recordings or terminals.
"""
