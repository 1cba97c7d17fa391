# SPDX-License-Identifier: Apache-2.0
"""Words are found wherever they stand, and only there."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.errors import RedactionLeak
from nri_scope.share.bundle import leak_scan
from nri_scope.share.bundle.leak_scan import Scan

# Hypothesis also draws names of the source code, which outputs contain anyway.
_WORDS = st.text(st.characters(categories=["L", "N"]), min_size=4, max_size=30).map("Zq{}".format)
# The last is an ellipsis.
_BESIDE = st.sampled_from([b"", *(bytes([one]) for one in b' =/\x00\x12R9"'), b"\xe2\x80\xa6"])


def is_found(words: list[str], content: bytes) -> bool:
    try:
        Scan(dict.fromkeys(words, "a-rule"), Path("x")).text(content, "here")
    except RedactionLeak:
        return True
    return False


@given(word=_WORDS, before=_BESIDE, after=_BESIDE)
def test_a_word_is_found_with_any_byte_beside_it(word: str, before: bytes, after: bytes) -> None:
    """The bytes beside a text in a message are a field's number and length."""
    assert is_found([word], b"\xff " + before + word.encode() + after + b" \xff")


@given(words=st.lists(_WORDS, max_size=4), content=st.binary(max_size=200))
def test_a_word_is_found_only_in_content_that_has_it(words: list[str], content: bytes) -> None:
    if is_found(words, content):
        assert any(word.encode() in content for word in words)


def test_a_word_in_a_token_or_an_id_is_none_of_them() -> None:
    assert not is_found(["abcdef"], b"redacted-xxabcdefxxxx and 0123abcdef4567abcdef89")


@pytest.mark.parametrize("at", range(90, 110))
def test_a_word_across_two_pieces_of_a_file_is_found(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leak_scan, "READ_BYTES", 100)
    monkeypatch.setattr(leak_scan, "OVERLAP_BYTES", 40)
    (tmp_path / "x").write_bytes(b" " * at + b"Zq7hunter2" + b" " * 50)
    with pytest.raises(RedactionLeak, match="somewhere"):
        Scan({"Zq7hunter2": "a-rule"}, Path("x")).file(tmp_path / "x", "somewhere")
