# SPDX-License-Identifier: Apache-2.0
"""Diagnose why NRI does or does not work on a machine.

In: a host's files, processes and sockets. Out: checks with a status, a reason and a fix.
Evidence is gathered into plain dataclasses (``look_at_…``, ``read_…``, ``connect``, ``register``),
judged by pure functions (``check_…``) and rendered by `render`; `examine` combines them. This room
never changes the machine, and does not know recordings.
"""
