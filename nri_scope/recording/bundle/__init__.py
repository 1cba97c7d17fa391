# SPDX-License-Identifier: Apache-2.0
"""Open a bundle (``*.nriscope.zip``): one more way to open a recording.

In: the path of an untrusted zip. Out: its manifest, and the recording in a private file, written
only after manifest and sizes were checked. The zip reader never trusts a size, an offset or a name;
this package never makes bundles, see `nri_scope.share.bundle`.
"""
