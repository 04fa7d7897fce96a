#!/bin/sh
# Runs a command and fails if it changed, added or removed a file that git
# would see. In a fresh clone that is `git diff --exit-code` with new files
# counted; with work in progress it still tells our changes from the command's.
set -eu

state=$(mktemp -d)
trap 'rm -rf "$state"' EXIT
trap 'exit 1' HUP INT TERM

snapshot() {
	git status --porcelain --untracked-files=all
	git diff --no-ext-diff
	git ls-files --others --exclude-standard | git hash-object --stdin-paths
}

snapshot >"$state/before"
"$@"
snapshot >"$state/after"
if ! diff -u "$state/before" "$state/after"; then
	echo "unchanged: the tree is not as it was before: $*" >&2
	exit 1
fi
