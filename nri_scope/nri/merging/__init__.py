# SPDX-License-Identifier: Apache-2.0
"""What a runtime makes of the replies of a chain of plugins: merged, owned, refused or dropped.

This does what upstream's adaptation package does, releases 0.2.0 to 0.12.5, mistakes included, and
tests/interop proves it. The facts come from reading and running that package.
"""

from .applied_reply import adjusted, updated, with_resources
from .creation import Creation
from .removable_fields import NOT_PASSED_ON
from .turn import Dropped
from .update_request import Stopping, Updating, unsolicited

__all__ = [
    "NOT_PASSED_ON",
    "Creation",
    "Dropped",
    "Stopping",
    "Updating",
    "adjusted",
    "unsolicited",
    "updated",
    "with_resources",
]
