-- Nobody else may connect: said once, by the database's owner, where no other application is. The server's own
-- databases are everybody's.
DO $$ BEGIN IF current_database() NOT IN ('postgres', 'template0', 'template1')
    AND (SELECT pg_has_role(datdba, 'USAGE') FROM pg_database WHERE datname = current_database())
    AND NOT EXISTS (SELECT 1 FROM pg_class JOIN pg_namespace AS space ON space.oid = relnamespace
        WHERE nspname NOT IN ('onus', 'information_schema') AND nspname NOT LIKE 'pg\_%')
THEN
    EXECUTE format('REVOKE CONNECT ON DATABASE %I FROM PUBLIC', current_database());
END IF; END $$;
