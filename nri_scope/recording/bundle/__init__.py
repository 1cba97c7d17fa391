# SPDX-License-Identifier: Apache-2.0
"""Open a bundle (``*.nriscope.zip``), a packed recording.

In: the path of an untrusted zip. Out: its manifest, and the recording in a private file, which is
written after manifest and sizes are checked. The zip reader never trusts a size, an offset or a
name; this package never creates bundles, which `nri_scope.share.bundle` does.
"""
