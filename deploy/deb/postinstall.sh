#!/bin/sh
# A first installation is not started: where readings come from and go to is to
# be written into its settings first. An upgrade goes on as it was.
set -e
[ "$1" = configure ] || exit 0
[ -d /run/systemd/system ] || exit 0
systemctl daemon-reload
if [ -n "$2" ]; then
	systemctl try-restart gudang.service
else
	echo "gudang: see /etc/gudang/gudang.env, then: systemctl enable --now gudang"
fi
