# SPDX-License-Identifier: Apache-2.0
"""Pack recordings as bundles (``*.nriscope.zip``) for sharing, and unpack them.

In: a recording, a selection and a redactor; or a bundle. Out: a zip of a manifest, a README.md for
people and the recording; or the recording. Finished files are scanned for every replaced value
before they are renamed to their final names. This package never assumes that redaction was
complete, and never trusts the content of a bundle.
"""

from .bundle_export import MAX_BYTES as MAX_BYTES
from .bundle_export import Bundle as Bundle
from .bundle_export import export as export
from .bundle_export import redactor_for as redactor_for
from .manifest_content import BundleContent as BundleContent
