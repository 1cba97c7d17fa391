# SPDX-License-Identifier: Apache-2.0
"""Known secrets are replaced in every encoding."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.share.bundle.leak_scan import Needles
from nri_scope.share.redaction import Original, Redactor, Rules
from nri_scope.share.redaction.value_encodings import forms, within_base64

KEY = bytes(range(32))
SECRET = 'C0rrect"h&rse\\x p@ss/é'


def redactor_with(secret: str) -> Redactor:
    redactor = Redactor(Rules.DEFAULT, KEY)
    request = api.CreateContainerRequest(
        container=api.Container(id="c1", env=[f"DB_PASSWORD={secret}"])
    )
    redactor.learn("CreateContainer", request.SerializeToString(), b"")
    return redactor


def _in_json(text: str) -> str:
    return json.dumps(text)[1:-1]


@pytest.mark.parametrize(
    "written",
    [
        lambda text: quote(text, safe=""),
        lambda text: quote(text),
        lambda text: quote_plus(text),
        lambda text: quote(text, safe=";,/?:@&=+$-_.!~*'()#"),
        lambda text: text.encode().hex(),
        lambda text: text.encode().hex().upper(),
        _in_json,
        lambda text: json.dumps(text, ensure_ascii=False)[1:-1],
        lambda text: _in_json(_in_json(text)),
        lambda text: _in_json(text).replace("&", "\\u0026"),
        lambda text: text.encode().decode("latin-1"),
        lambda text: base64.b64encode(text.encode()).decode().rstrip("="),
        lambda text: within_base64(text.encode(), 1).decode(),
        lambda text: base64.urlsafe_b64encode(b"xyz" + text.encode()).decode()[4:].rstrip("="),
    ],
)
@pytest.mark.parametrize("around", ["{}", "see {} there", "q{}q", "4{}4", 'say "x {}', "a=b&c={}"])
def test_a_known_secret_is_replaced_in_any_encoding(
    written: Callable[[str], str], around: str
) -> None:
    form = written(SECRET)
    shown = redactor_with(SECRET).text(around.format(form))

    assert form not in shown
    assert Redactor(Rules.DEFAULT, bytes(32)).text(shown) == shown


@settings(deadline=None)
@given(
    secret=st.text(st.characters(exclude_categories=["Cs", "Cc", "Z"]), min_size=9, max_size=20),
    data=st.data(),
)
def test_all_encodings_of_a_searchable_value_are_replaced(secret: str, data: st.DataObject) -> None:
    redactor = redactor_with(secret)
    if not any(one.value == secret and one.is_searchable for one in redactor.originals()):
        return
    form = data.draw(st.sampled_from(sorted(forms(secret))))
    try:
        text = form.decode()
    except UnicodeDecodeError:
        return

    assert text not in redactor.text(f"it is {text}, or not")


@settings(deadline=None)
@given(
    secret=st.from_regex(r"[a-z]{2,4}[0-9]{1,2}[!x]", fullmatch=True).filter(lambda s: len(s) < 8),
    before=st.binary(max_size=5),
    behind=st.binary(max_size=5),
    of_urls=st.booleans(),
)
def test_a_short_credential_is_found_in_base64(
    secret: str, before: bytes, behind: bytes, of_urls: bool
) -> None:
    redactor = redactor_with(secret)
    pack = base64.urlsafe_b64encode if of_urls else base64.b64encode
    alone = pack(secret.encode()).decode()
    for text in (f"it is {alone}", f'{{"x":"{alone}"}}', f"it is {alone.rstrip('=')}, or not"):
        assert alone.rstrip("=") not in redactor.text(text)
    if len(secret) < 6:
        # Base64 of longer data contains so few of its characters that they may occur by chance.
        return
    text = pack(before + secret.encode() + behind).decode()
    shown = redactor.text(text)
    assert shown != text
    needles = Needles(redactor.originals())
    assert needles.find(text.encode()) is not None
    assert needles.find(shown.encode()) is None


def test_an_encoded_value_that_is_a_credential_itself_has_its_own_token() -> None:
    redactor = redactor_with("hunter2-hunter3")
    written = b"hunter2-hunter3".hex()
    token = redactor.text("hunter2-hunter3", of_event=True)

    assert redactor.text(f"ff{written}x", of_event=True) == f"ff{token}x"
    own = redactor.text(f"password={written}", of_event=True).partition("=")[2]
    assert own != token
    assert redactor.text(f"ff{written}x", of_event=True) == f"ff{own}x"


@given(value=st.text(st.characters(exclude_categories=["Cs"]), min_size=6, max_size=30))
def test_the_leak_search_finds_all_encodings(value: str) -> None:
    needles = Needles([Original(value, "rule", is_searchable=True)])
    assert len(needles) == len(forms(value))
    for form in forms(value):
        assert needles.find(b"\0" + form + b"\0") is not None
