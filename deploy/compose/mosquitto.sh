#!/bin/sh
# Starts Mosquitto with deploy/mosquitto.conf, opened to the other containers
# and with a password: the first argument is that file, the second the secret's.
set -eu
umask 077
run=${RUN_DIR:-/tmp}
rm -f "$run/passwd"
mosquitto_passwd -c -b "$run/passwd" gudang "$(cat "$2")"
sed -e 's/^listener .*/listener 1883/' \
	-e "s|^allow_anonymous .*|allow_anonymous false\npassword_file $run/passwd|" \
	-e 's|^persistence_location .*|persistence_location /mosquitto/data/|' "$1" >"$run/mosquitto.conf"
exec mosquitto -c "$run/mosquitto.conf"
