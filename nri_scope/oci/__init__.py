# SPDX-License-Identifier: Apache-2.0
"""Show NRI containers and adjustments as parts of an OCI runtime spec.

In: NRI messages, and specs as JSON. Out: specs and their differences. `spec_of` makes a spec of a
container, `adjust` and `update` give the spec that a runtime would make of it, `changes` compares
two specs and `apply` applies the result, `remarks` names what a runtime drops, refuses or resolves
by itself. `value_at` and `walk` read a spec by the paths of changes; `read_spec` reads one from a
file. Functions are pure; this room never knows recordings, connections or owners.
"""

from .adjustment import adjust, sort_mounts
from .apply_changes import apply
from .apply_update import update
from .container import spec_of
from .differences import Change, ChangeKind, changes, same
from .path_lookup import labels_at, namesakes, value_at
from .paths import pointer, split
from .remarks import ONLY_THE_LIMIT, Remark, RemarkKind, remarks
from .runtime_rules import Manner, UpdatePath, manner_of
from .spec import ABSENT, Absent, Json, Spec
from .spec_file import read_spec
from .spec_lines import Form, SpecLine, walk

__all__ = [
    "ABSENT",
    "ONLY_THE_LIMIT",
    "Absent",
    "Change",
    "ChangeKind",
    "Form",
    "Json",
    "Manner",
    "Remark",
    "RemarkKind",
    "Spec",
    "SpecLine",
    "UpdatePath",
    "adjust",
    "apply",
    "changes",
    "labels_at",
    "manner_of",
    "namesakes",
    "pointer",
    "read_spec",
    "remarks",
    "same",
    "sort_mounts",
    "spec_of",
    "split",
    "update",
    "value_at",
    "walk",
]
