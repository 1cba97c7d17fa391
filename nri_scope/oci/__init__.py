# SPDX-License-Identifier: Apache-2.0
"""Convert NRI containers and adjustments to parts of an OCI runtime spec, and compare specs.

In: NRI messages, and specs as JSON. Out: specs and their differences. `spec_of` converts a
container, `adjust` and `update` apply requests as a runtime would, `changes` compares two specs,
`apply` applies the result and `differences` is its form for readers, `remarks` lists requests that
a runtime drops, refuses or resolves. `value_at` looks up values by the paths of changes; `label`
and `path_of` convert a path to text for people and back; `read_spec` parses a spec file. Functions
are pure; this room never depends on recordings, connections or owners.
"""

from .adjustment import adjust as adjust
from .adjustment import sort_mounts as sort_mounts
from .apply_changes import apply as apply
from .apply_update import update as update
from .container import spec_of as spec_of
from .container import without_state as without_state
from .differences import Change as Change
from .differences import ChangeKind as ChangeKind
from .differences import changes as changes
from .differences import differences as differences
from .differences import same as same
from .path_labels import WHOLE as WHOLE
from .path_labels import label as label
from .path_labels import path_of as path_of
from .path_lookup import labels_at as labels_at
from .path_lookup import value_at as value_at
from .path_lookup import values_of_key as values_of_key
from .paths import pointer as pointer
from .paths import split as split
from .remarks import ONLY_THE_LIMIT as ONLY_THE_LIMIT
from .remarks import Remark as Remark
from .remarks import RemarkKind as RemarkKind
from .remarks import remarks as remarks
from .runtime_rules import RuntimeRules as RuntimeRules
from .runtime_rules import UpdatePath as UpdatePath
from .runtime_rules import runtime_rules_of as runtime_rules_of
from .runtime_rules import shows_start as shows_start
from .spec import ABSENT as ABSENT
from .spec import Absent as Absent
from .spec import Json as Json
from .spec import Spec as Spec
from .spec_file import read_spec as read_spec
