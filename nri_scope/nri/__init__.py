# SPDX-License-Identifier: Apache-2.0
"""Define NRI's vocabulary: events and masks, methods, versions, identities, sessions, changes.

In: payloads and protobuf messages. Out: immutable values on top of them, and replies that change
nothing. Functions are pure; this room never does I/O, never reads a clock, and never knows
recordings or OCI specs.
"""
