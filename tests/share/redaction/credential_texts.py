# SPDX-License-Identifier: Apache-2.0
"""Credentials in each syntax and place of a message, and what is left of them in other texts."""

from __future__ import annotations

import configparser
import html
import io
import json
import re
import shlex
import string
import urllib.parse
from collections.abc import Callable
from xml.etree import ElementTree

import yaml
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.share.redaction.harmless import words

KEY = bytes(range(32))
_WINDOW = 6
"""Number of consecutive characters of a value that must not remain."""

KEYS = words(
    "password DB_PASSWORD dbpass bindpw ldapbindpw authtoken accountkey PASS1 TOKEN2 apiKey "
    "api-key client_secret spring.datasource.password rootPwd passphrase access_key private-key "
    "credentials.main secrets.db PGPASSWORD smtpPassword2 session_secret webhook jwt "
    "sasl.jaas.credential encryption_key dbPassword"
)

_ALPHABET = string.ascii_letters + string.digits + "'\"$ :é世#&;,|<>()[]{}=@!%*+-_~^?/\\"

# Not plain: a letter and a digit at each end.
VALUES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["x7", "Q2", "$t4r", "${v9", "!k3", "é5u"]),
    st.text(_ALPHABET, min_size=6, max_size=24),
    st.sampled_from(["k8", "9w", "w2$", "z4}", "5é"]),
).filter(lambda text: "redacted" not in text and "  " not in text)

# Unquoted values end at these characters.
WORDS = VALUES.map(lambda text: "".join(c for c in text if c not in " \"'<>#&;,|`\\()[]{}"))
LINES = VALUES.map(lambda text: text.replace("#", "+"))
Syntax = Callable[[str, str], str]


def nested(key: str, value: str) -> dict[str, object]:
    return {"app": {"list": [{"name": "a"}, {key: value, "port": 80}], "debug": True}}


def _json(key: str, value: str) -> str:
    return json.dumps(nested(key, value))


def _json_ascii_indented(key: str, value: str) -> str:
    return "starting with " + json.dumps(nested(key, value), ensure_ascii=True, indent=2) + " now"


def _json_twice(key: str, value: str) -> str:
    return json.dumps({"config": json.dumps({key: value})})


def _yaml(key: str, value: str) -> str:
    return yaml.safe_dump(nested(key, value), allow_unicode=True, width=1000)


def _yaml_flow(key: str, value: str) -> str:
    return yaml.safe_dump(
        nested(key, value), default_flow_style=True, allow_unicode=True, width=1000
    )


def _yaml_narrow(key: str, value: str) -> str:
    return yaml.safe_dump(nested(key, value), width=10)


def _yaml_quoted(style: str) -> Syntax:
    return lambda key, value: yaml.safe_dump(
        nested(key, value), default_style=style, allow_unicode=True, width=1000
    )


def _yaml_list(key: str, value: str) -> str:
    return yaml.safe_dump({key: ["none", value]}, allow_unicode=True, width=1000)


def _yaml_below(group: str) -> Syntax:
    return lambda _, value: yaml.safe_dump(
        {"log": "info", group: {"first": {"of": value}, "size": 3}},
        allow_unicode=True,
        width=1000,
    )


def _yaml_pair(key: str, value: str) -> str:
    return yaml.safe_dump({"env": [{"name": key, "value": value}]}, allow_unicode=True, width=1000)


def _yaml_secret(key: str, value: str) -> str:
    secret = {"kind": "Secret", "metadata": {"name": "a"}, "stringData": {"config.txt": value}}
    return "kind: ConfigMap\ndata:\n  a: b\n---\n" + yaml.safe_dump(
        secret, allow_unicode=True, width=1000
    )


def _json_secret(key: str, value: str) -> str:
    return json.dumps({"items": [{"kind": "Secret", "stringData": {"a": value}}]})


def _toml(key: str, value: str) -> str:
    # A basic string of TOML has JSON's escapes.
    return f'[server]\nport = 80\n[server.db]\n"{key}" = {json.dumps(value, ensure_ascii=False)}\n'


def _toml_group(key: str, value: str) -> str:
    return f"[credentials]\nmain = {json.dumps(value, ensure_ascii=False)}\n"


def _ini(key: str, value: str) -> str:
    parser = configparser.ConfigParser(interpolation=None)
    parser["main"] = {"port": "80", key: value}
    stream = io.StringIO()
    parser.write(stream)
    return stream.getvalue()


def _xml(key: str, value: str) -> str:
    root = ElementTree.Element("config")
    ElementTree.SubElement(root, "port").text = "80"
    ElementTree.SubElement(root, key).text = value
    return ElementTree.tostring(root, encoding="unicode")


def _xml_attribute(key: str, value: str) -> str:
    root = ElementTree.Element("config")
    ElementTree.SubElement(root, "property", {"name": key, "value": value})
    return ElementTree.tostring(root, encoding="unicode")


def _script(key: str, value: str) -> str:
    name = key.replace("-", "_").replace(".", "_")
    return f"set -e\nexport {name}={shlex.quote(value)}; ./run --debug"


def _script_option(key: str, value: str) -> str:
    return f"exec ./run --{key} {shlex.quote(value)} --{key}={shlex.quote(value)} --debug"


def _query(key: str, value: str) -> str:
    return "https://example.com/a?debug=1&" + urllib.parse.urlencode({key: value, "page": "2"})


def _assigned(key: str, value: str) -> str:
    return f"started with {key}={value} in 3s"


def _colon(key: str, value: str) -> str:
    return f"port: 80\n{key}: {value}\ndebug: true"


def _env_file(key: str, value: str) -> str:
    return f"PORT=80\n{key}={value}\nDEBUG=true\n"


SYNTAXES: dict[str, tuple[Syntax, st.SearchStrategy[str]]] = {
    "json": (_json, VALUES),
    "json in text": (_json_ascii_indented, VALUES),
    "json in json": (_json_twice, VALUES),
    "yaml": (_yaml, VALUES),
    "yaml flow": (_yaml_flow, VALUES),
    "yaml narrow": (_yaml_narrow, VALUES),
    "yaml double": (_yaml_quoted('"'), VALUES),
    "yaml single": (_yaml_quoted("'"), VALUES),
    "yaml literal": (_yaml_quoted("|"), VALUES),
    "yaml folded": (_yaml_quoted(">"), VALUES),
    "yaml list": (_yaml_list, VALUES),
    "yaml credentials": (_yaml_below("credentials"), VALUES),
    "yaml secrets": (_yaml_below("secrets"), VALUES),
    "yaml tokens": (_yaml_below("tokens"), VALUES),
    "yaml passwords": (_yaml_below("db_passwords"), VALUES),
    "yaml pair": (_yaml_pair, VALUES),
    "yaml Secret": (_yaml_secret, VALUES),
    "json Secret": (_json_secret, VALUES),
    "toml": (_toml, VALUES),
    "toml group": (_toml_group, VALUES),
    "ini": (_ini, LINES),
    "xml": (_xml, VALUES),
    "xml attribute": (_xml_attribute, VALUES),
    "script": (_script, VALUES),
    "script option": (_script_option, VALUES),
    "query": (_query, VALUES),
    "assigned": (_assigned, WORDS),
    "colon": (_colon, VALUES),
    "env file": (_env_file, VALUES),
}


def _place_annotation(request: api.CreateContainerRequest, text: str) -> None:
    request.pod.annotations["example.com/config"] = text


def _place_label(request: api.CreateContainerRequest, text: str) -> None:
    request.container.labels["config"] = text


def _place_argument(request: api.CreateContainerRequest, text: str) -> None:
    request.container.args.extend(["/app", text])


def _place_script(request: api.CreateContainerRequest, text: str) -> None:
    request.container.args.extend(["/sbin/tini", "--", "sh", "-ec", text])


def place_env(request: api.CreateContainerRequest, text: str) -> None:
    request.container.env.append(f"CONFIG={text}")


def _place_mount(request: api.CreateContainerRequest, text: str) -> None:
    request.container.mounts.add(destination="/data", type="cifs", options=["rw", text])


def place_hook(request: api.CreateContainerRequest, text: str) -> None:
    request.container.hooks.prestart.add(path="/hook", args=["hook", text], env=[f"C={text}"])


def _place_status(request: api.CreateContainerRequest, text: str) -> None:
    request.container.status_message = text


PLACES = [
    _place_annotation,
    _place_label,
    _place_argument,
    _place_script,
    place_env,
    _place_mount,
    place_hook,
    _place_status,
]


def unpacked(message: api.CreateContainerRequest) -> str:
    """Return the texts of all places of a message."""
    container = message.container
    texts = [*message.pod.annotations.values(), *container.labels.values(), *container.args]
    texts += [*container.env, container.status_message]
    texts += [option for mount in container.mounts for option in mount.options]
    texts += [text for hook in container.hooks.prestart for text in (*hook.args, *hook.env)]
    return "\n".join(texts)


def spellings(shown: str) -> list[str]:
    """Return a redacted text unchanged and with usual encodings decoded."""
    found = [shown, urllib.parse.unquote_plus(shown), shown.replace("''", "'")]
    found += [shown.replace("\\\\", "\\").replace('\\"', '"'), html.unescape(shown)]
    return [*found, re.sub(r"\\u([0-9a-fA-F]{4})", lambda code: chr(int(code[1], 16)), shown)]


_WRITTEN = "\n".join(
    [
        "runtimeSpec annotations prestart poststop process sysctl example.com linux container",
        "redacted-",
        *(name for key in KEYS for name in (key, key.replace("-", "_").replace(".", "_"))),
        *(write("k", "v") for write, _ in SYNTAXES.values()),
    ]
)
"""Words in the texts around a value. Hypothesis also draws values from names in source code."""


def left_of(value: str, *texts: str) -> list[str]:
    """Return readable parts of a value that do not occur in the surrounding texts."""
    parts = [value[at : at + _WINDOW] for at in range(len(value) - _WINDOW + 1)]
    return [part for part in parts if part not in _WRITTEN and any(part in text for text in texts)]
