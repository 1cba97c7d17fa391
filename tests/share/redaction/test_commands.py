# SPDX-License-Identifier: Apache-2.0
"""Credentials in arguments of well-known programs, as documented in their manuals."""

from __future__ import annotations

import json
import shlex

import pytest

from nri_scope._gen.nri import api_pb2 as api
from nri_scope.share.redaction import Redactor, Rules

KEY = bytes(range(32))
SECRET = "$x1y2:z3w4"
COMMANDS = """
curl -u jane:{} http://db
curl -sSfu jane:{} http://db
curl -ujane:{} http://db
curl --proxy-user jane:{} http://db
curl -H 'Authorization: token {}' http://db
curl -H 'Authorization: ApiKey {}' http://db
curl -H 'Authorization: SSWS {}' http://db
curl -H 'authorization: Splunk {}' http://db
curl -H 'Authorization: GenieKey {}' http://db
curl -H 'Authorization: Unheard {}' http://db
curl -H 'Authorization: AWS4-HMAC-SHA256 Credential=a/b, SignedHeaders=c, Signature={}' http://db
curl -H 'X-Api-Key: {}' http://db
curl -H 'X-Vault-Token: {}' http://db
curl --cookie 'session={}' http://db
curl --cert client.pem:{} http://db
curl --oauth2-bearer {} http://db
curl -d '{{"password": "{}"}}' http://db
curl -d 'name=a&password={}' http://db
wget --http-password={} http://db
http -a jane:{} example.com
mysql -h db -p{} shop
mysqldump --password={} shop
mysqladmin -u root password {}
mariadb-admin -h db password {}
oc login -u jane -p {} https://api
oc create secret generic a --from-literal=plain={}
cf login -a api -u jane -p {}
cf auth jane {}
ncftpput -u jane -p {} host /a b
fly -t {} status
mariadb -p{}
mongosh -u jane -p {} db
mongodump --password {} --gzip
docker login -u jane -p {} registry
podman login --password={} registry
skopeo copy --src-creds=jane:{} docker://a docker://b
az login --service-principal -u a -p {}
aws configure set aws_secret_access_key {}
psql 'host=db user=jane password={} dbname=shop'
PGPASSWORD={} psql -h db
redis-cli -h db -a {} ping
redis-cli --pass {} ping
redis-server --requirepass {}
sshpass -p {} ssh db
sshpass -p{} ssh db
ldapsearch -x -D cn=a -w {} -b dc=b
ldappasswd -s {} jane
smbclient //db/a -U jane%{}
openssl enc -aes256 -pass pass:{} -in a
openssl rsa -passin pass:{} -in a
keytool -list -storepass {} -keystore a.jks
keytool -list -keystore a.jks -storetype jks -keypass {}
snmpwalk -v3 -A {} host
sqlcmd -S db -P {}
mosquitto_pub -h mq -u jane -P {} -t a
7z x -p{} a.7z
unzip -P {} a.zip
kubectl create secret generic a --from-literal=plain={}
kubectl config set-credentials a --token={}
etcdctl --user jane:{} get a
lftp -u jane,{} host
plink -pw {} host
cqlsh db -u jane -p {}
rabbitmqctl add_user jane {}
rabbitmqctl change_password jane {}
mc alias set name http://minio jane {}
vault login {}
htpasswd -bnB jane {}
nmcli dev wifi connect home password {}
sqlplus jane/{}@//db:1521/shop
ipmitool -H bmc -U jane -P {} power
java -Djavax.net.ssl.keyStorePassword={} -jar a.jar
docker run -e DB_PASSWORD={} -p 8080:80 image
helm install a --set auth.password={}
jq -n --arg user a --arg password {} '.b=$password'
jq --argjson token {} .
xfreerdp /v:host /u:b /p:{} /cert:ignore
wlfreerdp /v:host /gp:{}
net use Z: '\\\\server\\share' {} /user:b
net use '\\\\server\\share' /user:b {} /persistent:no
redis-cli -h db AUTH {}
redis-cli -h db AUTH default {}
mount -t cifs -o rw,username=b,password={} //server/share /mnt
mount -t cifs //server/share /mnt -o user=jane%{}
mount -t cifs //jane:{}@server/share /mnt
mount -t ceph -o name=admin,secret={} mon:/ /mnt
cli set password {}
mysql -e "SET PASSWORD FOR 'b'@'%' = '{}'"
mysql -e "SET PASSWORD = PASSWORD('{}')"
mysql -e "ALTER USER b IDENTIFIED BY '{}'"
mysql -e "ALTER USER b IDENTIFIED BY 'old' REPLACE '{}'"
mysql -e "CREATE USER b IDENTIFIED WITH caching_sha2_password BY '{}'"
sqlplus -s / "alter user b identified by {};"
psql -c "ALTER USER b WITH ENCRYPTED PASSWORD '{}'"
"""
BEFORE = [
    [],
    ["/sbin/tini", "--"],
    ["dumb-init"],
    ["env", "A=b"],
    ["exec"],
    ["/usr/bin/env", "-i", "nice", "-n", "5"],
]


def shown_arguments(args: list[str]) -> list[str]:
    request = api.CreateContainerRequest(container=api.Container(id="c1", args=args))
    shown = Redactor(Rules.DEFAULT, KEY).request("CreateContainer", request.SerializeToString())
    again = Redactor(Rules.DEFAULT, bytes(32)).request("CreateContainer", shown)
    assert again == shown
    return list(api.CreateContainerRequest.FromString(shown).container.args)


@pytest.mark.parametrize("command", COMMANDS.strip().split("\n"))
def test_only_the_credentials_of_a_command_are_replaced(command: str) -> None:
    for before in BEFORE:
        words = [word.format(SECRET) for word in shlex.split(command.replace("{{", "{{{{"))]
        words = [word.replace("{{", "{") for word in before + words]
        shown = shown_arguments(words)

        assert "y2:z3w4" not in " ".join(shown), before
        for word, given in zip(words, shown, strict=True):
            if "y2:z3w4" not in word and "jane" not in word:
                assert given == word, before


@pytest.mark.parametrize("command", COMMANDS.strip().split("\n"))
@pytest.mark.parametrize("program", ["sh", "/bin/bash"])
def test_credentials_of_a_command_in_a_script_are_replaced(command: str, program: str) -> None:
    words = [word.format(SECRET) for word in shlex.split(command.replace("{{", "{{{{"))]
    line = shlex.join(word.replace("{{", "{") for word in words)
    if line.startswith("'PGPASSWORD="):
        line = line.replace("'PGPASSWORD=", "PGPASSWORD='", 1)
    script = f"set -e\ncd /tmp && {line} || exit 1\necho it is done"
    for args in ["tini", "--", program, "-ec", script], [program, "-c", f"exec {line}"]:
        shown = shown_arguments(args)

        assert "y2:z3w4" not in " ".join(shown)
        assert shown[:-1] == args[:-1]
    text = Redactor(Rules.DEFAULT, KEY).text(f"it ran: {line}")
    assert "y2:z3w4" not in text and text.startswith("it ran: ")
    packed = f"args: [{program}, -c, {json.dumps(line)}]\n"
    assert "y2:z3w4" not in Redactor(Rules.DEFAULT, KEY).text(packed)


@pytest.mark.parametrize(
    "script",
    [
        "echo x1y2z3w4 | docker login -u jane --password-stdin",
        "echo jane:x1y2z3w4 | chpasswd",
        "printf 'jane:%s\\n' x1y2z3w4/:8 | chpasswd",
        "printf x1y2z3w4 | sudo -S id",
        'bash -c "mysql -px1y2z3w4 shop"',
        "mysql \\\n  -px1y2z3w4 \\\n  shop",
        "mysqladmin --password \\\n  x1y2z3w4",
        "run=$(mysql -px1y2z3w4 shop)",
    ],
)
def test_a_credential_in_a_script_is_replaced(script: str) -> None:
    assert "x1y2z3w4" not in " ".join(shown_arguments(["sh", "-c", script]))


@pytest.mark.parametrize("program", ["influx", "mongosh", "sshpass", "docker login"])
def test_an_option_with_a_long_name_after_one_dash_is_not_a_short_one(program: str) -> None:
    words = [*program.split(), "-password", SECRET, "assword", "host"]

    assert shown_arguments(words)[-4] == "-password"
    assert shown_arguments(words)[-2:] == ["assword", "host"]
    assert "y2:z3w4" not in " ".join(shown_arguments(words))


@pytest.mark.parametrize(
    "command",
    [
        "docker run -p 8080:80 -v /a:/b image",
        "docker run -u 1000:1000 image",
        "docker run -it --rm --name web -u app:app image",
        "docker run --user=app:app image",
        "docker exec --user app:app web id",
        "docker compose run -u app:app web",
        "podman run --user app:app image",
        "nerdctl run -u app:app image",
        "ctr run --user app:app image web",
        "runc exec -u app:app web",
        "sudo -u app:app id",
        "sudo -E --user=app:app id",
        "runuser -u app:app -- id",
        "chown -R app:app /data",
        "su app -c 'id -u app:app'",
        "su-exec app:app id",
        "gosu app:app id",
        "setpriv --reuid=app:app id",
        "chroot --userspec=app:app / id",
        "xfreerdp /v:host /u:app /f",
        "jq -n --arg name web .",
        "net use of memory is high",
        "redis-cli -h db INFO",
        "mount -o ro,noexec,key=/etc/keys/a /dev/a /mnt",
        "mount -t nfs server:/share /mnt",
        "tool set timeout 30",
        "CREATE USER app IDENTIFIED BY VALUES",
        "mysql -p shop",
        "ssh -p 2222 host",
        "mkdir -p /var/lib/data",
        "ps -u root",
        "curl -u : --negotiate http://db",
        "psql -U app -p 5432 -h db shop",
        "smbclient -L host -N",
        "openssl rsa -passin env:KEYPASS -in a",
        "cp -a source target",
        "kubectl logs -p web-0",
        "run --auth=none --webhook=enabled --max-tokens=4096 --token-ttl=10m",
        "etcd --initial-cluster-token=etcd-cluster-1 --auth-token=simple",
        "app --password-file /run/secrets/a --tls-private-key-file=/etc/tls/tls.key",
        "echo it is done | tee /tmp/log",
        "sh -c 'exit 1'",
        "mysql --password=$(DB_PASSWORD) shop",
        "grep -c password /etc/config",
    ],
)
def test_arguments_similar_to_credentials_are_unchanged(command: str) -> None:
    args = shlex.split(command)

    assert shown_arguments(args) == args
    assert shown_arguments(["sh", "-c", command]) == ["sh", "-c", command]


@pytest.mark.parametrize("program", ["sudo", "sudo -u app:app", "docker run -u app:app -it image"])
def test_options_of_a_wrapped_program_are_credentials(program: str) -> None:
    command = [*program.split(), "run", "-u", f"jane:{SECRET}"]

    assert "y2:z3w4" not in " ".join(shown_arguments(command))
    assert "y2:z3w4" not in shown_arguments(["sh", "-c", shlex.join(command)])[-1]
