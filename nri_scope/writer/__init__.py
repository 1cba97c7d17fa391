# SPDX-License-Identifier: Apache-2.0
"""Write a recording in a separate process, for a process that talks to a runtime.

In: the entries of an `Outbox` (`nri_scope.capture`), from the event loop of the responder, which is
the process that replies or relays. Out: a writer process, which is replaced if it dies, and which
redacts, stores and prints the same entries some milliseconds later. If requested, it also queries
the CRI about the containers of stored events. This room never lets the responder wait for the
recording, and connects to NRI's socket only to deregister a validator whose process was killed.
"""
