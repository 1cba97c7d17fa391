# SPDX-License-Identifier: Apache-2.0
"""Reading and writing of ``manifest.json``."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.recording.bundle.manifest import (
    Counts,
    File,
    Manifest,
    ManifestError,
    ManifestRuntime,
    NewerBundle,
    Redaction,
    ReplacedValues,
    from_bytes,
    to_bytes,
)
from tests.share.bundle.bundles import a_manifest

_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)
_count = st.integers(0, (1 << 63) - 1)
_time = st.integers(-(1 << 63), (1 << 63) - 1)
_manifests = st.builds(
    Manifest,
    tool_version=_text,
    recording_version=_count,
    counts=st.builds(Counts, *[_count] * 7),
    first_ns=st.none() | _time,
    last_ns=st.none() | _time,
    runtimes=st.lists(
        st.builds(ManifestRuntime, _text, _text, _text, st.booleans()), max_size=2
    ).map(tuple),
    chain=st.lists(_text, max_size=3).map(tuple),
    selection=st.dictionaries(_text, _text, max_size=3),
    redaction=st.none()
    | st.builds(
        Redaction,
        _text,
        st.lists(st.builds(ReplacedValues, _text, _text, _count), max_size=3).map(tuple),
    ),
    note=_text,
    damage=_text,
    files=st.dictionaries(
        _text, st.builds(File, _count, st.just("0123456789abcdef" * 4)), max_size=3
    ),
)


@given(_manifests)
def test_a_manifest_is_read_back_unchanged(manifest: Manifest) -> None:
    assert from_bytes(to_bytes(manifest)) == manifest


def test_unknown_keys_of_a_later_version_are_ignored() -> None:
    manifest = a_manifest(b"")
    document = json.loads(to_bytes(manifest))
    document["later"] = [{}]
    document["recording"]["later"] = 1
    assert from_bytes(json.dumps(document).encode()) == manifest


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("\xff", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ('{"a": ' * 100_000, "not JSON"),
        ("[]", "not an object"),
        ("{}", "no format"),
        ('{"format": 1}', "format in its manifest has the wrong type"),
        ('{"format": "other"}', "not a bundle's"),
        ('{"format": "nri-scope bundle", "format": "nri-scope bundle"}', "duplicate key"),
        ('{"format": "nri-scope bundle", "version": true}', "version in its manifest"),
        ('{"format": "nri-scope bundle", "version": 0}', "no version 0"),
        ('{"format": "nri-scope bundle", "version": -' + "9" * 4000 + "}", "version -9{19}… of"),
        ('{"format": "nri-scope bundle", "version": ' + "9" * 5000 + "}", "not JSON"),
        ('{"format": "nri-scope bundle", "version": 1}', "recording in its manifest"),
        (" " * (2 << 20), "too large"),
    ],
)
def test_an_invalid_manifest_s_error_names_the_problem(text: str, words: str) -> None:
    with pytest.raises(ManifestError, match=words):
        from_bytes(text.encode("latin-1"))


def test_a_newer_manifest_differs_from_an_invalid_one() -> None:
    with pytest.raises(NewerBundle, match="version 7, and this nri-scope reads up to 1"):
        from_bytes(b'{"format": "nri-scope bundle", "version": 7, "recording": []}')


def test_a_long_version_number_is_cut() -> None:
    with pytest.raises(NewerBundle, match=r"version 10{19}…, and"):
        from_bytes(b'{"format": "nri-scope bundle", "version": 1%s}' % (b"0" * 4000))


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@given(st.data())
def test_any_replaced_value_is_read_or_rejected(data: st.DataObject) -> None:
    manifest = a_manifest(b"")
    document = json.loads(to_bytes(manifest))
    place = document
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and data.draw(st.booleans()):
            place = place[key]
            continue
        place[key] = data.draw(_json)
        break
    with suppress(ManifestError):
        read = from_bytes(json.dumps(document).encode())
        assert from_bytes(to_bytes(read)) == read
