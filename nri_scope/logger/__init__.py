# SPDX-License-Identifier: Apache-2.0
"""Record what a runtime sends, as a passive plugin or as several probes.

In: requests from `plugin`, and settings. Out: constant replies, at once, and captured exchanges for
the recorder, afterwards. This package never changes a container, never decodes an event before it
is answered, and does not know how the recording is used.
"""
