# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from nri_scope.errors import UsageError
from nri_scope.tui.actions import DEFAULT
from nri_scope.tui.config import MAX_SIZE, config_path, load, parsed

THEMES = ("dark", "light")


def test_missing_file_gives_the_defaults(tmp_path: Path) -> None:
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
def test_invalid_file_gives_a_one_line_error_with_a_hint(
    tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "keys.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as error:
        load(path, THEMES)
    assert str(error.value).startswith(f"{path}: {words}")
    assert "\n" not in str(error.value)
    assert error.value.hint


def test_binary_or_oversized_file_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not valid UTF-8"):
        load(path, THEMES)
    path.write_bytes(b"#" * (MAX_SIZE + 1))
    with pytest.raises(UsageError, match="larger than"):
        load(path, THEMES)


def test_unreadable_file_gives_the_defaults_and_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "keys.toml"
    path.mkdir()
    config = load(path, THEMES)
    assert config.keymap is DEFAULT
    assert config.warning.startswith(f"{path}: is a directory; using the default keys and theme")


def test_config_path_follows_xdg() -> None:
    assert config_path({"XDG_CONFIG_HOME": "/etc/x"}) == Path("/etc/x/nri-scope/keys.toml")
    home = Path("~/.config/nri-scope/keys.toml").expanduser()
    assert config_path({"XDG_CONFIG_HOME": "relative"}) == config_path({}) == home


def test_documented_example_is_valid() -> None:
    page = Path(__file__).parents[2] / "docs" / "tui.md"
    example = page.read_text().partition("```toml\n")[2].partition("```")[0]
    assert parsed(example, ("dark", "light", "ansi")).keymap.shown("follow") == "F5"
