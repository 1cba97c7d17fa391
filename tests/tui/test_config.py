# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.tui.actions import DEFAULT
from nri_scope.tui.config import MAX_SIZE, config_path, load, parsed

THEMES = ("dark", "light")


def test_without_a_file_everything_is_as_usual(tmp_path: Path) -> None:
    config = load(tmp_path / "keys.toml", THEMES)
    assert config.keymap is DEFAULT and config.theme == ""


def test_keys_and_theme_are_read(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_text('theme = "light"\n[keys]\nfollow = "f5"\nquit = ["Q", "ctrl+x"]\ntheme = []\n')
    config = load(path, THEMES)
    assert config.theme == "light"
    assert [config.keymap.shown(name) for name in ("follow", "quit", "theme")] == ["F5", "Q ^X", ""]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[keys]\nfollow = 'q'", "the key q is both quit and follow"),
        ("[keys]\nnothing = 'q'", "there is no action 'nothing'"),
        ("[keys]\nfollow = 1", "the keys of follow are not strings"),
        ("[keys]\nfollow = ''", "'' is not a key"),
        ("[keys]\nfollow = 'a,b'", "'a,b' is not a key"),
        ("[keys]\nfollow = 'ctrl+i'", "terminals cannot distinguish the key ^I of follow from Tab"),
        ("[keys]\nfollow = ['f5', 'ctrl+h']", "terminals cannot distinguish the key ^H of follow"),
        ("[keys]\nfollow = 'ctrl+m'", "terminals cannot distinguish the key ^M of follow"),
        ("keys = 3", "keys is not a table"),
        ("theme = 'pink'", "there is no theme 'pink'; choose one of dark, light"),
        ("colour = 'pink'", "unknown setting 'colour'"),
        ("[keys", "invalid TOML"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_with_the_way_out(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load(path, THEMES)
    assert str(error.value).startswith(f"{path}: {words}")
    assert "\n" not in str(error.value)
    assert error.value.hint


def test_a_file_that_is_no_text_or_too_large_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not valid UTF-8"):
        load(path, THEMES)
    path.write_bytes(b"#" * (MAX_SIZE + 1))
    with pytest.raises(UsageError, match="larger than"):
        load(path, THEMES)


def test_a_file_that_cannot_be_read_is_warned_of(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.mkdir()
    config = load(path, THEMES)
    assert config.keymap is DEFAULT
    assert config.warning.startswith(f"{path}: is a directory; using the default keys and theme")


def test_the_place_of_the_file_follows_xdg() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/etc/x"}) == Path("/etc/x/nri-scope/keys.toml")
    home = Path("~/.config/nri-scope/keys.toml").expanduser()
    assert config_path({"XDG_CONFIG_HOME": "relative"}) == config_path({}) == home


def test_the_example_of_the_docs_is_right() -> None:
    page = Path(__file__).parents[2] / "docs" / "tui.md"
    example = page.read_text().partition("```toml\n")[2].partition("```")[0]
    assert parsed(example, ("dark", "light", "ansi")).keymap.shown("follow") == "F5"
