# SPDX-License-Identifier: Apache-2.0
"""The built-in rules, each with the name used in rule files to switch it."""

from __future__ import annotations

from typing import NamedTuple


class BuiltIn(NamedTuple):
    """A built-in rule; counts are reported under the rule's name."""

    name: str
    about: str
    """The values that the rule replaces, in Markdown; a table row in docs/redaction.md."""
    is_on: bool = True
    """Whether the rule applies by default."""


BUILT_IN = (
    BuiltIn(
        "credential-keys",
        "values whose key names a credential (`DB_PASSWORD`, `--api-key=…`, `--token …`, "
        "`password: …`), or a group of them (`credentials`, `secrets`, `tokens`, `passwords`), and "
        "the data of a `kind: Secret`: in variables, arguments, annotations, labels, mount "
        "options, metadata, JSON, YAML, TOML, INI, XML, query strings, text; what well-known "
        "programs are given as a password (`curl -u`, `mysql -p…`, `docker login -p` …), also "
        "in scripts, and what these write to a file or a program that is for credentials "
        "(`echo … > /run/secrets/db`, `kinit <<EOF`, `read PASSWORD <<< …`)",
    ),
    BuiltIn(
        "credential-formats",
        "text that has the form of a credential: private keys (PEM), JSON Web Tokens, keys and "
        "tokens of some 120 services by the rules of gitleaks, password hashes",
    ),
    BuiltIn(
        "url-passwords",
        "user and password in a URL (`postgres://user:password@host/`), and the password in a "
        "connection string (`user:password@tcp(host)/db`, `user/password@//host:1521/service`), in "
        "lines of `.pgpass` and `.netrc`, and before the host of an image",
    ),
    BuiltIn(
        "auth-headers",
        "what follows `Authorization:` and the scheme there, whatever it is; `Bearer`, `Basic`, "
        "`Cookie:`",
    ),
    BuiltIn(
        "random-looking",
        "20 characters or more that mix capitals, small letters and digits as only chance does",
    ),
    BuiltIn(
        "env-values",
        "values of environment variables, of containers and of hooks, but for those that are "
        "plain or known to be harmless (see below)",
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
        "IP addresses, also with a port or a prefix length; loopback, unspecified and broadcast "
        "addresses and netmasks stay",
    ),
    BuiltIn(
        "host-names",
        "host names with a dot in them and a known ending (`db.acme.com`, `node1.corp`); those "
        "of public registries and projects, `example.com` and names inside of the cluster "
        "(`.svc`, `.cluster.local`) stay",
    ),
    BuiltIn("user-paths", "the user's name in `/home/…`, `/Users/…` and `C:\\Users\\…`"),
    BuiltIn(
        "registries",
        "the host in an image's reference, unless it is a public registry; repository, tag and "
        "digest stay",
    ),
    BuiltIn(
        "unknown-fields",
        "fields of messages that this version of nri-scope does not know: they are **removed**, "
        "since their content is unknown",
    ),
    BuiltIn(
        "unreadable",
        "whole messages that are malformed or of an unknown method, and the CRI's answers that are "
        "no JSON: one token each",
    ),
    BuiltIn(
        "long-texts",
        "texts of more than 65,536 characters, wherever they are: one token each, as looking into "
        "them may take long; and while recording what comes after the first half MiB of one "
        "container in one message, or after the first 4 MiB of the message (a text counts as 32 "
        "characters more than it has, a replacement as 128): the rest of each list as one token",
    ),
    BuiltIn("namespaces", "names of namespaces, but for `default` and `kube-*`", is_on=False),
    BuiltIn(
        "nodes",
        "this machine's name, names of nodes in the file of rules, and what variables and options "
        "call the node's name (`NODE_NAME`, `--hostname-override=…`)",
        is_on=False,
    ),
    BuiltIn("pods", "names of pods", is_on=False),
    BuiltIn("containers", "names of containers", is_on=False),
)

NAMES = tuple(rule.name for rule in BUILT_IN)
ON = frozenset(rule.name for rule in BUILT_IN if rule.is_on)
