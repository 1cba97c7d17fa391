# SPDX-License-Identifier: Apache-2.0
"""A replay's result for people, for programs and for CI systems."""

from .document import change_record, document
from .junit import junit
from .text import Report, differing

__all__ = ["Report", "change_record", "differing", "document", "junit"]
