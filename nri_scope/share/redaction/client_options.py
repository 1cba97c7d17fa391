# SPDX-License-Identifier: Apache-2.0
"""Options and arguments of well-known programs that take credentials, from their manuals."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from .word_lists import words


class Takes(Enum):
    """The kinds of option values."""

    SECRET = "s"
    """A credential: the next word, or the rest of a short option's word."""
    GLUED = "g"
    """A credential, but never in a separate word: ``mysql -pPASSWORD DATABASE``."""
    LOGIN = "l"
    """``user:password``"""
    PERCENT = "%"
    """``user%password``"""
    COMMA = ","
    """``user,password``"""
    SOURCE = "i"
    """``pass:password``, or its source: ``file:…``, ``env:…``."""
    CERTIFICATE = "c"
    """``file:password``"""
    HEADER = "h"
    COOKIE = "k"
    ASSIGNED = "a"
    """``key=value`` with any key."""
    NAMED = "n"
    """A name, followed by the value in a separate word: ``--arg password …``."""
    MOUNT = "o"
    """Options of a mount: ``user=jane,password=…``."""


@dataclass(frozen=True, slots=True)
class Client:
    """The options and words of one program that concern credentials."""

    options: dict[str, Takes]
    within: frozenset[str]
    """Subcommands, one of which must precede the options; empty if none is required."""
    words: dict[str, tuple[int, ...]]
    """By word, the positions of credentials after it, counted from 1; -1: the last word."""


_OPTIONS = """
curl: -u=l -U=l --user=l --proxy-user=l -H=h --header=h --proxy-header=h -b=k --cookie=k
  --oauth2-bearer=s --pass=s --proxy-pass=s -E=c --cert=c --proxy-cert=c
wget: --http-user=l --header=h
http https xh xhs: -a=l --auth=l
ab: -A=l -P=l -C=k -H=h
wrk hey vegeta: -H=h -a=l -header=h
grpcurl: -H=h -rpc-header=h -reflect-header=h
mysql mysqldump mysqladmin mysqlimport mysqlshow mysqlcheck mysqlslap mysqlpump mysqlbinlog mysqlsh
  mariadb mariadb-dump mariadb-admin mariadb-import mariadb-check mariabackup mydumper: -p=g
mongo mongosh mongodump mongorestore mongoexport mongoimport mongostat mongotop mongofiles: -p=s
cqlsh beeline cypher-shell rabbitmqadmin pgcli xpack twine influx: -p=s
ncftp ncftpput ncftpget ncftpls ncftpbatch: -p=s
redis-cli valkey-cli keydb-cli: -a=s --pass=s
redis-server valkey-server: --requirepass=s --masterauth=s
sqlcmd bcp tsql isql mosquitto_pub mosquitto_sub mosquitto_rr ipmitool: -P=s
zip unzip: -P=s
7z 7za 7zr rar unrar: -p=g -hp=g
sshpass: -p=s
plink pscp psftp putty: -pw=s
lftp: -u=, --user=,
ldapsearch ldapadd ldapmodify ldapdelete ldapwhoami ldapcompare ldapmodrdn ldapexop: -w=s
ldappasswd: -w=s -s=s -a=s
smbclient rpcclient net smbget smbcacls smbtree smbcquotas winexe wmic nmblookup: -U=% --user=%
  --authentication=% --password=s
openssl: -passin=i -passout=i -pass=i -password=i -passwordin=i -k=s -K=s -psk=s -srppass=i
keytool jarsigner: -storepass=s -keypass=s -srcstorepass=s -deststorepass=s -srckeypass=s
  -destkeypass=s -new=s
snmpget snmpwalk snmpset snmpbulkwalk snmpbulkget snmptrap: -A=s -X=s -c=s
docker podman nerdctl buildah skopeo crane oras helm regctl az [login]: -p=s
kubectl: --from-literal=a
oc [login create]: -p=s --from-literal=a
cf [login]: -p=s
fly flyctl: -t=s
etcdctl: --user=l
useradd usermod: -p=s
doctl: -t=s
vault: -token=s
aws gcloud git npm pulumi psql createuser:
restic borg rclone gpg gpg2: --passphrase=s
rdesktop: -p=s
xfreerdp xfreerdp3 wlfreerdp wlfreerdp3 sdl-freerdp sdl-freerdp3 freerdp: -p=s /p=s /gp=s /pth=s
jq gojq jaq yq: --arg=n --argjson=n
mount mount.cifs mount.smb3 mount.ceph: -o=o --options=o
"""
_WORDS = """
rabbitmqctl: add_user=2 change_password=2 authenticate_user=2
mc mcli: set=3,4 add=3,4
vault: login=1 unseal=1
cargo: login=1
cf: auth=2
mysqladmin mariadb-admin: password=1
wpa_passphrase: wpa_passphrase=2
redis-cli valkey-cli keydb-cli: AUTH=-1 auth=-1
net net.exe: use=1
nmcli: password=1 psk=1 wifi-sec.psk=1 802-11-wireless-security.psk=1
openssl: passwd=-1
htpasswd: -b=-1 -bn=-1 -nb=-1 -cb=-1 -bc=-1 -nbB=-1 -Bbn=-1 -bnB=-1 -bnBC=-1 -nbBC=-1
"""
GROUP_OPTION_PROGRAMS = dict.fromkeys(("sudo", "doas", "runuser"), words("")) | dict.fromkeys(
    words("runc crun youki ctr docker docker-compose podman podman-compose nerdctl buildah"),
    words("run exec create container compose service update"),
)
"""Programs whose ``-u`` takes ``user:group``, with words that may precede that option."""
ORACLE_CLIENTS = frozenset({"sqlplus", "sqlldr", "expdp", "impdp", "exp", "imp", "rman"})
"""Programs that accept ``user/password`` as a word, with or without ``@host``."""
STDIN_READERS = words(
    "--password-stdin --stdin --with-token --passphrase-fd --key-file=- stdin fd:0 kinit chpasswd "
    "passwd smbpasswd cryptsetup"
)
"""Words of commands that read a credential from their standard input."""
FILTERS = words(
    "cat tee base64 base32 tr sed cut head tail xxd rev envsubst iconv openssl gpg install dd "
    "sponge sudo"
)
"""Programs whose output contains their input in some form."""
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "busybox"})


def _parse_tables() -> dict[str, Client]:
    options: dict[str, dict[str, Takes]] = {}
    within: dict[str, frozenset[str]] = {}
    positions: dict[str, dict[str, tuple[int, ...]]] = {}
    for table, is_options in (_OPTIONS, True), (_WORDS, False):
        lines: list[str] = []
        for line in table.strip().split("\n"):
            if line.startswith("  "):
                lines[-1] += line
            else:
                lines.append(line)
        for line in lines:
            before, _, after = line.partition(":")
            names, _, subcommands = before.partition(" [")
            for name in names.split():
                if is_options:
                    options[name] = {
                        (pair := pair_text.rpartition("="))[0]: Takes(pair[2])
                        for pair_text in after.split()
                    }
                    if subcommands:
                        within[name] = frozenset(subcommands.rstrip("]").split())
                else:
                    positions[name] = {
                        (pair := pair_text.rpartition("="))[0]: tuple(map(int, pair[2].split(",")))
                        for pair_text in after.split()
                    }
    return {
        name: Client(options.get(name, {}), within.get(name, frozenset()), positions.get(name, {}))
        for name in options.keys()
        | positions.keys()
        | ORACLE_CLIENTS
        | GROUP_OPTION_PROGRAMS.keys()
    }


CLIENTS = _parse_tables()
