# SPDX-License-Identifier: Apache-2.0
"""The documentation's pictures exist and show the current keys and views."""

from __future__ import annotations

import re
from html import unescape
from itertools import product

import pytest

from nri_scope.tui.actions import Scope, Situation, footer, key_of
from nri_scope.tui.views import SCOPES
from scripts.screens import FIRST, SCREENS, THEMES
from tests.docs.readme import ROOT, TEXT

IMAGES = ROOT / "docs" / "images"
PICTURES = [screen.file(theme) for screen in SCREENS for theme in THEMES]
README_PICTURES = [FIRST.file(theme) for theme in THEMES]
UPDATE_HINT = "run python -m scripts.make_screenshots"


def words(name: str) -> str:
    """The text in a picture, without spaces."""
    texts = re.findall(r"<text[^>]*>(.*?)</text>", (IMAGES / name).read_text(), re.DOTALL)
    return "".join(unescape("".join(texts)).split())


def test_every_picture_is_used_and_every_used_picture_exists() -> None:
    page = (ROOT / "docs" / "tui.md").read_text()
    shown = set(re.findall(r"images/(tui-[\w-]+\.svg)", page))
    assert shown == set(PICTURES)
    assert FIRST.html("docs/images") in TEXT
    assert shown | {*README_PICTURES} == {path.name for path in IMAGES.glob("*.svg")}


@pytest.mark.parametrize("name", README_PICTURES)
def test_the_readme_has_a_picture_of_a_change_with_its_owner(name: str) -> None:
    assert "30-env-injectorT~│-FOO=overridden#wasbar←30-env-injector" in words(name)


@pytest.mark.parametrize("name", [*README_PICTURES, *PICTURES])
def test_a_picture_loads_no_external_resources(name: str) -> None:
    svg = (IMAGES / name).read_text()
    assert not re.search(r"<script|@font-face|@import|href=|src=|url\((?!#)", svg)


def test_pictures_show_the_current_keys_and_views() -> None:
    flags = product((False, True), repeat=7)
    labels = {
        f"{key_of(action)}{label}".replace(" ", "")
        for place, some, marked in product((*SCOPES.values(), Scope.DETAIL), flags, (0, 2))
        for action, label in footer(Situation(place, marked, *some))
    }
    longest_first = sorted(labels, key=len, reverse=True)
    keys = re.compile(f"qquit\\?help({'|'.join(map(re.escape, longest_first))})+$")
    for name in [*README_PICTURES, *PICTURES]:
        seen = words(name)
        if "Esccloses" in seen:
            # An overlay hides the keys and views.
            continue
        assert keys.search(seen), f"{name}: {UPDATE_HINT}"
        for number, view in enumerate(SCOPES, 1):
            assert f"{number}{view.capitalize()}" in seen, f"{name}: {UPDATE_HINT}"
