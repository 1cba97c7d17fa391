# SPDX-License-Identifier: Apache-2.0
"""README.md of a bundle: its facts match the manifest, and values never act as markup."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from nri_scope.recording.bundle.manifest import (
    Counts,
    Manifest,
    ManifestRuntime,
    Redaction,
    ReplacedValues,
)
from nri_scope.share.bundle.manifest_content import render
from tests.share.bundle.bundles import a_manifest

HOSTILE = (
    "<script>alert(1)</script> `|` [x](http://evil) \n# heading\n@everyone ![x](y) ~~~ \x1b[2J"
)


def test_page_lists_the_facts_of_the_manifest() -> None:
    page = render(
        replace(
            a_manifest(b""),
            counts=Counts(1_234, 5, 6, 1, 2, 3, 4),
            runtimes=(ManifestRuntime("containerd", "2.1.9", "0.8.0", True),),
            chain=("00-a", "10-b"),
            selection={"--where": "ns:shop"},
            note="It fails here",
            redaction=Redaction("default", (ReplacedValues("env-values", "container.env.X", 7),)),
        )
    )
    for words in (
        "It fails here",
        "| runtime | `containerd 2.1.9, NRI 0.8.0 (inferred)` |",
        "| plugins | `00-a`, `10-b` |",
        "| events | 1,234 (and 5 for context; 6 of the original left out) |",
        "| scope | 1 session, 2 pods, 3 containers |",
        "| gaps | 4 |",
        "| selected with | `--where` `ns:shop` |",
        "| `env-values` | 7 |",
    ):
        assert words in page
    assert "packed without redaction" not in page


def test_unredacted_bundle_has_a_warning() -> None:
    assert "**This bundle was packed without redaction.**" in render(a_manifest(b""))


def _outside_of_code(page: str) -> str:
    page = re.sub(r"^(~{3,}|`{3,})\w*\n.*?^\1$", "", page, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"(?<!`)(`+)(?!`).*?(?<!`)\1(?!`)", "", page)


@given(st.lists(st.sampled_from(["<", "`", "``", "~~~", "|", "\n", "\\", "x", "# ", "[", "\x1b"])))
def test_values_of_a_recording_never_act_as_markup(pieces: list[str]) -> None:
    text = "".join(pieces)
    plain = _outside_of_code(render(_with("")))
    assert _outside_of_code(render(_with(text))) == plain


def _with(text: str) -> Manifest:
    return replace(
        a_manifest(b""),
        runtimes=(ManifestRuntime(f"r{text}", "v", "", False),),
        chain=(f"p{text}", "q"),
        selection={"--where": f"w{text}"},
        note=f"n{text}",
        damage=f"d{text}",
        redaction=Redaction(f"r{text}", (ReplacedValues(f"r{text}", f"p{text}", 1),)),
    )


def test_values_do_not_end_a_table_cell() -> None:
    page = render(replace(a_manifest(b""), note=HOSTILE, damage=HOSTILE))
    assert "<script>" not in _outside_of_code(page)
    assert "\x1b" not in page
    for line in page.splitlines():
        if line.startswith("| damaged"):
            assert len(re.findall(r"(?<!\\)\|", line)) == 3


def test_many_runtimes_are_counted() -> None:
    many = tuple(ManifestRuntime(f"r{number}", "", "", False) for number in range(12))
    page = render(replace(a_manifest(b""), runtimes=many))
    assert page.count("| runtime |") == 6
    assert "| runtime | and 7 more |" in page
