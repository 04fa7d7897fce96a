#!/bin/sh
# Runs every fuzz target of the module for the time given (10s, 2m, or 5000x).
set -eu

time=${1:-10s}
out=$(mktemp)
trap 'rm -f "$out"' EXIT
trap 'exit 1' HUP INT TERM

# `go test -list` prints a package's targets, then a line "ok <package> …".
go test -list '^Fuzz' ./... >"$out" || { cat "$out"; exit 1; }
targets=$(awk '/^Fuzz/ { names[n++] = $1 }
	/^(ok|\?)[ \t]/ { for (i = 0; i < n; i++) print $2 ":" names[i]; n = 0 }' "$out")

count=0
failed=
for target in $targets; do
	count=$((count + 1))
	echo "fuzz: $target for $time"
	go test -run '^$' -fuzz "^${target##*:}\$" -fuzztime "$time" "${target%:*}" >"$out" 2>&1 && continue
	# Go up to 1.26 sometimes takes its own time limit for a failure
	# (go.dev/issue/75804). A real failure leaves its input or a panic.
	if grep -q '^ *context deadline exceeded$' "$out" && ! grep -qE 'Failing input written|panic|_test\.go:' "$out"; then
		echo "fuzz: $target ended at its time limit"
		continue
	fi
	cat "$out"
	failed="$failed $target"
done

if [ -n "$failed" ]; then
	echo "fuzz: failed:$failed" >&2
	exit 1
fi
echo "fuzz: $count targets held"
