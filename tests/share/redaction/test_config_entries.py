# SPDX-License-Identifier: Apache-2.0
"""Keys and values read from YAML, compared with PyYAML's output."""

from __future__ import annotations

import re
import string

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.share.redaction.config_entries import Entries
from tests.amount import amount

_SCALARS = st.text(
    string.ascii_letters + string.digits + ":#- ,'\"{[", min_size=1, max_size=12
).filter(
    # A trailing comma, or a bracket or quote right after a colon, is parsed as JSON.
    lambda text: not text.rstrip().endswith(",") and not re.search(r":[\[{\"']", text)
)
_DOCUMENTS = st.dictionaries(
    st.sampled_from(["host", "port", "db", "list"]),
    st.recursive(
        _SCALARS,
        lambda inside: (
            st.lists(inside, min_size=1, max_size=3)
            | st.dictionaries(
                st.sampled_from(["name", "value", "of", "items"]), inside, min_size=1, max_size=3
            )
        ),
        max_leaves=8,
    ),
    min_size=1,
    max_size=4,
)


@settings(max_examples=amount(150, 150), deadline=None)
@given(document=_DOCUMENTS, is_flow=st.sampled_from([False, True, None]))
def test_values_in_yaml_are_found_with_all_keys(
    document: dict[str, object], is_flow: bool | None
) -> None:
    text = yaml.safe_dump(document, default_flow_style=is_flow, width=1000)
    entries = Entries(text).list
    ours: list[tuple[tuple[str, ...], str]] = []
    for entry in entries:
        if entry.start >= 0:
            path = [entry.key]
            above = entry.above
            while above >= 0:
                path.append(entries[above].key)
                above = entries[above].above
            written = text[entry.start : entry.end]
            mark = entry.style or ""
            ours.append((tuple(reversed(path))[1:], yaml.safe_load(f"{mark}{written}{mark}")))

    expected = [(path, yaml.safe_load(yaml.safe_dump(value))) for path, value in _leaves(document)]
    assert sorted(map(str, ours)) == sorted(map(str, expected)), text


def _leaves(value: object, *path: str) -> list[tuple[tuple[str, ...], object]]:
    match value:
        case dict():
            return [found for key, member in value.items() for found in _leaves(member, *path, key)]
        case list():
            return [found for member in value for found in _leaves(member, *path, "")]
        case _:
            return [(path, value)]
