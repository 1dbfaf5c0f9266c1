# Hours by actor and task from an export of the ledger, and from nothing else: what stretches tell, less what corrections took,
# in milliseconds.
#
#   onus ledger export | jq -s -f hours.jq
[.[] | .event | select(. != null)] as $events
| ($events | map(select(.kind == "lease.acquired") | { key: "\(.task) \(.token)", value: .actor }) | from_entries) as $holders
| [
    ($events[] | . as $e | .payload.stretches // [] | .[]
      | { actor: $holders["\($e.task) \($e.token)"], task: $e.task, ms: .active_ms }),
    ($events[] | . as $e | select(.kind == "session.corrected") | .payload.less[]
      | { actor: $e.payload.from, task: $e.task, ms: -.active_ms }),
    ($events[] | . as $e | select(.kind == "session.corrected" and .payload.to) | .payload.less[]
      | { actor: $e.payload.to, task: $e.task, ms: .active_ms })
  ]
| group_by([.actor, .task])
| map({ actor: .[0].actor, task: .[0].task, ms: (map(.ms) | add) })
