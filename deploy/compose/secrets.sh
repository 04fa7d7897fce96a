#!/bin/sh
# Makes the secrets that compose.yaml needs, once: what is there stays. Their
# files can be read by all, as each container has a user of its own; that nobody
# else on this machine reads them is up to the directory.
set -eu
cd "$(dirname "$0")"
umask 077
mkdir -p secrets
cd secrets

secret() {
	[ -e "$1" ] || head -c 24 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$1"
	chmod 444 "$1"
}
for name in mqtt_password http_token mongodb_root_password mongodb_password grafana_password; do
	secret "$name"
done
[ -e mongodb_uri ] || printf 'mongodb://gudang:%s@mongodb:27017/?replicaSet=rs0&authSource=gudang&w=majority' "$(cat mongodb_password)" >mongodb_uri
chmod 444 mongodb_uri
