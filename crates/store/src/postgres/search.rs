//! Full-text search with the rules of SQLite's index: words are runs of letters and digits, without case or
//! diacritics; a search term is the beginning of a word, or a phrase if it has several words.
//!
//! Words are split and folded here, not by the server: dictionaries, locales and extensions differ between
//! servers.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use onus_core::ids::Uid;

use crate::Result;

use super::connection::Value;
use super::rows::to_sql;
use super::session::Session;

/// The server's limits on a position and on a word.
const MAX_POSITION: usize = 16_383;
const MAX_WORD: usize = 500;

/// The folded words of a text, in order.
fn words(text: &str) -> Vec<String> {
    let folded: String =
        text.nfd().filter(|letter| !is_combining_mark(*letter)).flat_map(char::to_lowercase).collect();
    folded
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().take(MAX_WORD / 4).collect())
        .collect()
}

/// A text as the server's index takes it: each word with its positions.
pub(super) fn vector(text: &str) -> String {
    let mut places: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (place, word) in words(text).into_iter().enumerate() {
        let places = places.entry(word).or_default();
        if place < MAX_POSITION && places.len() < 255 {
            places.push(place + 1);
        }
    }
    let entries = places.into_iter().map(|(word, places)| {
        let places: Vec<String> = places.iter().map(ToString::to_string).collect();
        let mark = if places.is_empty() { "" } else { ":" };
        format!("'{word}'{mark}{}", places.join(","))
    });
    entries.collect::<Vec<_>>().join(" ")
}

/// The query for a search term; None if it contains no word.
fn query_of(text: &str) -> Option<String> {
    let words: Vec<String> = words(text).into_iter().map(|word| format!("'{word}'")).collect();
    (!words.is_empty()).then(|| format!("{}:*", words.join(" <-> ")))
}

pub(super) fn search(
    session: &mut Session<'_>,
    words: &[String],
    ad_hoc: bool,
    limit: u64,
) -> Result<Vec<Uid>> {
    let queries: Option<Vec<String>> = words.iter().map(|word| query_of(word)).collect();
    let Some(queries) = queries.filter(|queries| !queries.is_empty()) else { return Ok(Vec::new()) };
    // Each word may be in a different text of the task: title, body or a note.
    let hits = (0..queries.len()).map(|i| {
        format!(
            "SELECT stream AS task, MAX(ts_rank(words, ${n}::text::tsquery)) AS score FROM text \
             WHERE project = $1 AND indexed AND words @@ ${n}::text::tsquery GROUP BY stream",
            n = i + 3
        )
    });
    let sql = format!(
        "SELECT task FROM ({}) AS hits WHERE {} GROUP BY task HAVING COUNT(*) = {} \
         ORDER BY SUM(score) DESC, task LIMIT $2",
        hits.collect::<Vec<_>>().join(" UNION ALL "),
        if ad_hoc {
            "TRUE"
        } else {
            "NOT (SELECT ad_hoc FROM task AS found WHERE found.project = $1 AND found.uid = hits.task)"
        },
        queries.len()
    );
    let limit = to_sql(limit);
    let mut values: Vec<Value<'_>> = vec![&limit];
    values.extend(queries.iter().map(|query| query as Value<'_>));
    session.all(&sql, &values, |cells| cells.parsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_and_folded_as_they_are_looked_for() {
        assert_eq!(vector("Über-Login aufräumen, über"), "'aufraumen':3 'login':2 'uber':1,4");
        assert_eq!(query_of("Sign-IN").as_deref(), Some("'sign' <-> 'in':*"));
        assert_eq!(query_of("'; DROP").as_deref(), Some("'drop':*"));
        assert_eq!((query_of("\""), query_of("*"), query_of("")), (None, None, None));
        assert_eq!(vector(""), "");
    }
}
