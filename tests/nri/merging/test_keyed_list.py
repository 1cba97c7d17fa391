# SPDX-License-Identifier: Apache-2.0
"""An indexed list behaves like a plain one, and merging long lists is fast."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.nri.merging import adjusted
from nri_scope.nri.merging.fields import KeyedItems
from nri_scope.oci import adjust, spec_of

from .chains import creating, updating
from .merged_replies import update_response

MANY = 20_000
"""Fits in one reply; quadratic merging would take minutes."""

Item = tuple[str | None, int]
Edit = tuple[str, str, int]

keys = st.sampled_from(["a", "b", "c"])
items = st.tuples(st.none() | keys, st.integers())
edits = st.lists(st.tuples(st.sampled_from(["append", "remove", "replace"]), keys, st.integers()))


def first(members: list[Item], key: str) -> int | None:
    return next((place for place, item in enumerate(members) if item[0] == key), None)


@given(st.lists(items), edits)
def test_edits_equal_those_of_a_plain_list(before: list[Item], steps: list[Edit]) -> None:
    plain = list(before)
    indexed = KeyedItems(before, lambda item: item[0])
    for operation, key, number in steps:
        place = first(plain, key)
        if operation == "append":
            indexed.append((key, number))
            plain.append((key, number))
        elif operation == "remove":
            indexed.remove(key)
            if place is not None:
                del plain[place]
        else:
            assert indexed.replace((key, number)) == (place is not None)
            if place is not None:
                plain[place] = key, number
    assert list(indexed) == plain


def long_reply(kind: str, *, replace: bool = False) -> api.CreateContainerResponse:
    """Return a reply with many mounts and devices of `kind`; `replace` removes earlier ones."""
    reply = api.CreateContainerResponse()
    linux = reply.adjust.linux
    for number in range(MANY):
        if replace:
            reply.adjust.mounts.add(destination=f"-/{number}")
            linux.devices.add(path=f"-/{number}")
        else:
            linux.namespaces.add(type=str(number))
            linux.resources.hugepage_limits.add(page_size=str(number), limit=number)
        reply.adjust.mounts.add(destination=f"/{number}", type=kind)
        linux.devices.add(path=f"/{number}", type=kind)
        reply.adjust.env.add(key=f"-{number}")
    return reply


@pytest.mark.beyond_core
@pytest.mark.exhaustive
def test_replies_full_of_members_are_merged() -> None:
    merging = creating(a=long_reply("b"), b=long_reply("c", replace=True))
    adjustment = merging.adjustment
    # Applied twice, so that the second time every member exists.
    shown = adjusted(adjusted(merging.request.container, adjustment), adjustment)
    assert [mount.type for mount in shown.mounts] == ["c"] * MANY
    assert [device.type for device in shown.linux.devices] == ["c"] * MANY
    assert len(shown.linux.namespaces) == MANY
    spec = spec_of(shown)
    again = adjust(spec, adjustment)
    assert again["mounts"] == spec["mounts"]


@pytest.mark.beyond_core
def test_replies_full_of_updates_are_merged() -> None:
    reply = [api.ContainerUpdate(container_id="own") for _ in range(MANY)]
    for number, each in enumerate(reply):
        each.linux.resources.hugepage_limits.add(page_size=str(number), limit=number)
    merging = updating(reply)
    limits = [limit.limit for limit in merging.resources.hugepage_limits]
    assert limits == list(range(MANY))
    assert list(update_response(merging).update[-1].linux.resources.hugepage_limits) == list(
        merging.resources.hugepage_limits
    )
