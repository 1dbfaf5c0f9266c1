//! Full-text search, as SQLite's index understands it: words are runs of letters and digits, without case or diacritics;
//! what is looked for is the beginning of a word, and where it is several words, they follow one another.
//!
//! Words are cut and folded here, not by the server: its dictionaries, locales and extensions differ from one to the next.

use std::collections::BTreeMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use onus_core::ids::Uid;

use crate::Result;

use super::connection::Value;
use super::rows::to_sql;
use super::session::Session;

/// What a position and a word may be at most, by the server's rules.
const MAX_POSITION: usize = 16_383;
const MAX_WORD: usize = 500;

/// The words of a text, folded, in their order.
fn words(text: &str) -> Vec<String> {
    let folded: String =
        text.nfd().filter(|letter| !is_combining_mark(*letter)).flat_map(char::to_lowercase).collect();
    folded
        .split(|letter: char| !letter.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(|word| word.chars().take(MAX_WORD / 4).collect())
        .collect()
}

/// A text as the server's index takes it: each word with its places.
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

/// What is looked for, or None if it has no word in it.
fn wanted(text: &str) -> Option<String> {
    let words: Vec<String> = words(text).into_iter().map(|word| format!("'{word}'")).collect();
    (!words.is_empty()).then(|| format!("{}:*", words.join(" <-> ")))
}

pub(super) fn search(
    session: &mut Session<'_>,
    words: &[String],
    ad_hoc: bool,
    limit: u64,
) -> Result<Vec<Uid>> {
    let queries: Option<Vec<String>> = words.iter().map(|word| wanted(word)).collect();
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
        assert_eq!(wanted("Sign-IN").as_deref(), Some("'sign' <-> 'in':*"));
        assert_eq!(wanted("'; DROP").as_deref(), Some("'drop':*"));
        assert_eq!((wanted("\""), wanted("*"), wanted("")), (None, None, None));
        assert_eq!(vector(""), "");
    }
}
