# SPDX-License-Identifier: Apache-2.0
"""Show a replay's result to people, programs and CI systems.

In: events and results of a replay. Out: lines of text, one document, or JUnit XML. Values are
untrusted and are escaped here. This package never judges a reply.
"""

from .document import change_record, document
from .junit import junit
from .text import Report, differing

__all__ = ["Report", "change_record", "differing", "document", "junit"]
