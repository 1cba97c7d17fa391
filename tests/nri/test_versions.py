# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.nri.versions import (
    NriVersion,
    has_dedicated_rpcs,
    has_split_sync,
    infer,
    runtime_remark,
    runtime_title,
    sends_nri_version,
    sort_key,
    valid_mask,
)

CRI_O_1_33 = "0.9.1-0.20250219030224-e597e7849f24"


def version(text: str) -> NriVersion:
    parsed = NriVersion.parse(text)
    assert parsed is not None
    return parsed


def test_versions_order_by_semantic_versioning() -> None:
    ordered = [
        "0.2.0",
        "v0.9.0",
        "0.9.1-0.20250101000000-aaaaaaaaaaaa",
        CRI_O_1_33,
        "0.10.0-alpha",
        "0.10.0-beta",
        "0.10.0-beta.2",
        "0.10.0-beta.11",
        "0.10.0-rc.1",
        "0.10.0",
        "v0.10.1",
        "0.12.2",
        "1.0.0",
    ]
    parsed = [version(text) for text in ordered]
    assert sorted(parsed, reverse=True) == parsed[::-1]
    assert version("v0.12.2") == version("0.12.2+build") != version("0.12.1")
    assert str(version("v0.12.2")) == "0.12.2"


@pytest.mark.parametrize("text", ["", "unknown", "(devel)", "0.0.0-unknown", "v", "1", "x.y.z"])
def test_texts_without_a_version_are_not_parsed(text: str) -> None:
    assert NriVersion.parse(text) is None


@given(st.text())
def test_any_text_is_a_version_or_none(text: str) -> None:
    key = sort_key(text)
    assert key is None or key >= (0, 0, 0, ())


@pytest.mark.parametrize("suffix", ["~ds1", "-k3s1", "-225-ge9dc15b7a.m", "+unknown", "-1ubuntu1"])
def test_vendor_suffixes_do_not_change_the_order(suffix: str) -> None:
    assert sort_key("1.7.24" + suffix) == sort_key("v1.7.24")


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("0.2.0", 0x07FF),
        ("0.8.0", 0x07FF),
        ("0.9.0", 0x07FF),
        ("0.9.1-0.20250101000000-aaaaaaaaaaaa", 0x07FF),
        (CRI_O_1_33, 0x1FFF),
        ("0.10.0", 0x3FFF),
        ("0.12.2", 0x3FFF),
        ("9.0.0", 0x3FFF),
    ],
)
def test_valid_masks_by_version(text: str, mask: int) -> None:
    assert valid_mask(version(text)) == mask


@pytest.mark.parametrize(
    ("name", "known"),
    [("containerd", True), ("cri-o", True), ("CRI-O", True), ("v2", True), ("newd", False),
     ("", False)],
)  # fmt: skip
def test_a_runtime_without_rules_has_a_remark(name: str, known: bool) -> None:
    assert runtime_remark(name) == ("" if known else " (unknown, treated like containerd)")


@pytest.mark.parametrize(
    ("runtime", "nri"),
    [("2.3.7", "0.12.0"), ("2.4.0", "0.12.3"), ("2.4.1", "0.12.3"), ("2.4.2", "0.12.3"),
     ("2.2.9", "0.11.0"), ("1.7.35", "0.8.0")],
)  # fmt: skip
def test_released_versions_of_containerd_have_the_nri_of_their_go_mod(
    runtime: str, nri: str
) -> None:
    assert infer("containerd", runtime) == version(nri)


def test_an_unknown_version_has_only_the_common_features() -> None:
    assert valid_mask(None) == 0x07FF
    assert not any(has(None) for has in (has_split_sync, has_dedicated_rpcs, sends_nri_version))


def test_features_begin_at_their_versions() -> None:
    for has, before, since in (
        (has_split_sync, "0.6.1", "0.7.0"),
        (has_dedicated_rpcs, "0.11.0", "0.12.0"),
        (sends_nri_version, "0.11.0", "0.12.0"),
    ):
        assert not has(version(before))
        assert has(version(since))


@pytest.mark.parametrize(
    ("runtime", "runtime_version", "nri"),
    [
        ("containerd", "1.6.20", None),
        ("containerd", "v1.7.0-beta.0", None),
        ("containerd", "v1.7.0", "0.3.0"),
        ("containerd", "1.7.6", "0.3.0"),
        ("containerd", "1.7.13", "0.4.0"),
        ("containerd", "1.7.15", "0.6.0"),
        ("containerd", "1.7.24~ds1", "0.6.1"),
        ("containerd", "1.7.25", "0.6.1"),
        ("containerd", "1.7.26", "0.8.0"),
        ("containerd", "1.7.99", "0.8.0"),
        ("containerd", "2.0.0-rc.5", "0.6.1"),
        ("containerd", "v2.0.0", "0.8.0"),
        ("containerd", "2.1.9+unknown", "0.8.0"),
        ("containerd", "v2.1.5-k3s1", "0.8.0"),
        ("containerd", "2.2.0", "0.10.0"),
        ("containerd", "v2.2.0-225-ge9dc15b7a.m", "0.10.0"),
        ("containerd", "2.2.1", "0.11.0"),
        ("containerd", "v2.3.0-beta.0", "0.11.0"),
        ("containerd", "2.3.4", "0.12.0"),
        ("containerd", "v2.4.0-beta.0", "0.12.1"),
        ("cri-o", "1.25.0", None),
        ("cri-o", "1.26.1", "0.2.0"),
        ("cri-o", "1.26.5", "0.3.1-0.20230504231226-94185418e253"),
        ("cri-o", "1.27.0", "0.3.0"),
        ("cri-o", "1.28.11", "0.3.1-0.20230504231226-94185418e253"),
        ("cri-o", "1.29.1", "0.5.0"),
        ("cri-o", "1.30.14", "0.6.0"),
        ("cri-o", "1.31.0", "0.6.1"),
        ("cri-o", "1.32.13", "0.9.0"),
        ("cri-o", "1.33.5-3.rhaos4.20.gitdeadbee.el9", CRI_O_1_33),
        ("cri-o", "1.34.0", "0.10.0"),
        ("cri-o", "1.36.3", "0.11.0"),
        ("cri-o", "1.37.0", "0.12.0"),
        ("v2", "2.0.0-beta.2+unknown", "0.6.1"),
        ("dockerd", "28.0.0", None),
        ("containerd", "main", None),
        ("", "", None),
    ],
)
def test_the_version_is_inferred_from_the_runtime(
    runtime: str, runtime_version: str, nri: str | None
) -> None:
    inferred = infer(runtime, runtime_version)
    assert (None if inferred is None else str(inferred)) == nri


def test_runtimes_have_their_usual_titles() -> None:
    assert [runtime_title(name) for name in ("containerd", "cri-o", "v2", "other")] == [
        "containerd",
        "CRI-O",
        "iSulad",
        "other",
    ]
