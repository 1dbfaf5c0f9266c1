#!/bin/sh
# A store, a task, a claim, and what the record says about it.
set -eu
export ONUS_ACTOR=agent:ada ONUS_INSTANCE=example-1

onus init --prefix EX
onus add "Fix the login test" --priority p1
onus claim EX-1
onus note EX-1 "it fails on the first of a month"
onus done EX-1 -m "the clock is a parameter now"

onus log EX-1
onus ledger verify
