# SPDX-License-Identifier: Apache-2.0
"""An NRI container and what plugins adjust of it, as parts of an OCI runtime spec.

Pure functions on JSON values: `spec_of` makes a spec of a container, `adjust` and `update` give
the spec that a runtime would make of it, `changes` tells two specs apart,
`remarks` names what a runtime drops, refuses or resolves by itself.
"""

from .adjustment import adjust, sort_mounts
from .container import spec_of
from .differences import Change, Kind, changes, same
from .paths import pointer, split
from .remarks import Remark, RemarkKind, remarks
from .spec import Json, Spec
from .updating import update

__all__ = [
    "Change",
    "Json",
    "Kind",
    "Remark",
    "RemarkKind",
    "Spec",
    "adjust",
    "changes",
    "pointer",
    "remarks",
    "same",
    "sort_mounts",
    "spec_of",
    "split",
    "update",
]
