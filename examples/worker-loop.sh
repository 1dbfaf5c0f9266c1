#!/bin/sh
# A worker that takes whatever is ready until nothing is left. Start as many as you like: no task is taken twice.
set -eu
export ONUS_ACTOR=agent:worker ONUS_INSTANCE="worker-$$"

onus init --prefix EX
for title in "Wash" "Dry" "Fold"; do onus add "$title"; done

while task=$(onus claim --next --json); do
    id=$(printf '%s' "$task" | sed 's/.*"id":"\([A-Z]*-[0-9]*\)".*/\1/')
    onus done "$id" -m "done by $ONUS_INSTANCE"
done

onus status
