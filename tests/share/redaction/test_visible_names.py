# SPDX-License-Identifier: Apache-2.0
"""Values are recognized as part of a name at any offset."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.share.redaction.visible_names import VisibleNames

_NAMES = st.text("ab-", min_size=1, max_size=24)


@given(names=st.lists(_NAMES, unique=True, max_size=12), value=_NAMES, data=st.data())
def test_parts_of_names_are_found(names: list[str], value: str, data: st.DataObject) -> None:
    visible = VisibleNames()
    for name in names:
        visible.add(name)
    if names:
        name = data.draw(st.sampled_from(names))
        start = data.draw(st.integers(0, len(name) - 1))
        part = name[start : data.draw(st.integers(start + 1, len(name)))]
        assert visible.have_part(part)
        assert name in visible

    assert visible.have_part(value) == any(value in name for name in names)
    assert (value in visible) == (value in names)


def test_the_oldest_names_are_dropped() -> None:
    visible = VisibleNames(100)
    for number in range(20):
        visible.add(f"name-{number:04}")

    assert not visible.have_part("name-0001") and "name-0001" not in visible
    assert visible.have_part("ame-0019") and "name-0019" in visible
