# SPDX-License-Identifier: Apache-2.0
"""Tokens fit their places, and are recognized by their form."""

from __future__ import annotations

import ipaddress
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nri_scope.share.redaction import tokens as tokens_module
from nri_scope.share.redaction.tokens import Tokens, is_token

KEY = bytes(range(32))


@given(original=st.text(max_size=80))
def test_every_token_is_recognized(original: str) -> None:
    assert is_token(Tokens(KEY).token_for(original))


@pytest.mark.parametrize(
    ("original", "form"),
    [
        ("hunter2", r"redacted-[a-z2-7]{12}"),
        ("two words", r"redacted-[a-z2-7]{12}"),
        ("db.corp.example.com", r"redacted-[a-z2-7]{12}\.invalid"),
        ("/opt/acme/bin", r"/redacted-[a-z2-7]{12}"),
        ("jane@acme.com", r"redacted-[a-z2-7]{12}@redacted\.invalid"),
        ("10.2.3.4", r"198\.1[89]\.\d+\.\d+"),
        ("fd00::17", r"2001:db8:[0-9a-f:]+"),
    ],
)
def test_a_token_has_the_form_of_its_original(original: str, form: str) -> None:
    assert re.fullmatch(form, Tokens(KEY).token_for(original))


def test_a_plain_token_is_a_valid_host_name_label() -> None:
    assert re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", Tokens(KEY).token_for("x"))


def test_tokens_of_thousands_of_addresses_are_unique() -> None:
    # Of 131,070 addresses, about fifty of these would collide by chance.
    tokens = Tokens(KEY)
    first = int(ipaddress.IPv4Address("10.0.0.0"))
    originals = [str(ipaddress.IPv4Address(first + number)) for number in range(4_000)]

    assert len({tokens.token_for(original) for original in originals}) == len(originals)


def test_a_token_is_plain_if_few_addresses_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    # A smaller network, of which the same share is left unused.
    network = ipaddress.IPv4Network("198.18.0.0/20")
    left = (
        tokens_module._RESERVED4
        * network.num_addresses
        // tokens_module.TOKEN_NETWORK4.num_addresses
    )
    monkeypatch.setattr(tokens_module, "TOKEN_NETWORK4", network)
    monkeypatch.setattr(tokens_module, "_RESERVED4", left)
    # The work is counted: each attempt is one digest.
    attempts = 0
    digest = Tokens._digest

    def counted(self: Tokens, original: str, scope: str, attempt: int = 0) -> bytes:
        nonlocal attempts
        attempts += 1
        return digest(self, original, scope, attempt)

    monkeypatch.setattr(Tokens, "_digest", counted)
    tokens = Tokens(KEY)
    first = int(ipaddress.IPv4Address("10.0.0.0"))
    originals = [str(ipaddress.IPv4Address(first + number)) for number in range(5_000)]
    given_ = [tokens.token_for(original) for original in originals]

    assert len(set(given_)) == len(originals)
    assert all(map(is_token, given_))
    assert sum(map(tokens_module.is_token_address, given_)) == network.num_addresses - left
    assert attempts < 10 * len(originals)
    assert re.fullmatch(r"redacted-[a-z2-7]{12}", given_[-1])
    assert [tokens.token_for(original) for original in originals[-100:]] == given_[-100:]


def test_tokens_of_two_scopes_differ() -> None:
    tokens = Tokens(KEY)
    for original in ("hunter2", "10.2.3.4", "fd00::17", "/opt/acme", "jane@acme.com"):
        assert tokens.token_for(original, "a") == tokens.token_for(original, "a")
        assert tokens.token_for(original, "a") != tokens.token_for(original, "b")
    assert tokens.token_for("xb", "a") != tokens.token_for("b", "ax")


def test_another_key_gives_other_tokens() -> None:
    assert Tokens(KEY).token_for("hunter2") == Tokens(KEY).token_for("hunter2")
    assert Tokens(KEY).token_for("hunter2") != Tokens(bytes(32)).token_for("hunter2")


@pytest.mark.parametrize(
    "text", ["", "redacted-", "redacted-abc", "xredacted-abcdefghijkl", "10.0.0.1"]
)
def test_similar_texts_are_no_tokens(text: str) -> None:
    assert not is_token(text)


def test_long_originals_are_not_kept_for_each_scope() -> None:
    tokens = Tokens(KEY)
    tracemalloc.start()
    try:
        for container in range(200):
            # Another object each time, as from another message.
            original = b"long" * 2_500
            assert is_token(tokens.token_for(original.decode(), f"container {container}"))
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1 << 20
