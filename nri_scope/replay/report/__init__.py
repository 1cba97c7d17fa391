# SPDX-License-Identifier: Apache-2.0
"""Format a replay's result for people, programs and CI systems.

In: events and results of a replay. Out: lines of text, one document, or JUnit XML. Values are
untrusted and are escaped here. This package never judges a reply.
"""

from .documents import change_record as change_record
from .documents import document as document
from .documents import junit as junit
from .text import ResultFormatter as ResultFormatter
from .text import differing as differing
