# SPDX-License-Identifier: Apache-2.0
"""Compare OCI runtime specs as JSON, look up values by path, and convert paths to text and back.

In: specs and paths. Out: changes, values, and text for people. `changes` compares two specs,
`apply` applies the result and `differences` is its form for readers. `value_at` looks up values by
the paths of changes; `label` and `path_of` convert a path to text for people and back. All
functions are pure; this room never depends on NRI.
"""

from .apply_changes import apply as apply
from .apply_changes import patch_of as patch_of
from .apply_changes import patched as patched
from .cgroup_values import agrees as agrees
from .differences import Change as Change
from .differences import ChangeKind as ChangeKind
from .differences import changes as changes
from .differences import differences as differences
from .differences import inverse as inverse
from .differences import same as same
from .differences import whole_change as whole_change
from .json_spec import ABSENT as ABSENT
from .json_spec import Absent as Absent
from .json_spec import Json as Json
from .json_spec import Spec as Spec
from .json_spec import is_within as is_within
from .json_spec import pointer as pointer
from .json_spec import split as split
from .json_spec import touches as touches
from .path_labels import label as label
from .path_labels import labels_at as labels_at
from .path_labels import path_of as path_of
from .path_labels import value_at as value_at
from .path_labels import values_of_key as values_of_key
