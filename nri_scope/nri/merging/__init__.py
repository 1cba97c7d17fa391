# SPDX-License-Identifier: Apache-2.0
"""Merge the replies of a chain of plugins as a runtime does.

In: requests and replies in the order of the chain, and an NRI version. Out: the merged reply,
owners of fields, refusals and dropped requests. It behaves like upstream's adaptation package,
releases 0.2.0 to 0.12.5, including its bugs; tests/interop compares both. iSulad's own merging is
in `isulad`. This package never models what a runtime does with the merged reply; see
`nri_scope.runtime` and `nri_scope.oci`.
"""

from .applied_reply import adjusted, updated, with_resources
from .creation import Creation
from .isulad import IsuladCreation, IsuladStopping
from .removable_fields import NOT_PASSED_ON
from .reply_context import Dropped
from .update_request import Stopping, Updating, unsolicited

__all__ = [
    "NOT_PASSED_ON",
    "Creation",
    "Dropped",
    "IsuladCreation",
    "IsuladStopping",
    "Stopping",
    "Updating",
    "adjusted",
    "unsolicited",
    "updated",
    "with_resources",
]
