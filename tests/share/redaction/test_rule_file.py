# SPDX-License-Identifier: Apache-2.0
"""Rule files: their effect on redaction, and their error messages."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.errors import UsageError
from nri_scope.share.redaction import NameKind, Redactor, Rules
from nri_scope.share.redaction.builtin import DEFAULT_RULES
from nri_scope.share.redaction.rules import read_rules

KEY = bytes(range(32))


def rules(text: str, folder: Path) -> Rules:
    path = folder / "rules.toml"
    path.write_text(text)
    return read_rules(path)


def redactor(text: str, folder: Path) -> Redactor:
    return Redactor(rules(text, folder), KEY)


def container(redactor: Redactor, **fields: object) -> api.Container:
    request = api.CreateContainerRequest(
        pod=api.PodSandbox(id="p1", name="zqweb-0", uid="8f14e45f", namespace="shop"),
        container=api.Container(id="c1", name="app", **fields),  # type: ignore[arg-type]
    )
    content = redactor.request("CreateContainer", request.SerializeToString())
    return api.CreateContainerRequest.FromString(content).container


def test_an_empty_file_changes_nothing(tmp_path: Path) -> None:
    read = rules("", tmp_path)

    assert (read.enabled, read.replaced_keys, read.kept_variables) == (DEFAULT_RULES, (), ())
    assert read.source == "rules.toml"


def test_switches_turn_rules_on_and_off(tmp_path: Path) -> None:
    read = redactor("[switches]\nnamespaces = true\nhost-names = false\n", tmp_path)

    assert read.name(NameKind.NAMESPACE, "shop").startswith("redacted-")
    assert read.name(NameKind.NAMESPACE, "kube-system") == "kube-system"
    assert read.name(NameKind.POD, "web-0") == "web-0"
    assert read.text("see db.acme.corp") == "see db.acme.corp"


def test_namespace_names_are_replaced_in_paths_and_annotations_too(tmp_path: Path) -> None:
    read = redactor("[switches]\nnamespaces = true\n", tmp_path)
    shown = read.name(NameKind.NAMESPACE, "shop")
    given = container(
        read,
        annotations={
            "io.kubernetes.cri.sandbox-namespace": "shop",
            "io.kubernetes.cri.sandbox-log-directory": "/var/log/pods/shop_zqweb-0_8f14e45f",
            "note": "workshop",
        },
    )

    assert dict(given.annotations) == {
        "io.kubernetes.cri.sandbox-namespace": shown,
        "io.kubernetes.cri.sandbox-log-directory": f"/var/log/pods/{shown}_zqweb-0_8f14e45f",
        "note": "workshop",
    }


@pytest.mark.parametrize("label", ["zqweb-0", "k8s_app_zqweb-0_shop"])
def test_a_label_that_repeats_a_replaced_name_shows_no_part_of_it(
    label: str, tmp_path: Path
) -> None:
    read = redactor("[switches]\npods = true\n", tmp_path)
    given = container(read, env=["MODE=zqweb"], labels={"app": label})

    assert "zqweb" not in "".join((*given.env, *given.labels.values()))
    again = redactor("[switches]\npods = true\n", tmp_path)
    assert container(again, env=given.env, labels=given.labels) == given


def test_a_text_that_was_shown_before_its_name_was_read_is_redacted_then(tmp_path: Path) -> None:
    read = redactor("[switches]\npods = true\n", tmp_path)
    assert read.text("evicted battery-horse") == "evicted battery-horse"
    read.note_names([(NameKind.POD, "p1", "battery-horse")])

    assert "battery" not in read.text("evicted battery-horse")


def test_listed_keys_win_over_those_that_stay(tmp_path: Path) -> None:
    read = redactor('[replace]\nkeys = ["app", "PATH"]\n', tmp_path)
    given = container(read, env=["PATH=/usr/bin"], labels={"app": "web"})

    assert "bin" not in given.env[0]
    assert "web" not in given.labels["app"]


def test_listed_keys_count_in_json_whatever_their_values(tmp_path: Path) -> None:
    read = redactor('[replace]\nkeys = ["tier"]\n', tmp_path)
    shown = json.loads(read.text('{"tier": 4, "of": {"tier": ["web"]}, "level": ["web", 4]}'))

    assert str(shown["tier"]).startswith("redacted-")
    assert shown["of"]["tier"][0].startswith("redacted-")
    assert shown["level"] == ["web", 4]


def test_listed_nodes_are_replaced_everywhere(tmp_path: Path) -> None:
    read = redactor('[names]\nnodes = ["worker-3"]\n', tmp_path)

    assert "worker-3" not in read.name(NameKind.POD, "kube-proxy-worker-3")
    assert "worker-3" not in read.text("evicted from worker-3")
    assert read.text("evicted from worker-30") != "evicted from redacted-"


def test_allowed_values_stay(tmp_path: Path) -> None:
    read = redactor(
        """
        [allow]
        env = ["ACME_*"]
        keys = ["example.com/owner"]
        hosts = ["*.acme.corp"]
        registries = ["registry.acme.corp"]
        values = ["eu-central-1"]
        """,
        tmp_path,
    )
    given = container(
        read,
        env=["ACME_MODE=faast layne", "OTHER=sloow layne", "AWS_REGION=eu-central-1"],
        annotations={
            "example.com/owner": "team-a",
            "other.example.com/owner": "team-b",
            "io.kubernetes.cri.image-name": "registry.acme.corp/shop/app:1",
        },
    )

    assert given.env[0] == "ACME_MODE=faast layne"
    assert given.env[1] != "OTHER=sloow layne"
    assert given.env[2] == "AWS_REGION=eu-central-1"
    assert given.annotations["example.com/owner"] == "team-a"
    assert given.annotations["other.example.com/owner"] != "team-b"
    assert given.annotations["io.kubernetes.cri.image-name"] == "registry.acme.corp/shop/app:1"
    assert read.text("db.acme.corp and db.other.corp").startswith("db.acme.corp and redacted-")


def test_keys_to_keep_are_those_of_variables_annotations_options_and_json(tmp_path: Path) -> None:
    read = Redactor(Rules.DEFAULT.keeping(("site", "--node", "API_TOKEN", "*_PIN", "DB_*")), KEY)
    given = container(
        read,
        env=["site=zq7kx", "API_TOKEN=zq7kx", "X_PIN=123456", "DB_PASSWORD=zq7kx", "DB_X=zq7kx"],
        args=["run", "--site=zq7kx", "--node", "zq7kx", "--site", "--x=zq7kx", "zq7kx"],
        annotations={
            "site": "zq7kx",
            "other": "zq7kx",
            "config": '{"site":"zq7kx","node":["zq7kx"],"API_TOKEN":12345678,"pin":12345678}',
            "list": '[{"name":"site","value":"zq7kx"},{"name":"X","value":"zq7kx"}]',
            "script": "app --site=zq7kx",
        },
        labels={"site": "zq7kx"},
    )
    token = r"redacted-[a-z2-7]{12}"
    shown = re.sub(token, "TOKEN", "\n".join((*given.env, *given.args)))
    assert shown.splitlines() == [
        *("site=zq7kx", "API_TOKEN=zq7kx", "X_PIN=123456", "DB_PASSWORD=TOKEN", "DB_X=zq7kx"),
        *("run", "--site=zq7kx", "--node", "zq7kx", "--site", "--x=TOKEN", "TOKEN"),
    ]
    assert {key: re.sub(token, "TOKEN", text) for key, text in given.annotations.items()} == {
        "site": "zq7kx",
        "other": "TOKEN",
        "config": '{"site":"zq7kx","node":["zq7kx"],"API_TOKEN":12345678,"pin":"TOKEN"}',
        "list": '[{"name":"site","value":"zq7kx"},{"name":"X","value":"TOKEN"}]',
        "script": "app --site=TOKEN",
    }
    assert given.labels["site"] == "zq7kx"


def test_listed_keys_and_values_are_replaced(tmp_path: Path) -> None:
    read = redactor('[replace]\nkeys = ["billing/*", "crew"]\nvalues = ["TICKET-*"]', tmp_path)
    given = container(
        read,
        args=["run", "--for=TICKET-4711", "--crew=red", "--crew", "red", "red"],
        annotations={"billing/code": "A", "other": "A", "config": '{"crew": "red", "port": 1}'},
    )

    assert given.args[1].startswith("--for=redacted-") and "TICKET" not in given.args[1]
    assert given.args[2].startswith("--crew=redacted-") and given.args[4].startswith("redacted-")
    assert given.args[5] == "red"
    assert given.annotations["billing/code"].startswith("redacted-")
    assert given.annotations["other"] == "A"
    assert 'red"' not in given.annotations["config"] and "port" in given.annotations["config"]
    assert read.text("see TICKET-1.").startswith("see redacted-")
    assert read.text("the crew: red").startswith("the crew: redacted-")
    assert read.tally.by_rule()["rules-file"] == 2


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[switches]\nx = true", "line 2: unknown switch 'x'"),
        ("[switches]\n\nemail = true", "line 3: unknown switch 'email'; did you mean emails?"),
        ('[switches]\nemails = "no"', "line 2: emails is neither true nor false"),
        ("switches = 1", "line 1: switches is not a table"),
        ("[allowed]", "line 1: unknown table 'allowed'; did you mean allow?"),
        ("[allow]\nenv = [1]", "line 2: env is not a list of non-empty strings"),
        ("[allow]\nenvs = []", "line 2: unknown list 'envs'"),
        ("[names]\npods = []", "line 2: unknown list 'pods'"),
        ("rule = 3", "line 1: unknown table 'rule'"),
        ('[replace]\nvalues = ["a"]\nkeys = 3', "line 3: keys is not a list of non-empty strings"),
        ('[replace]\nvalue = ["a"]', "line 2: unknown list 'value'; did you mean values?"),
        ("[switches\n", "line 1: not valid TOML"),
        ('[allow]\nenv = ["a"\n', "not valid TOML"),
        ("a = " + "[" * 5000, "line 1: "),
    ],
)
def test_errors_name_the_file_the_line_and_the_reason(
    text: str, words: str, tmp_path: Path
) -> None:
    with pytest.raises(UsageError) as caught:
        rules(text, tmp_path)

    message = str(caught.value)
    assert message.startswith(f"{tmp_path / 'rules.toml'}: ")
    assert words in message
    assert len(message.splitlines()) == 1


def test_unreadable_files_raise_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\n\xff")
    (tmp_path / "large").write_bytes(b"#" * (1 << 21))
    for name, words in [
        ("none", "no such file"),
        ("binary", "line 2: not valid UTF-8"),
        ("large", "larger than"),
        (".", "is a directory"),
    ]:
        with pytest.raises(UsageError, match=words):
            read_rules(tmp_path / name)
