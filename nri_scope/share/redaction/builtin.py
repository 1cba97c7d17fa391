# SPDX-License-Identifier: Apache-2.0
"""The built-in rules, with the names by which rule files switch them on and off."""

from __future__ import annotations

from typing import NamedTuple


class BuiltIn(NamedTuple):
    """A built-in rule; replacements are counted under its name."""

    name: str
    replaced_values: str
    """The values that the rule replaces, in Markdown, for the table in docs/redaction.md."""
    is_on: bool = True
    """Whether the rule is on by default."""


BUILT_IN = (
    BuiltIn(
        "credential-keys",
        "values whose key names a credential (`DB_PASSWORD`, `--api-key=…`, `--token …`, "
        "`password: …`) or a group of credentials (`credentials`, `secrets`, `tokens`, "
        "`passwords`), and the data of a `kind: Secret`: in variables, arguments, annotations, "
        "labels, mount options, metadata, JSON, YAML, TOML, INI, XML, query strings and text; "
        "password arguments of well-known programs (`curl -u`, `mysql -p…`, `docker login -p` …), "
        "also in scripts; text that a script writes to a file of credentials or to a program that "
        "reads a credential (`echo … > /run/secrets/db`, `kinit <<EOF`, `read PASSWORD <<< …`)",
    ),
    BuiltIn(
        "credential-formats",
        "text in the form of a credential: private keys (PEM), JSON Web Tokens, keys and tokens "
        "of some 120 services by the rules of gitleaks, password hashes",
    ),
    BuiltIn(
        "url-passwords",
        "user and password in a URL (`postgres://user:password@host/`), and the password in a "
        "connection string (`user:password@tcp(host)/db`, `user/password@//host:1521/service`), in "
        "lines of `.pgpass` and `.netrc`, and before the host of an image",
    ),
    BuiltIn(
        "auth-headers",
        "any text after `Authorization:` and its scheme; the credentials after `Bearer`, `Basic` "
        "and similar schemes; the value of `Cookie:`",
    ),
    BuiltIn(
        "random-looking",
        "runs of 20 or more characters that mix capitals, small letters and digits as random text "
        "does",
    ),
    BuiltIn(
        "env-values",
        "values of environment variables of containers and hooks, except plain values and known "
        "harmless ones (see below)",
    ),
    BuiltIn(
        "secret-annotations",
        "values of annotations that copy whole manifests, Secrets included "
        "(`kubectl.kubernetes.io/last-applied-configuration`)",
    ),
    BuiltIn(
        "personal-keys",
        "values of annotations, labels and JSON whose key names a person (`owner`, `contact`, "
        "`email`, `user`, `created-by` …)",
    ),
    BuiltIn("emails", "mail addresses"),
    BuiltIn(
        "addresses",
        "IP addresses, also with a port or a prefix length, except loopback, unspecified and "
        "broadcast addresses and netmasks",
    ),
    BuiltIn(
        "host-names",
        "host names with a dot and a known ending (`db.acme.com`, `node1.corp`), except those of "
        "public registries and projects, `example.com`, and names inside the cluster (`.svc`, "
        "`.cluster.local`)",
    ),
    BuiltIn("user-paths", "the user's name in `/home/…`, `/Users/…` and `C:\\Users\\…`"),
    BuiltIn(
        "registries",
        "the host in an image reference, unless it is a public registry; repository, tag and "
        "digest stay",
    ),
    BuiltIn(
        "unknown-fields",
        "message fields that this version of nri-scope does not know, which are **removed**, since "
        "their content is unknown",
    ),
    BuiltIn(
        "unreadable",
        "whole messages that are malformed or of an unknown method, and CRI answers that are not "
        "JSON: one token each",
    ),
    BuiltIn(
        "long-texts",
        "texts of more than 65,536 characters: one token each, as searching them may take long; "
        "while recording, also everything after the first half MiB of one container in one "
        "message, or after the first 4 MiB of the message (each text counts 32 characters extra, "
        "each replacement 128): the rest of each list becomes one token",
    ),
    BuiltIn(
        "namespaces",
        "names of namespaces, except `default`, `kube-system`, `kube-public` and `kube-node-lease`",
        is_on=False,
    ),
    BuiltIn(
        "nodes",
        "this machine's name, the names of nodes in the rule file, and values of variables and "
        "options for a node's name (`NODE_NAME`, `--hostname-override=…`)",
        is_on=False,
    ),
    BuiltIn("pods", "names of pods", is_on=False),
    BuiltIn("containers", "names of containers", is_on=False),
)

RULE_NAMES = tuple(rule.name for rule in BUILT_IN)
DEFAULT_RULES = frozenset(rule.name for rule in BUILT_IN if rule.is_on)
