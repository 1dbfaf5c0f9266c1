-- The same rows as in SQLite, each with its project. Texts sort by their bytes, as SQLite's do.

CREATE TABLE project (
    project uuid PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    uid text COLLATE "C" NOT NULL,
    prefix text COLLATE "C" NOT NULL,
    created_at_ms bigint NOT NULL,
    version bigint NOT NULL,
    head text COLLATE "C" NOT NULL,
    last_number bigint NOT NULL,
    last_seat bigint NOT NULL DEFAULT 0
);

CREATE TABLE actor (
    project uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    tier bigint NOT NULL,
    registered_at_ms bigint NOT NULL,
    PRIMARY KEY (project, name)
);

CREATE TABLE alias (
    project uuid NOT NULL,
    alias text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, alias)
);

CREATE SEQUENCE event_seq;
-- One is taken: from now on its last value was given out.
SELECT nextval('event_seq');
CREATE TABLE event (
    project uuid NOT NULL,
    seq bigint NOT NULL DEFAULT nextval('onus.event_seq'),
    uid text COLLATE "C" NOT NULL,
    stream text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    token bigint,
    at_ms bigint NOT NULL,
    cause text COLLATE "C",
    payload text COLLATE "C" NOT NULL,
    prev text COLLATE "C" NOT NULL,
    hash text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, seq)
);
CREATE UNIQUE INDEX event_place ON event (project, stream, version);

CREATE TABLE text (
    project uuid NOT NULL,
    stream text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    field text COLLATE "C" NOT NULL,
    salt bytea NOT NULL,
    body text COLLATE "C" NOT NULL,
    indexed boolean NOT NULL DEFAULT false,
    words tsvector,
    PRIMARY KEY (project, stream, version, field)
);
CREATE INDEX text_words ON text USING gin (words) WHERE indexed;

CREATE TABLE task (
    project uuid NOT NULL,
    number bigint NOT NULL,
    uid text COLLATE "C" NOT NULL,
    uid_reversed text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    head text COLLATE "C" NOT NULL,
    state text COLLATE "C" NOT NULL,
    type text COLLATE "C" NOT NULL,
    priority text COLLATE "C" NOT NULL,
    required_tier bigint NOT NULL,
    area text COLLATE "C",
    iteration text COLLATE "C",
    owner text COLLATE "C",
    tags text COLLATE "C" NOT NULL,
    refs text COLLATE "C" NOT NULL,
    link text COLLATE "C",
    title_version bigint NOT NULL,
    body_version bigint,
    word_version bigint,
    origin text COLLATE "C",
    created_at_ms bigint NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    updated_at_ms bigint NOT NULL,
    started_at_ms bigint,
    completed_at_ms bigint,
    acceptance text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    leased boolean NOT NULL,
    opened_token bigint NOT NULL,
    kept_actor text COLLATE "C",
    kept_wall_ms bigint,
    kept_tick_ms bigint,
    kept_domain text COLLATE "C",
    kept_version bigint,
    submitter text COLLATE "C",
    dropped_from text COLLATE "C",
    parent text COLLATE "C",
    relates text COLLATE "C" NOT NULL,
    not_before_ms bigint,
    max_attempts bigint,
    scope text COLLATE "C" NOT NULL,
    scope_areas text COLLATE "C" NOT NULL,
    mode text COLLATE "C" NOT NULL,
    constraints text COLLATE "C" NOT NULL,
    gates text COLLATE "C",
    ad_hoc boolean NOT NULL,
    attempts bigint NOT NULL,
    effort_ms bigint NOT NULL,
    fenced_token bigint NOT NULL,
    branch text COLLATE "C",
    branch_name text COLLATE "C",
    landing text COLLATE "C",
    landed text COLLATE "C",
    met boolean NOT NULL,
    finished boolean NOT NULL,
    unmet bigint NOT NULL,
    open_children bigint NOT NULL,
    open_dependents bigint NOT NULL,
    PRIMARY KEY (project, uid)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX task_number ON task (project, number);
CREATE INDEX task_uid_reversed ON task (project, uid_reversed);
CREATE UNIQUE INDEX task_origin ON task (project, origin) WHERE origin IS NOT NULL;
CREATE INDEX task_parent ON task (project, parent) WHERE parent IS NOT NULL;
CREATE INDEX task_ready ON task (project, required_tier, priority, open_dependents DESC, number)
    WHERE state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0 AND not_before_ms IS NULL;
CREATE INDEX task_scheduled ON task (project, not_before_ms)
    WHERE state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0 AND not_before_ms IS NOT NULL;
CREATE INDEX task_kept ON task (project, kept_actor)
    WHERE state = 'open' AND NOT leased AND unmet = 0 AND open_children = 0 AND not_before_ms IS NULL AND kept_actor IS NOT NULL;
CREATE INDEX task_unfinished ON task (project, priority, number) WHERE NOT finished;
CREATE INDEX task_state ON task (project, state, priority, number, ad_hoc);
CREATE INDEX task_ad_hoc ON task (project, number) WHERE ad_hoc AND NOT finished;
CREATE INDEX task_landing ON task (project, number) WHERE landing IS NOT NULL;
CREATE INDEX task_completed ON task (project, completed_at_ms, number) WHERE completed_at_ms IS NOT NULL;
CREATE INDEX task_branched ON task (project, finished, number DESC) WHERE branch IS NOT NULL;
CREATE INDEX task_branch_name ON task (project, branch_name) WHERE branch_name IS NOT NULL;

CREATE TABLE dep (
    project uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    needs text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, task, needs)
);
CREATE INDEX dep_needs ON dep (project, needs, task);

CREATE TABLE seat (
    project uuid NOT NULL,
    uid text COLLATE "C" NOT NULL,
    number bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    head text COLLATE "C" NOT NULL,
    created_at_ms bigint NOT NULL,
    created_by text COLLATE "C" NOT NULL,
    updated_at_ms bigint NOT NULL,
    token bigint NOT NULL,
    leased boolean NOT NULL,
    PRIMARY KEY (project, uid)
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX seat_number ON seat (project, number);
CREATE UNIQUE INDEX seat_name ON seat (project, name);
CREATE INDEX seat_leased ON seat (project, name) WHERE leased;

CREATE TABLE ref (
    project uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    system text COLLATE "C" NOT NULL,
    reference text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, task, system)
);
CREATE INDEX ref_reference ON ref (project, system, reference);

CREATE TABLE lease (
    project uuid NOT NULL,
    holds text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    tier bigint NOT NULL,
    acquired_at_ms bigint NOT NULL,
    tick_ms bigint NOT NULL,
    domain text COLLATE "C" NOT NULL,
    ttl_ms bigint,
    max_hold_ms bigint,
    process text COLLATE "C",
    worktree text COLLATE "C",
    worktree_id text COLLATE "C",
    branch text COLLATE "C",
    mode text COLLATE "C" NOT NULL,
    constraints text COLLATE "C" NOT NULL,
    reserve boolean NOT NULL,
    handoff_version bigint,
    version bigint NOT NULL,
    active_ms bigint NOT NULL,
    stretches bigint NOT NULL,
    waited_ms bigint NOT NULL,
    last_wall_ms bigint NOT NULL,
    last_tick_ms bigint NOT NULL,
    last_domain text COLLATE "C" NOT NULL,
    progress_wall_ms bigint NOT NULL,
    progress_tick_ms bigint NOT NULL,
    progress_domain text COLLATE "C" NOT NULL,
    renewals bigint NOT NULL,
    deadline_wall_ms bigint,
    deadline_tick_ms bigint,
    deadline_domain text COLLATE "C",
    resting boolean NOT NULL,
    working text COLLATE "C",
    waiting text COLLATE "C" NOT NULL,
    ended_how text COLLATE "C",
    ended_at_ms bigint,
    ended_version bigint,
    reviewed_at_ms bigint,
    rescue text COLLATE "C",
    rescue_version bigint,
    PRIMARY KEY (project, task, token)
) WITH (fillfactor = 80);
CREATE INDEX lease_unended ON lease (project, actor, instance) WHERE ended_how IS NULL;
CREATE INDEX lease_holder ON lease (project, actor, instance, ended_at_ms) WHERE ended_how IS NOT NULL;
CREATE INDEX lease_rescue ON lease (project, rescue) WHERE rescue IS NOT NULL;

CREATE TABLE stretch (
    project uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    place bigint NOT NULL,
    token bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    start_ms bigint NOT NULL,
    active_ms bigint NOT NULL,
    PRIMARY KEY (project, task, version, place)
);
CREATE INDEX stretch_start ON stretch (project, start_ms, task, version, place);

CREATE TABLE usage (
    project uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    token bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    model text COLLATE "C",
    tokens_in bigint,
    tokens_out bigint,
    tokens_cached bigint,
    source text COLLATE "C" NOT NULL,
    cost_micros bigint,
    currency text COLLATE "C",
    PRIMARY KEY (project, task, version)
);
CREATE INDEX usage_at ON usage (project, at_ms, task, version);

CREATE TABLE made_commit (
    project uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    token bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    hash text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, task, version)
);
CREATE INDEX made_commit_hash ON made_commit (project, hash);

CREATE TABLE judgement (
    project uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    version bigint NOT NULL,
    verdict text COLLATE "C" NOT NULL,
    actor text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    judgement text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, task, version)
);

CREATE TABLE scope (
    project uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    glob text COLLATE "C" NOT NULL,
    glob_hash bytea NOT NULL, -- a path may be longer than what an index can hold
    anchor text COLLATE "C" NOT NULL,
    kind text COLLATE "C" NOT NULL,
    worktree text COLLATE "C" NOT NULL, -- empty where there is none
    area text COLLATE "C",
    part text COLLATE "C" NOT NULL, -- empty where there is none
    changed boolean NOT NULL,
    held boolean NOT NULL,
    PRIMARY KEY (project, task, token, glob_hash, anchor, kind, worktree, part)
);
CREATE INDEX scope_anchor ON scope (project, anchor) WHERE held;
CREATE INDEX scope_worktree ON scope (project, worktree) WHERE held;

CREATE TABLE instance (
    project uuid NOT NULL,
    actor text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    machine text COLLATE "C",
    boot text COLLATE "C",
    pid_ns text COLLATE "C",
    time_ns text COLLATE "C",
    pid bigint,
    start bigint,
    seen_at_ms bigint NOT NULL,
    pgid bigint,
    in_turn boolean NOT NULL,
    wants_task text COLLATE "C",
    wants_path text COLLATE "C",
    wants_worktree text COLLATE "C",
    wants_at_ms bigint,
    registered_at_ms bigint,
    ended_at_ms bigint,
    read text COLLATE "C",
    PRIMARY KEY (project, actor, instance)
) WITH (fillfactor = 70);
CREATE INDEX instance_process ON instance (project, pid, start) WHERE pid IS NOT NULL;
CREATE INDEX instance_wants ON instance (project, wants_task) WHERE wants_task IS NOT NULL;

CREATE TABLE loss (
    project uuid NOT NULL,
    task text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    actor text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, task, token)
);
CREATE INDEX loss_holder ON loss (project, actor, instance);

CREATE TABLE notice (
    project uuid NOT NULL,
    actor text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    task text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    kind text COLLATE "C" NOT NULL,
    path text COLLATE "C" NOT NULL,
    path_hash bytea NOT NULL, -- a path may be longer than what an index can hold
    by_actor text COLLATE "C" NOT NULL, -- empty where it cannot be told
    by_instance text COLLATE "C" NOT NULL,
    by_task text COLLATE "C",
    worktree text COLLATE "C",
    branch text COLLATE "C",
    at_ms bigint NOT NULL,
    PRIMARY KEY (project, actor, instance, task, token, kind, path_hash, by_actor, by_instance)
);

CREATE TABLE request (
    project uuid NOT NULL,
    actor text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    digest text COLLATE "C",
    salt bytea NOT NULL,
    verb text COLLATE "C" NOT NULL,
    task text COLLATE "C",
    token bigint,
    at_ms bigint NOT NULL,
    PRIMARY KEY (project, actor, key)
);
CREATE INDEX request_task ON request (project, task);

CREATE TABLE chore (
    project uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    since_ms bigint NOT NULL,
    PRIMARY KEY (project, name)
);
