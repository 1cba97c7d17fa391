# SPDX-License-Identifier: Apache-2.0
"""Merge the replies of a chain of plugins as a runtime does.

In: requests and replies in the order of the chain, and an NRI version. Out: the merged reply,
owners of fields, refusals and dropped requests. It behaves like upstream's adaptation package,
releases 0.2.0 to 0.12.5, including its bugs; tests/interop compares both. iSulad's own merging is
in `isulad`. This package never models what a runtime does with the merged reply; see
`nri_scope.runtime` and `nri_scope.oci`.
"""

from .applied_reply import ADJUSTABLE as ADJUSTABLE
from .applied_reply import adjusted as adjusted
from .applied_reply import with_resources as with_resources
from .isulad import IsuladCreation as IsuladCreation
from .isulad import IsuladStopping as IsuladStopping
from .owners import Dropped as Dropped
from .removable_fields import NOT_PASSED_ON as NOT_PASSED_ON
from .reply_merging import EVICTION_IGNORED as EVICTION_IGNORED
from .reply_merging import CreationMerging as CreationMerging
from .reply_merging import StopMerging as StopMerging
from .reply_merging import UpdateMerging as UpdateMerging
from .reply_merging import drop_evictions as drop_evictions
from .updates import unsolicited as unsolicited
