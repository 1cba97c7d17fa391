# SPDX-License-Identifier: Apache-2.0
"""Write a recording while it happens.

In: sessions and captured exchanges (`sink.Sink`), from an event loop that must never wait. They
pass through an inbox to one writer thread, which encodes them into rows, limits the size of the
ring and commits. Out: the SQLite file of `nri_scope.recording`, and each written event for a
printer. This room never knows sockets, who answers the runtime, or how a recording is shown;
redaction at the source is passed to it as an argument.
"""
