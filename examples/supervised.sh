#!/bin/sh
# A command that runs under a lease. The lease is renewed while it runs, and ends according to the command's result.
set -eu
export ONUS_ACTOR=ci:nightly ONUS_INSTANCE=example-1

onus init --prefix EX
onus add "Build"
onus add "Publish"

onus run EX-1 -- echo "building"

# The command's own exit code comes through; its last lines are kept as a note.
code=0
onus run EX-2 -- sh -c 'echo "no network"; exit 3' || code=$?
[ "$code" -eq 3 ]
onus show EX-2
