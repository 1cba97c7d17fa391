# SPDX-License-Identifier: Apache-2.0
"""A container adjusted as an NRI message has the same spec as its adjusted OCI spec.

The two implementations are independent; the second is tested against upstream's generator.
"""

from __future__ import annotations

from collections.abc import Iterator

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import AdjustmentRefused
from nri_scope.nri.merging import CreationMerging, UpdateMerging, adjusted, with_resources
from nri_scope.oci import adjust, spec_of, update
from nri_scope.specs import Spec
from tests.interop.merge_cases import PLUGINS, Case, generated
from tests.interop.merging import apply

CASES = 1000


def merged(case: Case) -> CreationMerging | UpdateMerging | None:
    """Merge a case's replies; None if they are rejected or the event has no effect of its own.

    Classes are omitted: no message contains their meaning, and a spec only their names.
    """
    merging: CreationMerging | UpdateMerging
    if isinstance(case.request, api.CreateContainerRequest):
        merging = CreationMerging(case.request)
    elif isinstance(case.request, api.UpdateContainerRequest):
        merging = UpdateMerging(case.request)
    else:
        return None
    try:
        for reply, plugin in zip(case.replies, PLUGINS, strict=False):
            apply(merging, reply, plugin)
    except AdjustmentRefused:
        return None
    return merging


def without_classes(resources: api.LinuxResources) -> None:
    for name in ("rdt_class", "blockio_class"):
        resources.ClearField(name)


def comparable(spec: Spec) -> Spec:
    """Return a spec without values that NRI cannot show, and one huge page limit per size."""
    spec.pop("cdiDevices", None)
    linux = spec.get("linux")
    if isinstance(linux, dict):
        linux.pop("memoryPolicy", None)
        resources = linux.get("resources")
        if isinstance(resources, dict) and isinstance(resources.get("hugepageLimits"), list):
            limits = resources["hugepageLimits"]
            assert isinstance(limits, list)
            resources["hugepageLimits"] = {
                str(limit["pageSize"]): limit for limit in limits if isinstance(limit, dict)
            }
        if not linux:
            del spec["linux"]
    return spec


def pairs() -> Iterator[tuple[str, Spec, Spec]]:
    for case in generated(CASES):
        merging = merged(case)
        if merging is None:
            continue
        container = api.Container()
        container.CopyFrom(case.request.container)
        without_classes(container.linux.resources)
        if isinstance(merging, CreationMerging):
            adjustment = merging.adjustment
            without_classes(adjustment.linux.resources)
            shown, made = adjusted(container, adjustment), adjust(spec_of(container), adjustment)
        else:
            resources = merging.resources
            without_classes(resources)
            shown, made = (
                with_resources(container, resources),
                update(spec_of(container), resources),
            )
        yield case.name, comparable(spec_of(shown)), comparable(made)


def test_both_implementations_give_the_same_spec() -> None:
    compared = 0
    for name, shown, made in pairs():
        assert shown == made, name
        compared += 1
    assert compared > CASES / 2
