-- Rows that are a fold of the ledger: project, actor, alias, task, seat, lease, stretch, usage, made_commit, judgement, dep, ref, scope, and which texts
-- are indexed.
-- Rows that are not: event (the ledger itself), text (erasable), a live lease's pulse, instance, loss, notice, request, latest (a
-- reading of the clock), and chore (what must still be done to the files themselves).
--
-- Every process that opens a store reads the text of each statement: comments stand outside of them.

CREATE TABLE project (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    uid TEXT NOT NULL,
    prefix TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    version INTEGER NOT NULL,
    head TEXT NOT NULL,
    last_number INTEGER NOT NULL,
    last_seat INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE actor (
    name TEXT PRIMARY KEY,
    tier INTEGER NOT NULL,
    registered_at_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE alias (
    alias TEXT PRIMARY KEY,
    actor TEXT NOT NULL REFERENCES actor (name) DEFERRABLE INITIALLY DEFERRED
) STRICT, WITHOUT ROWID;

CREATE TABLE event (
    seq INTEGER PRIMARY KEY,
    uid TEXT NOT NULL,
    stream TEXT NOT NULL,
    version INTEGER NOT NULL,
    kind TEXT NOT NULL,
    actor TEXT NOT NULL,
    instance TEXT NOT NULL,
    token INTEGER,
    at_ms INTEGER NOT NULL,
    cause TEXT,
    payload TEXT NOT NULL,
    prev TEXT NOT NULL,
    hash TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX event_place ON event (stream, version);

CREATE TABLE text (
    id INTEGER PRIMARY KEY,
    stream TEXT NOT NULL,
    version INTEGER NOT NULL,
    field TEXT NOT NULL,
    salt BLOB NOT NULL,
    body TEXT NOT NULL,
    indexed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX text_place ON text (stream, version, field);

CREATE TABLE task (
    number INTEGER PRIMARY KEY,
    uid TEXT NOT NULL UNIQUE,
    uid_reversed TEXT NOT NULL,
    version INTEGER NOT NULL,
    head TEXT NOT NULL,
    state TEXT NOT NULL,
    type TEXT NOT NULL,
    priority TEXT NOT NULL,
    required_tier INTEGER NOT NULL,
    area TEXT,
    iteration TEXT,
    owner TEXT,
    tags TEXT NOT NULL,
    refs TEXT NOT NULL,
    link TEXT,
    title_version INTEGER NOT NULL,
    body_version INTEGER,
    word_version INTEGER,
    origin TEXT,
    created_at_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    started_at_ms INTEGER,
    completed_at_ms INTEGER,
    acceptance TEXT NOT NULL,
    token INTEGER NOT NULL,
    leased INTEGER NOT NULL,
    opened_token INTEGER NOT NULL,
    kept_actor TEXT,
    kept_wall_ms INTEGER,
    kept_tick_ms INTEGER,
    kept_domain TEXT,
    kept_version INTEGER,
    submitter TEXT,
    dropped_from TEXT,
    parent TEXT REFERENCES task (uid) DEFERRABLE INITIALLY DEFERRED,
    relates TEXT NOT NULL,
    not_before_ms INTEGER,
    max_attempts INTEGER,
    scope TEXT NOT NULL,
    scope_areas TEXT NOT NULL,
    mode TEXT NOT NULL,
    constraints TEXT NOT NULL,
    gates TEXT,
    ad_hoc INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    effort_ms INTEGER NOT NULL,
    fenced_token INTEGER NOT NULL,
    branch TEXT,
    branch_name TEXT,
    landing TEXT,
    landed TEXT,
    met INTEGER NOT NULL,
    finished INTEGER NOT NULL,
    unmet INTEGER NOT NULL,
    open_children INTEGER NOT NULL,
    open_dependents INTEGER NOT NULL
) STRICT;
CREATE INDEX task_uid_reversed ON task (uid_reversed);
CREATE UNIQUE INDEX task_origin ON task (origin) WHERE origin IS NOT NULL;
CREATE INDEX task_parent ON task (parent) WHERE parent IS NOT NULL;
CREATE INDEX task_ready ON task (required_tier, priority, open_dependents DESC, number)
    WHERE state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0 AND not_before_ms IS NULL;
CREATE INDEX task_scheduled ON task (not_before_ms)
    WHERE state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0 AND not_before_ms IS NOT NULL;
CREATE INDEX task_kept ON task (kept_actor)
    WHERE state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0 AND not_before_ms IS NULL AND kept_actor IS NOT NULL;
CREATE INDEX task_unfinished ON task (priority, number) WHERE NOT finished;
CREATE INDEX task_state ON task (state, priority, number, ad_hoc);
CREATE INDEX task_ad_hoc ON task (number) WHERE ad_hoc AND NOT finished;
CREATE INDEX task_landing ON task (number) WHERE landing IS NOT NULL;
CREATE INDEX task_completed ON task (completed_at_ms) WHERE completed_at_ms IS NOT NULL;
CREATE INDEX task_branched ON task (finished, number DESC) WHERE branch IS NOT NULL;
CREATE INDEX task_branch_name ON task (branch_name) WHERE branch_name IS NOT NULL;

CREATE TABLE dep (
    task TEXT NOT NULL REFERENCES task (uid) DEFERRABLE INITIALLY DEFERRED,
    needs TEXT NOT NULL REFERENCES task (uid) DEFERRABLE INITIALLY DEFERRED,
    PRIMARY KEY (task, needs)
) STRICT, WITHOUT ROWID;
CREATE INDEX dep_needs ON dep (needs, task);

CREATE TABLE seat (
    uid TEXT PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE,
    name TEXT NOT NULL UNIQUE,
    version INTEGER NOT NULL,
    head TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    token INTEGER NOT NULL,
    leased INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX seat_leased ON seat (name) WHERE leased;

CREATE TABLE ref (
    task TEXT NOT NULL REFERENCES task (uid) DEFERRABLE INITIALLY DEFERRED,
    system TEXT NOT NULL,
    reference TEXT NOT NULL,
    PRIMARY KEY (task, system)
) STRICT, WITHOUT ROWID;
CREATE INDEX ref_reference ON ref (system, reference);

CREATE TABLE lease (
    holds TEXT NOT NULL,
    task TEXT NOT NULL,
    token INTEGER NOT NULL,
    actor TEXT NOT NULL,
    instance TEXT NOT NULL,
    tier INTEGER NOT NULL,
    acquired_at_ms INTEGER NOT NULL,
    tick_ms INTEGER NOT NULL,
    domain TEXT NOT NULL,
    ttl_ms INTEGER,
    max_hold_ms INTEGER,
    process TEXT,
    worktree TEXT,
    worktree_id TEXT,
    branch TEXT,
    mode TEXT NOT NULL,
    constraints TEXT NOT NULL,
    reserve INTEGER NOT NULL,
    handoff_version INTEGER,
    version INTEGER NOT NULL,
    active_ms INTEGER NOT NULL,
    stretches INTEGER NOT NULL,
    waited_ms INTEGER NOT NULL,
    last_wall_ms INTEGER NOT NULL,
    last_tick_ms INTEGER NOT NULL,
    last_domain TEXT NOT NULL,
    progress_wall_ms INTEGER NOT NULL,
    progress_tick_ms INTEGER NOT NULL,
    progress_domain TEXT NOT NULL,
    renewals INTEGER NOT NULL,
    deadline_wall_ms INTEGER,
    deadline_tick_ms INTEGER,
    deadline_domain TEXT,
    resting INTEGER NOT NULL,
    working TEXT,
    waiting TEXT NOT NULL,
    reviewed_at_ms INTEGER,
    ended_how TEXT,
    ended_at_ms INTEGER,
    ended_version INTEGER,
    rescue TEXT,
    rescue_version INTEGER,
    PRIMARY KEY (task, token)
) STRICT, WITHOUT ROWID;
CREATE INDEX lease_holder ON lease (actor, instance, task, token) WHERE ended_how IS NOT NULL;
CREATE INDEX lease_unended ON lease (actor, instance) WHERE ended_how IS NULL;
CREATE INDEX lease_rescue ON lease (rescue) WHERE rescue IS NOT NULL;

CREATE TABLE stretch (
    task TEXT NOT NULL,
    version INTEGER NOT NULL,
    place INTEGER NOT NULL,
    token INTEGER NOT NULL,
    actor TEXT NOT NULL,
    start_ms INTEGER NOT NULL,
    active_ms INTEGER NOT NULL,
    PRIMARY KEY (task, version, place)
) STRICT, WITHOUT ROWID;
CREATE INDEX stretch_start ON stretch (start_ms);

CREATE TABLE usage (
    task TEXT NOT NULL,
    version INTEGER NOT NULL,
    token INTEGER NOT NULL,
    actor TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    model TEXT,
    tokens_in INTEGER,
    tokens_out INTEGER,
    tokens_cached INTEGER,
    source TEXT NOT NULL,
    cost_micros INTEGER,
    currency TEXT,
    PRIMARY KEY (task, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX usage_at ON usage (at_ms);

CREATE TABLE made_commit (
    task TEXT NOT NULL,
    version INTEGER NOT NULL,
    token INTEGER NOT NULL,
    actor TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (task, version)
) STRICT, WITHOUT ROWID;
CREATE INDEX made_commit_hash ON made_commit (hash);

CREATE TABLE judgement (
    task TEXT NOT NULL,
    version INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    actor TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    judgement TEXT NOT NULL,
    PRIMARY KEY (task, version)
) STRICT, WITHOUT ROWID;

CREATE TABLE scope (
    task TEXT NOT NULL,
    token INTEGER NOT NULL,
    glob TEXT NOT NULL,
    anchor TEXT NOT NULL,
    kind TEXT NOT NULL,
    worktree TEXT NOT NULL,
    area TEXT,
    part TEXT NOT NULL,
    changed INTEGER NOT NULL,
    held INTEGER NOT NULL,
    PRIMARY KEY (task, token, glob, anchor, kind, worktree, part)
) STRICT, WITHOUT ROWID;
CREATE INDEX scope_anchor ON scope (anchor) WHERE held;
CREATE INDEX scope_worktree ON scope (worktree) WHERE held;

CREATE TABLE instance (
    actor TEXT NOT NULL,
    instance TEXT NOT NULL,
    machine TEXT,
    boot TEXT,
    pid_ns TEXT,
    time_ns TEXT,
    pid INTEGER,
    start INTEGER,
    seen_at_ms INTEGER NOT NULL,
    pgid INTEGER,
    in_turn INTEGER NOT NULL,
    wants_task TEXT,
    wants_path TEXT,
    wants_worktree TEXT,
    wants_at_ms INTEGER,
    registered_at_ms INTEGER,
    ended_at_ms INTEGER,
    read TEXT,
    PRIMARY KEY (actor, instance)
) STRICT, WITHOUT ROWID;
CREATE INDEX instance_process ON instance (pid, start) WHERE pid IS NOT NULL;
CREATE INDEX instance_wants ON instance (wants_task) WHERE wants_task IS NOT NULL;

CREATE TABLE loss (
    task TEXT NOT NULL,
    token INTEGER NOT NULL,
    actor TEXT NOT NULL,
    instance TEXT NOT NULL,
    PRIMARY KEY (task, token)
) STRICT, WITHOUT ROWID;
CREATE INDEX loss_holder ON loss (actor, instance);

CREATE TABLE notice (
    actor TEXT NOT NULL,
    instance TEXT NOT NULL,
    task TEXT NOT NULL,
    token INTEGER NOT NULL,
    kind TEXT NOT NULL,
    path TEXT NOT NULL,
    by_actor TEXT NOT NULL,
    by_instance TEXT NOT NULL,
    by_task TEXT,
    worktree TEXT,
    branch TEXT,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (actor, instance, task, token, kind, path, by_actor, by_instance)
) STRICT, WITHOUT ROWID;

CREATE TABLE request (
    actor TEXT NOT NULL,
    key TEXT NOT NULL,
    digest TEXT,
    salt BLOB NOT NULL,
    verb TEXT NOT NULL,
    task TEXT,
    token INTEGER,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (actor, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX request_task ON request (task);

CREATE TABLE latest (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    wall_ms INTEGER NOT NULL,
    tick_ms INTEGER NOT NULL,
    domain TEXT NOT NULL
) STRICT;

CREATE TABLE chore (
    name TEXT PRIMARY KEY,
    since_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
