//! The tables, and how an older store becomes a newer one: numbered steps, forward only, in one transaction.

use rusqlite::Connection;

use crate::{Result, StoreError};

use super::failed;

/// "onus" in ASCII, in the database's header: distinguishes our files from others.
pub(super) const APPLICATION_ID: i64 = 0x6f6e_7573;

/// Step n turns schema n into schema n + 1.
const STEPS: &[&str] = &[include_str!("schema/1-tables.sql"), include_str!("schema/2-search.sql")];

pub(super) const KNOWN: i64 = STEPS.len() as i64;

/// The schema version of a store; an error if it is not ours or newer than we know.
pub(super) fn version(connection: &Connection, path: &std::path::Path) -> Result<i64> {
    let number = |pragma: &str| {
        connection.pragma_query_value(None, pragma, |row| row.get::<_, i64>(0)).map_err(|e| failed(&e, path))
    };
    let found = number("user_version")?;
    if found > KNOWN {
        return Err(StoreError::Newer { found, known: KNOWN });
    }
    if number("application_id")? != APPLICATION_ID {
        let why = if found == 0 { "it is an empty or foreign database" } else { "another program made it" };
        return Err(StoreError::NotAStore { path: path.to_owned(), why: why.to_owned() });
    }
    Ok(found)
}

/// Takes the missing steps, all or none. The caller holds the write lock.
pub(super) fn migrate(connection: &Connection, found: i64) -> rusqlite::Result<()> {
    migrate_to(connection, found, STEPS.len())
}

pub(super) fn migrate_to(connection: &Connection, found: i64, wanted: usize) -> rusqlite::Result<()> {
    let missing = STEPS.iter().enumerate().take(wanted).skip(usize::try_from(found).unwrap_or_default());
    let transaction = connection.unchecked_transaction()?;
    for (index, step) in missing {
        transaction.execute_batch(step)?;
        transaction.pragma_update(None, "user_version", index as i64 + 1)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rows::columns::{EVENT_COLUMNS, INSTANCE_COLUMNS, LEASE_COLUMNS, TASK_COLUMNS};

    #[test]
    fn a_store_of_the_first_schema_keeps_what_it_has_and_gets_what_is_new() {
        let connection = Connection::open_in_memory().unwrap();
        migrate_to(&connection, 0, 1).unwrap();
        connection
            .execute_batch(
                "INSERT INTO text (stream, version, field, salt, body, indexed)
                 VALUES ('u1', 1, 'title', zeroblob(16), 'mend the lock', 1),
                        ('u1', 2, 'note', zeroblob(16), 'mend nothing', 0);",
            )
            .unwrap();
        migrate(&connection, 1).unwrap();
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(number("PRAGMA user_version"), KNOWN);
        assert_eq!(number("SELECT COUNT(*) FROM text"), 2);
        assert_eq!(number("SELECT COUNT(*) FROM search WHERE search MATCH 'mend'"), 1);
    }

    /// Whole rows are read and written without naming their columns.
    #[test]
    fn tables_have_their_columns_in_the_order_of_the_lists() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection, 0).unwrap();
        let columns = |table: &str| -> Vec<String> {
            let statement = connection.prepare(&format!("SELECT * FROM {table}")).unwrap();
            statement.column_names().map(str::to_owned).collect()
        };
        let listed = |list: &str| list.split(", ").map(str::to_owned).collect::<Vec<_>>();
        for (table, list) in [
            ("task", TASK_COLUMNS),
            ("lease", LEASE_COLUMNS),
            ("instance", INSTANCE_COLUMNS),
            ("event", EVENT_COLUMNS),
        ] {
            assert_eq!(columns(table), listed(list), "{table}");
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_store_as_it_was() {
        let connection = Connection::open_in_memory().unwrap();
        migrate_to(&connection, 0, 1).unwrap();
        connection.execute_batch("CREATE TABLE search (mine)").unwrap();
        migrate(&connection, 1).unwrap_err();
        let number = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(number("PRAGMA user_version"), 1);
        assert_eq!(number("SELECT COUNT(*) FROM sqlite_schema WHERE name = 'searchable'"), 0);
    }
}
