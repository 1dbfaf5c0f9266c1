#!/bin/sh
# Asks by mail and by chat, each delivered twice: one task each. Asks from outside are proposed until somebody accepts them.
set -eu
export ONUS_ACTOR=human:ann

onus init --prefix EX
for _ in 1 2; do
    onus intake mail <<'MAIL'
From: Zoe <zoe@customer.example>
Subject: The invoice has the wrong date
Message-ID: <7@customer.example>

It says 2025.
MAIL
done

# One answer per line, as JSON.
for _ in 1 2; do
    echo '{"channel": "ops", "id": 1, "text": "The build is red"}'
done | onus intake chat --follow >/dev/null

onus list
onus accept EX-1 -m "Ours to fix"
onus claim EX-1
