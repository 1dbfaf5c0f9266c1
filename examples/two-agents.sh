#!/bin/sh
# Two agents that want the same task, and the same files: the second is refused, and told what to do instead.
set -eu
ada() { ONUS_ACTOR=agent:ada ONUS_INSTANCE=ada-1 onus "$@"; }
bob() { ONUS_ACTOR=agent:bob ONUS_INSTANCE=bob-1 onus "$@"; }

ada init --prefix EX
ada add "Rewrite the parser" --scope "src/parser/**"
ada add "Rename the token type"
ada claim EX-1

# Exit 4: someone else has it.
code=0
bob claim EX-1 || code=$?
[ "$code" -eq 4 ]

# Another task is free, but not the files that the first one reserves.
bob claim EX-2
code=0
bob touch src/parser/token.rs || code=$?
[ "$code" -eq 4 ]

ada done EX-1 -m "rewritten"
bob touch src/parser/token.rs
bob done EX-2 -m "renamed"
