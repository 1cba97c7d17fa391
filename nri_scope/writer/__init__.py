# SPDX-License-Identifier: Apache-2.0
"""Write a recording in a separate process, for a process that talks to a runtime.

In: sessions, captured exchanges and printed lines (`recorder.inbox.Sink`), in the event loop
of the responder, which is the process that replies or relays. Out: the same entries, some
milliseconds later, in a writer process, which redacts, stores and prints them, and which is
replaced if it dies. If requested, the writer process also queries the CRI about the containers of
stored events. This room never lets the responder wait for the recording, and connects to NRI's
socket only to deregister a validator whose process was killed.
"""
