# Hours from an export of the ledger, and from nothing else:
#
#   onus ledger export | jq -s -f effort.jq
#
# `tasks`: the milliseconds worked on each task, less what corrections took away. `leases`: the same for each lease, with what its last end said of it.
[.[] | .event | select(. != null)] as $events
| {
    tasks: ($events | map(select(.payload.stretches)) | group_by(.task)
      | map(.[0].task as $task | {
          key: $task,
          value: ((map(.payload.stretches[].active_ms) | add)
            - ([$events[] | select(.task == $task and .kind == "session.corrected" and (.payload.to | not))
                | .payload.less[].active_ms] | add // 0))
        }) | from_entries),
    leases: ($events | map(select(.task and .token)) | group_by([.task, .token])
      | map({
          task: .[0].task,
          token: .[0].token,
          active_ms: (map(.payload.stretches // [] | .[].active_ms) | add // 0),
          stretches: (map(.payload.stretches // [] | length) | add),
          said_ms: (map(.payload.lease // empty | .active_ms) | last)
        })),
  }
