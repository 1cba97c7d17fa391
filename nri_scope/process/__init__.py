# SPDX-License-Identifier: Apache-2.0
"""Start helper processes and handle stop signals, in the same way for all commands.

In: the name of a Python module, descriptors and arguments. Out: a process that runs the module
and ends with its parent, a channel of framed messages to it, and its exit status. This package
never depends on the content of the messages, NRI, recordings or terminals.
"""
