# SPDX-License-Identifier: Apache-2.0
"""Open a bundle (``*.nriscope.zip``): one more way to open a recording.

The zip reader takes nothing for granted; `unpack` writes the recording to a private file only after
its manifest and sizes were checked.
"""
