# SPDX-License-Identifier: Apache-2.0
"""Pack recordings as bundles (``*.nriscope.zip``) for sharing, and unpack them.

In: a recording, a selection and a redactor; or a bundle. Out: a zip of a manifest, a README.md for
people and the recording; or the recording. Finished files are scanned for every replaced value
before they are renamed to their final names. This package never assumes that redaction was
complete, and never trusts the content of a bundle.
"""

from .bundle_export import MAX_BYTES, Bundle, Exported, export
from .redactor_choice import redactor_for, redactor_for_comparison

__all__ = [
    "MAX_BYTES",
    "Bundle",
    "Exported",
    "export",
    "redactor_for",
    "redactor_for_comparison",
]
