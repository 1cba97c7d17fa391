# SPDX-License-Identifier: Apache-2.0
"""Credentials that scripts pass to files and programs, compared with what bash passes."""

from __future__ import annotations

import json
import shlex
import shutil
import string
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope.share.redaction import Redactor, Rules
from tests.amount import amount, sampled

from .test_commands import KEY, shown_arguments

SECRET = "Zq7hunter2"
# V is the value as a word of a shell, X the value in a here-document, GOT a file.
FORMS = """
read -r PASSWORD <<EOF\\nX\\nEOF\\nprintf %s "$PASSWORD" > GOT
read -r PASSWORD <<< V; printf %s "$PASSWORD" > GOT
IFS= read -rs DB_PASS <<-'EOF'\\n\\tX\\n\\tEOF\\necho "$DB_PASS" > GOT
read -r user password <<< "jane "V; echo "$password" > GOT
cat <<EOF | { read -r API_TOKEN; echo "$API_TOKEN" > GOT; }\\nX\\nEOF
echo V | while read -r password; do echo "$password" > GOT; done
while read -r user password; do echo "$password" > GOT; done <<EOF\\njane X\\nEOF
kinit jane <<< V
kinit jane <<EOF\\nX\\nEOF
kinit jane <<'EOF' && echo ok\\nX\\nEOF
kinit jane << "EOF"; echo ok\\nX\\nEOF
if true; then kinit jane <<< V; fi
docker login -u jane --password-stdin <<< V
docker login -u jane --password-stdin <<EOF\\nX\\nEOF
chpasswd <<EOF\\nroot:X\\nEOF
printf 'root:%s\\n' V | chpasswd
sudo -S id <<< V
echo V |\\n  sudo -S id
(echo V; echo V) | smbpasswd -s jane
{ echo old; echo V; } | smbpasswd -s jane
cryptsetup open /dev/a b <<< V
echo -n V | docker secret create db -
gpg --passphrase-fd 0 a <<< V
printf V > DIR/password
printf '%s' V > DIR/password
printf '%s\\n' V >> "DIR/db_password"
echo -n V > DIR/token
echo V >DIR/.vault-token
echo V 2>/dev/null >| DIR/token
> DIR/token echo V
echo V | tee DIR/db-password
echo V | sudo tee -a DIR/password > /dev/null
echo V | base64 | base64 -d > DIR/token
(umask 077; echo V) > DIR/password
{ echo V; } > DIR/password
cat > DIR/password <<EOF\\nX\\nEOF
cat <<EOF > DIR/password\\nX\\nEOF
cat <<EOF | tee DIR/password\\nX\\nEOF
cat <<A <<B > DIR/password\\nno\\nA\\nX\\nB
tee DIR/password <<< V
base64 <<< V | base64 -d > DIR/password
bash -c 'echo X > DIR/password'
bash <<EOF\\necho X > DIR/password\\nEOF
""".strip().split("\n")
_PROGRAMS = "kinit docker chpasswd smbpasswd cryptsetup gpg"


def _script(form: str, value: str, folder: str) -> str:
    script = form.replace("\\n", "\n").replace("\\t", "\t")
    # Functions of the shell replace the programs.
    script = script.replace("GOT", f"{folder}/got").replace("DIR", folder)
    return script.replace("X", value).replace("V", shlex.quote(value))


@pytest.mark.parametrize("form", FORMS)
def test_values_that_reach_a_file_or_program_are_replaced(form: str, tmp_path: Path) -> None:
    assert shutil.which("bash") is not None
    script = _script(form, SECRET, str(tmp_path))
    stubs = "".join(f"{name}() {{ cat > {tmp_path}/got; }}\n" for name in _PROGRAMS.split())
    stubs += 'sudo() { if [ "$1" = -S ]; then cat > ' + f'{tmp_path}/got; else "$@"; fi; }}\n'
    subprocess.run(["bash", "-c", stubs + script], check=True, capture_output=True)
    assert any(SECRET in file.read_text() for file in tmp_path.iterdir())

    # A fixed folder: the names of test folders depend on the test.
    script = _script(form, SECRET, "/run/app")
    for args in ["sh", "-ec", script], ["tini", "--", "bash", "-c", f"set -e\n{script}\necho ok"]:
        shown = shown_arguments(args)
        assert SECRET not in shown[-1] and shown[:-1] == args[:-1]
    assert SECRET not in Redactor(Rules.DEFAULT, KEY).text(script)
    assert SECRET not in Redactor(Rules.DEFAULT, KEY).text(json.dumps({"run": script}))


_LETTERS = string.ascii_letters + string.digits
VALUES = st.builds(
    "{}{}{}".format,
    st.sampled_from(["x7", "Q2", "é5u"]),
    st.text(_LETTERS + "'\"$ :é世#&;|<>()[]{}=@!%*+-_~^?/\\", min_size=6, max_size=24),
    st.sampled_from(["k8", "9w", "5é"]),
).filter(lambda text: "  " not in text and "redacted" not in text)


@settings(max_examples=amount(300, 60), deadline=None)
@given(
    value=VALUES,
    form=st.sampled_from([form for form in FORMS if "V" in form and "read" not in form]),
)
def test_quoted_values_are_replaced(value: str, form: str) -> None:
    shown = shown_arguments(["sh", "-c", _script(form, value, "/run/app")])[-1]

    windows = {value[at : at + 7] for at in range(len(value) - 6)}
    assert not [one for one in windows if one in shown]


@pytest.mark.parametrize(
    "script",
    [
        "echo ready > /tmp/log",
        "echo 3 > /proc/sys/vm/drop_caches",
        'printf "%s" "$PASSWORD" > /run/secrets/password',
        "echo '$(DB_PASSWORD)' > /run/secrets/password",
        "cat /run/secrets/password | base64 > /tmp/x",
        "cat > /etc/app.conf <<EOF\nport = 80\nEOF",
        "cat > /usr/local/bin/get-token <<EOF\n#!/bin/sh\nexec cat /x\nEOF",
        "cat > /usr/local/bin/get-token.sh <<EOF\nexec cat /x\nEOF",
        "read -r line <<< hello",
        "while read -r user password; do echo $user; done < /tmp/x",
        "echo 'deb http://127.0.0.1 main' | sudo tee /etc/apt/sources.list",
        "echo app:x:1000:1000::/app:/bin/sh >> /etc/passwd",
        "psql <<EOF > /tmp/token\nselect 1 from there\nEOF",
        "echo select | psql > /tmp/token",
        "a << b\nc >> password",
        "echo it is done; kinit -k jane",
        "gpg --passphrase-fd 0 < /x",
        "docker login --password-stdin < /x",
        "echo ok > /dev/null; cat /x > /run/token",
        "my-token\n#!/bin/sh",
    ],
)
def test_text_written_to_other_files_stays(script: str) -> None:
    assert shown_arguments(["sh", "-c", script]) == ["sh", "-c", script]
    assert Redactor(Rules.DEFAULT, KEY).text(script) == script


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "crumb", sampled(["{{ ", "kinit <<E{}\n", "(echo x{} | ", "while read p <<E{}; do\n"])
)
def test_deeply_nested_input_ends(crumb: str) -> None:
    begun = "".join(crumb.format(number) for number in range(4_000))[:60_000]
    closed = begun + "\n" + "".join(f"E{number}\n" for number in range(4_000))
    for text in begun, closed, begun + ")" * 4_000, closed[:65_000]:
        Redactor(Rules.DEFAULT, KEY).text(text + f"\nkinit <<< {SECRET}")


@pytest.mark.parametrize("command", ["redis-cli " + "AUTH " * 12_000, "net use \\\\a " * 4_000])
def test_many_repeated_commands_end(command: str) -> None:
    assert SECRET not in Redactor(Rules.DEFAULT, KEY).text(f"{command} x; kinit <<< {SECRET}")
