# SPDX-License-Identifier: Apache-2.0
"""Helper processes and stop signals: one mechanism for all commands.

In flow the name of a Python module, descriptors and arguments; out flows a process that runs the
module and ends when this one does, a channel of framed messages to it, and how it ended. This room
never knows what is in the messages, and nothing of NRI, recordings or terminals.
"""
