#!/bin/bash
# Starts MongoDB as a replica set of one, with passwords. Members of a set know
# each other by a key file; alone, it may be a new one at each start.
set -eu
rm -f /tmp/keyfile
(umask 077 && head -c 300 /dev/urandom | base64 -w0 >/tmp/keyfile)
chmod 400 /tmp/keyfile
chown mongodb:mongodb /tmp/keyfile
exec docker-entrypoint.sh mongod --replSet rs0 --bind_ip_all --keyFile /tmp/keyfile
