# SPDX-License-Identifier: Apache-2.0
"""Define NRI's vocabulary: events and masks, methods, versions, identities, sessions, changes.

In: payloads and protobuf messages. Out: immutable values derived from them, and replies that
request no change. Functions are pure; this room never does I/O, never reads a clock, and never
depends on recordings or OCI specs.
"""
