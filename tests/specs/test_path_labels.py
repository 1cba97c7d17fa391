# SPDX-License-Identifier: Apache-2.0
"""Labels of paths: their form, and that they name exactly one path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.nri.changes import path_of_field
from nri_scope.specs import pointer
from nri_scope.specs.json_spec import KEYED
from nri_scope.specs.path_labels import label, meaning, path_of
from nri_scope.text.escape import safe

_PLACES = ["", "/process", "/linux", "/linux/resources", "/annotations", "/env", "/memory", *KEYED]
_ODD = [
    *("", " ", "a b", " a", "a  b", "[", "]", "a]", "[x]", '"', 'a"b', "\\", "\\x1b", "\x1b[31m"),
    *("~", "~1", "/", "a/b", "\n", "\x00", "env", "env FOO", "memory", "devices", "process", "*"),
    *(".", "a.b", "FOO#2", "#2", "-", "\u202e", "\u200b", "［a］", "ａ", "é", "e\u0301", "\ud800"),
    *("(the whole spec)", '"env FOO"', "limit", "0", "а", "\u0301" * 9, "\\n", "\\U0000ff21"),
]
_KEYS = st.one_of(st.sampled_from(_ODD), st.text(max_size=8), st.from_regex(r"[A-Za-z]+"))
_PATHS = st.builds(
    lambda base, keys: base + "".join(pointer("", key) for key in keys),
    st.sampled_from(_PLACES),
    st.lists(_KEYS, max_size=4),
)
_ANY = st.one_of(_PATHS, st.sampled_from(["a", "env FOO", "/a~2", "/~", "/a~"]), st.text())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/process/env/FOO", "env FOO"),
        ("/process/env/FOO#2", "env FOO#2"),
        ("/process/env/A B", 'env "A B"'),
        ("/process/env", "env"),
        ("/process/env/FOO/x", "env[FOO].x"),
        ("/mounts/~1mnt~1tmp", "mounts[/mnt/tmp]"),
        ("/mounts/~1mnt~1tmp/options", "mounts[/mnt/tmp].options"),
        ("/annotations/example.com~1injected-by", "annotations[example.com/injected-by]"),
        ("/annotations/limit", "annotations[limit]"),
        ("/linux/devices/~1dev~1kvm", "devices[/dev/kvm]"),
        ("/linux/resources/devices/c 10:232", "resources.devices[c 10:232]"),
        ("/linux/resources/memory/limit", "memory.limit"),
        ("/linux/resources/unified/memory.high", "unified[memory.high]"),
        ("/linux/seccomp", "linux.seccomp"),
        ("/process/args", "args"),
        ("/process/oomScoreAdj", "process.oomScoreAdj"),
        ("/hooks/prestart/~1bin~1x", "hooks.prestart[/bin/x]"),
        ("/process/rlimits/RLIMIT_NOFILE", "rlimits[RLIMIT_NOFILE]"),
        ("/cdiDevices/vendor.com~1gpu=0", "cdiDevices[vendor.com/gpu=0]"),
        ("/memory/limit", "[memory].limit"),
        ("/mounts/~1a]", 'mounts["/a]"]'),
        ("/annotations/\x1b", 'annotations["\x1b"]'),
        ("/annotations/\\x1b", 'annotations["\\\\x1b"]'),
        ("/annotations/［", 'annotations["\\U0000ff3b"]'),
        ("", "(the whole spec)"),
        ("/a~2", '"/a~2"'),
        ("env FOO", '"env FOO"'),
    ],
)
def test_label(path: str, text: str) -> None:
    assert label(path) == text
    assert path_of(text) == path


@given(_ANY)
def test_a_label_names_its_path_also_after_escaping(path: str) -> None:
    assert path_of(label(path)) == path
    assert path_of(safe(label(path))) == path


@given(_ANY, _ANY)
def test_two_paths_have_different_labels_on_screen(one: str, other: str) -> None:
    assert (safe(label(one)) == safe(label(other))) == (one == other)


@pytest.mark.parametrize("number", range(1, 40))
def test_fields_of_validators_have_labels(number: int) -> None:
    path = path_of_field(number)
    assert path_of(label(path)) == path


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("env[FOO]", "/process/env/FOO"),
        ("process.env.FOO", "/process/env/FOO"),
        ("linux.resources.memory.limit", "/linux/resources/memory/limit"),
        ("/process/env/FOO", "/process/env/FOO"),
        ('env["FOO"]', "/process/env/FOO"),
        ("env F*", "/process/env/F*"),
        ("mounts[/mnt/*]", "/mounts/~1mnt~1*"),
    ],
)
def test_other_spellings_are_read(text: str, path: str) -> None:
    assert path_of(text) == path


@pytest.mark.parametrize(
    "text", ["", "a[", "a]", "a..b", '"', '"a', "a[]", "env ", "example.com/x"]
)
def test_other_text_is_no_label(text: str) -> None:
    assert path_of(text) is None


def test_a_plain_name_may_be_a_key() -> None:
    assert meaning("FOO") == (("FOO", "/FOO"), "FOO")
    assert meaning("/mnt/tmp") == (("/mnt/tmp",), "~1mnt~1tmp")
    assert meaning("memory") == (("memory", "/linux/resources/memory"), "")
