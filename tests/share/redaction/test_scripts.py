# SPDX-License-Identifier: Apache-2.0
"""Scripts stay valid shell, whatever is replaced in them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.share.redaction import Redactor, Rules
from tests.amount import amount

KEY = bytes(range(32))
KEYS = st.sampled_from(["PASSWORD", "DB_PASSWORD", "api_token", "secret", "TOKEN1", "Kennwort"])
COMMANDS = st.sampled_from(["cat /run/x", "openssl rand -hex 16", "head -n 1 zq7/kx", "jq -r .a b"])
PLAIN = ["hunter2", "correct-horse", "1234", "zq7kx", "a,b", "/run/secrets/zq7", "x=y", "a@b:c"]
SHELL_WORDS = st.one_of(
    st.sampled_from(PLAIN),
    st.sampled_from(["'correct horse'", '"zq7 kx"', "'it'\"'\"'s'", "a\\ b\\;c", "$'a\\'b'", "''"]),
    st.sampled_from(["$1", '"$1"', "${X:-zq7}", '"${X:-zq7 kx}"', "${X:?no password}", "${1#*=}"]),
    COMMANDS.map("$({})".format),
    COMMANDS.map('"$({})"'.format),
    COMMANDS.map("`{}`".format),
    COMMANDS.map("zq7$({} | tr -d a)kx".format),
    COMMANDS.map("$(echo $({}))".format),
    st.just('"$(jq -r ".password" /run/x.json)"'),
    st.just("$((1 + 2))"),
)
TEMPLATES = r"""
export {k}={w}
{k}={w}
{k}={w} exec app
{k}={w}; exec app --zq7
app --{k} {w} & wait
app --{k}={w} > /dev/null 2>&1
app -p{w} | grep -q 1
echo {w} | docker login -u bob --password-stdin
echo "{k}: zq7; exec" '{k}=zq7 kx'
echo "{k}:"
[ "${k}" = {w} ] || exit 1
curl -H "Authorization: Bearer zq7kx" https://zq.acme.com/x
curl -H "Authorization: Bearer $({c})" -d '{{"{k}": "zq7 kx"}}' https://zq.acme.com/x
curl -u bob:{w} -d "{{\\"{k}\\": \\"zq7\\"}}" postgres://bob:hunter2@db/x
sed -i "s/{k}: .*/{k}: ${{PASSWORD}}/" /etc/zq.conf
sed -i 's|^{k} .*|{k} '"$PASSWORD"'|' /etc/zq.conf
kubectl create secret generic zq --from-literal={k}={w} -o yaml
read -r -p '{k}: ' {k}
test -n "${{{k}+x}}"
trap 'rm -f /run/{k}' EXIT
cat <<EOF >/etc/zq.conf\n{k}: {w}\nuser: bob\n{k} = zq7 kx\nEOF
cat <<'ZQ7' | tee x\n{k}: it is\n  - {k}\n{k}={w}\nZQ7
cat <<-EOF\n\t[{k}s]\n\ta = zq7\n\tEOF
cat <<EOF\ncredentials:\n- zq7\n- kx\nEOF
printf '%s\\n' 'user: bob\n{k}: zq7' > /etc/zq.conf
# {k}: it's {w}\ntrue
{k}=$(cat <<EOF\n{w}\nEOF\n)
""".strip()


def simple(key: str, word: str, command: str, template: str) -> str:
    return template.encode().decode("unicode_escape").format(k=key, w=word, c=command)


SIMPLE = st.builds(simple, KEYS, SHELL_WORDS, COMMANDS, st.sampled_from(TEMPLATES.splitlines()))


def compound(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.tuples(inner, inner).map("\n".join),
        st.builds('if [ -z "$PASSWORD" ]; then\n{}\nelse\n{}\nfi'.format, inner, inner),
        st.builds("for password in hunter2 zq7; do\n{}\ndone".format, inner),
        st.builds("while read -r password; do\n{}\ndone < /run/x".format, inner),
        st.builds("case $PASSWORD in hunter2)\n{}\n;; *) exit 1;; esac".format, inner),
        st.builds("(\n{}\n) | tee /dev/null".format, inner),
        st.builds("login() {{\n{}\n}}; login hunter2".format, inner),
    )


SCRIPTS = st.recursive(SIMPLE, compound, max_leaves=5)


def errors_of(script: str, shell: str = "sh") -> str:
    """Return the complaints of the shell about a script, which it does not run."""
    command = [shell, "-n", "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def in_argument(script: str) -> str:
    request = api.CreateContainerRequest(
        container=api.Container(id="c1", name="app", args=["/bin/sh", "-ec", script])
    )
    content = Redactor(Rules.DEFAULT, KEY).request("CreateContainer", request.SerializeToString())
    return api.CreateContainerRequest.FromString(content).container.args[2]


def in_text(script: str) -> str:
    return Redactor(Rules.DEFAULT, KEY).text(script)


REAL = [
    "export PASSWORD=$(cat /run/x); exec app",
    "PASSWORD=`cat /run/x` exec app",
    'set -e; password=$(openssl rand -hex 16); printf "%s" "$password" > /run/p; exec app',
    'eval "PASSWORD=\\"$(cat /run/x)\\""; exec app',
    "if [ -z \"$PASSWORD\" ]; then echo 'password missing' >&2; exit 1; fi; exec app",
    "PGPASSWORD=zq7 psql -h db -c \"create user bob password 'zq7'\" && exec app",
    "password=${1#*=} ; token=${2%%,*}; exec app",
    'openssl passwd -1 "$PASSWORD"|tr -d "\\n">/x; exec app',
    "diff <(cat /run/x) <(echo zq7); [[ $PASSWORD =~ ^[a-z]+$ ]] && exec app",
]


@pytest.mark.parametrize("script", REAL)
def test_a_script_keeps_its_commands(script: str) -> None:
    for redact in in_argument, in_text:
        shown = redact(script)
        assert errors_of(shown, "bash") == errors_of(script, "bash") == ""
        assert "exec app" in shown and "zq7" not in shown


@pytest.mark.parametrize("redact", [in_argument, in_text])
@settings(max_examples=amount(60, 40), deadline=None)
@given(script=SCRIPTS)
def test_a_script_stays_valid(redact: Callable[[str], str], script: str) -> None:
    if not errors_of(script):
        assert errors_of(redact(script)) == ""
