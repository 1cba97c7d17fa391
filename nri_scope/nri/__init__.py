# SPDX-License-Identifier: Apache-2.0
"""The NRI vocabulary: events and masks, methods, versions, identities, the session, changes.

Pure functions and immutable values on top of the generated messages; no I/O and no clock.
"""
