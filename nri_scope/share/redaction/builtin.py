# SPDX-License-Identifier: Apache-2.0
"""The built-in rules, with the names by which rule files switch them on and off."""

from __future__ import annotations

from enum import StrEnum


class BuiltIn(StrEnum):
    """A built-in rule, by its name, under which replacements are counted."""

    replaced_values: str
    """The values that the rule replaces, in Markdown, for the table in docs/redaction.md."""
    is_on: bool
    """Whether the rule is on by default."""

    # As quick as that of a text, which it equals.
    __hash__ = str.__hash__

    def __new__(cls, name: str, replaced_values: str = "", is_on: bool = True) -> BuiltIn:
        """Return the rule of this name."""
        rule = str.__new__(cls, name)
        rule._value_, rule.replaced_values, rule.is_on = name, replaced_values, is_on
        return rule

    CREDENTIAL_KEYS = (
        "credential-keys",
        "what follows a key that names a credential, in 40 languages (`DB_PASSWORD=…`, "
        "`--api-key …`, `password: …`, `Kennwort`, `密码`), whatever it is made of, in any syntax: "
        "variables, arguments, annotations, labels, options, JSON, YAML, XML, scripts and text; "
        "private keys (PEM)",
    )
    UNKNOWN_WORDS = (
        "unknown-words",
        "everything else that is not known to be harmless (see below)",
    )
    URL_PASSWORDS = (
        "url-passwords",
        "user and password in a URL (`postgres://user:password@host/`), in a connection string "
        "(`user:password@tcp(host)/db`), and before the host of an image",
    )
    EMAILS = "emails", "mail addresses"
    ADDRESSES = (
        "addresses",
        "IP addresses, also with a port or a prefix length, except loopback, unspecified and "
        "broadcast addresses and netmasks",
    )
    HOST_NAMES = (
        "host-names",
        "host names with a dot and a known ending (`db.acme.com`, `node1.corp`), except those of "
        "public registries and projects, `example.com`, and names inside the cluster (`.svc`, "
        "`.cluster.local`)",
    )
    USER_PATHS = "user-paths", "the user's name in `/home/…`, `/Users/…` and `C:\\Users\\…`"
    REGISTRIES = (
        "registries",
        "the host in an image reference, unless it is a public registry; repository, tag and "
        "digest stay",
    )
    UNKNOWN_FIELDS = (
        "unknown-fields",
        "message fields that this version of nri-scope does not know, which are **removed**, since "
        "their content is unknown",
    )
    UNREADABLE = (
        "unreadable",
        "whole messages that are malformed or of an unknown method, and CRI answers that are not "
        "JSON: one token each",
    )
    LONG_TEXTS = (
        "long-texts",
        "texts of more than 65,536 characters: one token each",
    )
    NAMESPACES = (
        "namespaces",
        "names of namespaces, except `default`, `kube-system`, `kube-public` and `kube-node-lease`",
        False,
    )
    NODES = (
        "nodes",
        "this machine's name, the names of nodes in the rule file, and values of variables and "
        "options for a node's name (`NODE_NAME`, `--hostname-override=…`)",
        False,
    )
    PODS = "pods", "names of pods", False
    CONTAINERS = "containers", "names of containers", False


DEFAULT_RULES = frozenset(rule for rule in BuiltIn if rule.is_on)
