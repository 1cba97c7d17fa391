# SPDX-License-Identifier: Apache-2.0
"""Bundles: a recording packed for sharing, ``*.nriscope.zip``, and taken out again.

A bundle is a zip of three files: a manifest, a README.md for people, and the recording. Nothing in
it is trusted that comes from somebody else; and nothing goes into it that was not looked at after
it was written.
"""

from nri_scope.recording.bundle.manifest import Manifest
from nri_scope.recording.bundle.unpack import read_manifest, unpack

from .bundle_export import MAX_BYTES, Bundle, Exported, export
from .redactor_choice import redactor_for, redactor_together

__all__ = [
    "MAX_BYTES",
    "Bundle",
    "Exported",
    "Manifest",
    "export",
    "read_manifest",
    "redactor_for",
    "redactor_together",
    "unpack",
]
