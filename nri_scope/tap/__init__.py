# SPDX-License-Identifier: Apache-2.0
"""Relay between a runtime and one plugin, and record what they send.

In: connected sockets of a runtime and of a plugin that is launched, is wrapped or connects on its
own. Out: every byte to the other end, in the callback in which it arrived; some milliseconds later,
requests paired with replies for the writer process. The relay never waits for the recording, and
never changes a byte.
"""
