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
        "what follows a key that names a credential, in 40 languages (`DB_PASSWORD=…`, "
        "`--api-key …`, `password: …`, `Kennwort`, `密码`), whatever it is made of, in any syntax: "
        "variables, arguments, annotations, labels, options, JSON, YAML, XML, scripts and text; "
        "private keys (PEM)",
    ),
    BuiltIn(
        "unknown-words",
        "everything else that is not known to be harmless (see below)",
    ),
    BuiltIn(
        "url-passwords",
        "user and password in a URL (`postgres://user:password@host/`), in a connection string "
        "(`user:password@tcp(host)/db`), and before the host of an image",
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
        "texts of more than 65,536 characters: one token each",
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
