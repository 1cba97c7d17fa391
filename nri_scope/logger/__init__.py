# SPDX-License-Identifier: Apache-2.0
"""Record what a runtime sends, as a passive plugin or as several probes.

In: requests from `plugin`, and settings. Out: constant replies, sent immediately, and after that
the captured exchanges for the recorder. This package never changes a container, never decodes an
event before replying, and never depends on how the recording is used.
"""
