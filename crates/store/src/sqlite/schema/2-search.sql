-- The index over the texts that are searchable; what leaves it is overwritten.

CREATE VIEW searchable AS SELECT id, body FROM text WHERE indexed = 1;
CREATE VIRTUAL TABLE search USING fts5 (
    body, content = 'searchable', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2'
);
INSERT INTO search (search, rank) VALUES ('secure-delete', 1);
INSERT INTO search (search) VALUES ('rebuild');
