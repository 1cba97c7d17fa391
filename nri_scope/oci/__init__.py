# SPDX-License-Identifier: Apache-2.0
"""Convert NRI containers and adjustments to parts of an OCI runtime spec.

In: NRI messages, and specs as JSON. Out: specs. `spec_of` converts a container, `adjust` and
`update` apply requests as a runtime would, `remarks` lists requests that a runtime drops, refuses
or resolves. Functions are pure; this room never depends on recordings, connections or owners.
`nri_scope.specs` compares specs.
"""

from .adjustment import adjust as adjust
from .adjustment import sort_mounts as sort_mounts
from .container import spec_of as spec_of
from .container import without_state as without_state
from .remarks import ONLY_THE_LIMIT as ONLY_THE_LIMIT
from .remarks import Remark as Remark
from .remarks import empty_cpu_set as empty_cpu_set
from .remarks import remarks as remarks
from .runtime_rules import IGNORED as IGNORED
from .runtime_rules import LOGGED as LOGGED
from .runtime_rules import VOIDED as VOIDED
from .runtime_rules import RuntimeRules as RuntimeRules
from .runtime_rules import UpdatePath as UpdatePath
from .runtime_rules import runtime_rules_of as runtime_rules_of
from .runtime_rules import shows_start as shows_start
from .runtime_rules import update as update
