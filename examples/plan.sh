#!/bin/sh
# A plan with dependencies, added in one piece: only tasks that wait for nothing are ready.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
export ONUS_ACTOR=human:ann

onus init --prefix EX
onus add --file "$here/plan.toml"
onus ready
onus why EX-3
onus graph
