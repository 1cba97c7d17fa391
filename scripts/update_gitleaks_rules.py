# SPDX-License-Identifier: Apache-2.0
"""Update redaction's rules for service credentials from gitleaks.

    python -m scripts.update_gitleaks_rules                  newest version of the Go module
    python -m scripts.update_gitleaks_rules --version v8.30.1
    python -m scripts.update_gitleaks_rules --folder DIR --version v8.30.1   a copy of gitleaks

Expressions and keywords are copied unchanged, with the licence. Entropy limits are dropped: they
separate placeholders from credentials, and replacing a placeholder does no harm. Excluded rules
and the reasons are listed in docs/decisions/0001-credential-formats.md.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

MODULE = "github.com/zricethezav/gitleaks/v8"
TARGET = Path(__file__).parents[1] / "nri_scope" / "share" / "redaction" / "gitleaks"

EXCLUDED = {
    "generic-api-key": "values of keys that suggest a secret are found by nri-scope's key rules",
    "curl-auth-header": "found by nri-scope's header rules, in arguments of every program",
    "curl-auth-user": "found by nri-scope's argument rules",
    "jwt": "nri-scope's rule also finds encrypted and short tokens",
    "jwt-base64": "nri-scope decodes base64 first",
    "private-key": "nri-scope's rule also finds truncated keys",
    "vault-service-token": "nri-scope's rule also finds short tokens; the keyword is very common",
}
_FIELDS = ("id", "regex", "secretGroup", "keywords")


def selected_rules(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rules that redaction uses, reduced to the used fields."""
    return [
        {name: rule[name] for name in _FIELDS if name in rule}
        for rule in config["rules"]
        # Rules with a path apply to files of that name only.
        if "regex" in rule and "path" not in rule and rule["id"] not in EXCLUDED
    ]


def update(folder: Path, version: str, target: Path = TARGET) -> int:
    """Write the rules and the licence of a copy of gitleaks; return the number of rules."""
    config = tomllib.loads((folder / "config" / "gitleaks.toml").read_text())
    rules = selected_rules(config)
    document = {"module": MODULE, "version": version, "licence": "MIT", "rules": rules}
    target.mkdir(exist_ok=True)
    (target / "rules.json").write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    shutil.copyfile(folder / "LICENSE", target / "LICENSE")
    return len(rules)


def download(version: str) -> tuple[Path, str]:
    """Return the module's folder in Go's cache, and its version."""
    command = ["go", "mod", "download", "-json", f"{MODULE}@{version}"]
    done = subprocess.run(command, capture_output=True, text=True)
    answer = json.loads(done.stdout or "{}")
    if done.returncode != 0 or "Dir" not in answer:
        sys.exit(answer.get("Error") or done.stderr or "go mod download failed")
    return Path(answer["Dir"]), answer["Version"]


def main() -> None:
    """Update the rules and print their number."""
    parser = argparse.ArgumentParser(description="Update the redaction rules from gitleaks.")
    parser.add_argument("--version", default="latest", help="version of the module or of the copy")
    parser.add_argument("--folder", type=Path, help="use this copy instead of the Go module")
    options = parser.parse_args()
    folder, version = options.folder, options.version
    if folder is None:
        folder, version = download(version)
    elif version == "latest":
        parser.error("--folder needs --version, which is stored with the rules")
    print(f"wrote {update(folder, version)} rules of gitleaks {version}")


if __name__ == "__main__":
    main()
