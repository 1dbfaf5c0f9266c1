-- What the role that works with the tables may do: read and write rows, and of the ledger only append.
DO $$ BEGIN IF EXISTS (SELECT 1 FROM pg_roles WHERE rolname = 'onus_app') THEN
    GRANT USAGE ON SCHEMA onus TO onus_app;
    GRANT SELECT ON onus.format TO onus_app;
    GRANT SELECT, INSERT, UPDATE ON onus.project, onus.task, onus.seat TO onus_app;
    GRANT SELECT, INSERT, UPDATE, DELETE ON onus.actor, onus.alias, onus.lease, onus.stretch, onus.usage, onus.made_commit, onus.judgement, onus.dep, onus.ref, onus.scope, onus.text,
        onus.instance, onus.loss, onus.notice, onus.request, onus.chore TO onus_app;
    GRANT DELETE ON onus.task, onus.seat TO onus_app;
    GRANT SELECT, INSERT ON onus.event TO onus_app;
    GRANT USAGE, SELECT ON SEQUENCE onus.event_seq TO onus_app;
    IF (SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database()) THEN
        EXECUTE format('GRANT CONNECT ON DATABASE %I TO onus_app', current_database());
    END IF;
END IF; END $$;
