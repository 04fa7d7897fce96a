#!/bin/sh
# Sees to the programs that the tests start. As root on Debian or Ubuntu it
# installs what is missing; anywhere else it names it, and the tests that need
# it skip with the same hint.
set -eu

# command=package
NEEDS='mosquitto=mosquitto mosquitto_pub=mosquitto-clients promtool=prometheus systemd-analyze=systemd chromium=chromium'

# In CI the race detector needs a C compiler, too.
[ -z "${CI:-}" ] || NEEDS="$NEEDS cc=gcc cc=libc6-dev"

PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

missing=
for need in $NEEDS; do
	command -v "${need%%=*}" >/dev/null 2>&1 || missing="$missing ${need#*=}"
done
[ -n "$missing" ] || exit 0

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null 2>&1; then
	echo "setup: missing:$missing" >&2
	echo "setup: tests that need them will be skipped. On Debian or Ubuntu: sudo apt-get install$missing" >&2
	exit 0
fi

# Debian starts a service when its package is installed, and these would take
# the ports 1883 and 9090. policy-rc.d answering 101 forbids that while we
# install; what was there before comes back.
policy=/usr/sbin/policy-rc.d
restore() {
	rm -f "$policy"
	[ ! -e "$policy.gudang" ] || mv "$policy.gudang" "$policy"
}
[ ! -e "$policy" ] || mv "$policy" "$policy.gudang"
trap restore EXIT
trap 'exit 1' HUP INT TERM
printf '#!/bin/sh\nexit 101\n' >"$policy"
chmod 755 "$policy"

# A mirror that fails once often answers the next time.
retry() {
	for pause in 2 5 15; do
		"$@" && return 0
		echo "setup: $1 failed, again in $pause s" >&2
		sleep "$pause"
	done
	"$@"
}
export DEBIAN_FRONTEND=noninteractive
retry apt-get -qq update
# Ubuntu has no such package, only a snap. Any other Chrome does as well.
case " $missing " in *" chromium "*)
	if ! apt-cache show chromium >/dev/null 2>&1; then
		echo "setup: no package chromium here: install Chromium or Chrome, or the tests of the pages will be skipped" >&2
		missing=$(printf '%s' "$missing" | sed 's/ chromium//')
	fi
	;;
esac
[ -n "$missing" ] || exit 0
# shellcheck disable=SC2086 # the list is meant to be split
retry apt-get -qq install -y --no-install-recommends $missing

# Nor shall they start with the machine because somebody ran the tests.
if [ -d /run/systemd/system ]; then
	for unit in mosquitto prometheus; do
		case " $missing " in *" $unit "*) systemctl disable --quiet "$unit" || true ;; esac
	done
fi
