# SPDX-License-Identifier: Apache-2.0
"""Properties of every key that names a credential, in every syntax and place.

The texts are written by PyYAML, json, configparser, ElementTree, shlex and urllib.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.events import CONTAINER_STATUS, CRI_SERVICE
from nri_scope.share.redaction import Redactor, Rules
from nri_scope.share.redaction.harmless import words
from nri_scope.share.redaction.key_names import Certainty, certainty_of
from tests.amount import amount
from tests.share.redaction.credential_texts import (
    KEY,
    KEYS,
    PLACES,
    SYNTAXES,
    VALUES,
    Syntax,
    left_of,
    nested,
    place_env,
    place_hook,
    spellings,
    unpacked,
)


def in_message(place: Callable[[api.CreateContainerRequest, str], None], text: str) -> str:
    request = api.CreateContainerRequest(container=api.Container(id="c1", name="app"))
    place(request, text)
    shown = Redactor(Rules.DEFAULT, KEY).request("CreateContainer", request.SerializeToString())
    return unpacked(api.CreateContainerRequest.FromString(shown))


@pytest.mark.parametrize("syntax", SYNTAXES)
@settings(max_examples=amount(25, 8), deadline=None)
@given(data=st.data())
def test_a_credential_is_replaced_completely_in_any_syntax(
    syntax: str, data: st.DataObject
) -> None:
    write, values = SYNTAXES[syntax]
    key, value = data.draw(st.sampled_from(sorted(KEYS))), data.draw(values)
    place = data.draw(st.sampled_from(PLACES))
    text = write(key, value)

    assert left_of(value, *spellings(in_message(place, text))) == []
    assert left_of(value, *spellings(Redactor(Rules.DEFAULT, KEY).text(text))) == []


@settings(max_examples=amount(80, 25), deadline=None)
@given(key=st.sampled_from(sorted(KEYS)), value=VALUES)
@example(key="password", value="$tr0ngPa55 it's")
def test_a_credential_is_replaced_completely_in_keyed_places(key: str, value: str) -> None:
    name = key.replace("-", "_").replace(".", "_")
    # A comma followed by a name ends an option.
    option = value.replace(",", ";")
    hook = api.Hook(path="/a", args=["a", f"--{key}={value}"], env=[f"{name}={value}"])
    request = api.CreateContainerRequest(
        container=api.Container(
            id="c1",
            name="app",
            env=[f"{name}={value}"],
            args=["/app", f"--{key}={value}", f"--{key}", f"/{value}", f"{name}={value}"],
            annotations={f"example.com/{key}": value},
            labels={key: value},
            mounts=[api.Mount(destination="/a", options=["rw", f"{name}={option}"])],
            hooks=api.Hooks(poststop=[hook]),
        )
    )
    config = yaml.safe_dump(nested(key, value), allow_unicode=True)
    status = {
        "config": {"envs": [{"key": name, "value": value}], "annotations": {key: value}},
        "runtimeSpec": {
            "process": {"env": [f"{name}={value}"], "args": ["/app", f"--{key}={value}"]},
            "hooks": {"prestart": [{"env": [f"{name}={value}"]}]},
            "linux": {"sysctl": {key: value}},
        },
    }
    redactor = Redactor(Rules.DEFAULT, KEY)
    shown = [
        str(redactor.request("CreateContainer", request.SerializeToString()), "utf-8", "replace"),
        str(
            redactor.request("Configure", api.ConfigureRequest(config=config).SerializeToString()),
            "utf-8",
            "replace",
        ),
        str(
            redactor.reply(CONTAINER_STATUS, json.dumps(status).encode(), service=CRI_SERVICE),
            "utf-8",
        ),
        *redactor.keyed(f"x-{key}", value, "tapped.metadata"),
        redactor.text(f"{key}: {value}", "note.text"),
    ]
    # Also alone: redaction of one place must not depend on another.
    alone = Redactor(Rules.DEFAULT, KEY)
    shown.append(
        str(
            alone.reply(CONTAINER_STATUS, json.dumps(status).encode(), service=CRI_SERVICE), "utf-8"
        )
    )
    assert left_of(value, *spellings("\n".join(shown))) == []


_HARMLESS = words(
    "4096 512Mi 1h30m 0-3,8 1.25.3 true none info enabled /usr/lib/x 0000:3b:00.0 v1.29 production"
)


@settings(max_examples=amount(60, 25), deadline=None)
@given(
    values=st.lists(st.sampled_from(sorted(_HARMLESS)), min_size=3, max_size=3),
    keys=st.lists(
        st.sampled_from(["limit", "log-level", "auth-mode", "max_tokens", "token-ttl"]),
        min_size=2,
        max_size=2,
    ),
    place=st.sampled_from([place for place in PLACES if place not in {place_env, place_hook}]),
    syntax=st.sampled_from(
        ["json", "yaml", "yaml flow", "toml", "xml", "script option", "colon"]
    ).map(lambda name: SYNTAXES[name][0]),
)
def test_harmless_values_are_unchanged_in_every_syntax_and_place(
    values: list[str], keys: list[str], place: Callable[..., None], syntax: Syntax
) -> None:
    for key, value in zip(keys, values, strict=False):
        text = syntax(key, value)
        request = api.CreateContainerRequest(container=api.Container(id="c1", name="app"))
        place(request, text)

        assert in_message(place, text) == unpacked(request)


@pytest.mark.parametrize("value", ["Zq7,aaaaaaaaaa8kX", "Zq7,aaaa=bbbb8kX"])
@pytest.mark.parametrize("place", PLACES)
def test_a_comma_does_not_end_the_value_of_a_script_option(
    place: Callable[..., None], value: str
) -> None:
    text = SYNTAXES["script option"][0]("client_secret", value)

    assert left_of(value, *spellings(in_message(place, text))) == []


@pytest.mark.parametrize("key", [*sorted(KEYS), "DSN", "dbPin", "OTP", "vncpw", "SIG", "user_jwt"])
def test_every_key_of_a_credential_is_known(key: str) -> None:
    assert certainty_of(key) is not Certainty.NONE


def test_continuation_lines_of_a_yaml_value_are_replaced_with_it() -> None:
    written = "db:\n  password: x7\n    00{k8\n    and {a}\n    ; c7\n    - d=8\n    - e9\n"
    written += "    [f]\n    g=h\n  port: 80\nkeys:\n  {x: 1}\n"
    assert yaml.safe_load(written)["db"]["password"].endswith("; c7 - d=8 - e9 [f] g=h")

    shown = Redactor(Rules.DEFAULT, KEY).text(written)

    read = yaml.safe_load(shown)
    assert read["db"]["password"].startswith("redacted-") and " " not in read["db"]["password"]
    assert (read["db"]["port"], read["keys"]) == (80, {"x": 1})


@pytest.mark.parametrize("crumb", ["password='", "password=a,b", 'token: {a: "', "a: 'secret: \""])
def test_deeply_nested_values_end(crumb: str) -> None:
    text = crumb * (16_000 // len(crumb))

    assert "hunter2" not in Redactor(Rules.DEFAULT, KEY).text(f"password: x{text}Zq7hunter2")


def test_many_blocks_in_a_row_end() -> None:
    blocks = "key: |\n " * 2_000

    assert Redactor(Rules.DEFAULT, KEY).text(f"password: x{blocks}").endswith(blocks[6:])
