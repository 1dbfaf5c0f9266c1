//! Heads: what distinguishes globs in the same folder.
//!
//! A glob's head is what the last name of every path it matches begins with: `login_` of `src/**/login_*.rs`, the
//! whole name if it has no special character, nothing of `src/**`. **Two globs can match a common path only if one's head
//! begins with the other's.** It follows from the text alone, so a store can skip a row without parsing its glob. In doubt,
//! the head is shorter than it could be.

/// The head of the glob with this text.
pub fn head(glob: &str) -> &str {
    let name = glob.rsplit('/').next().unwrap_or(glob);
    // Braces that were opened before this name may have other names in their other alternatives.
    let mut open = 0_usize;
    for byte in name.bytes() {
        match byte {
            b'{' => open += 1,
            b'}' if open == 0 => return "",
            b'}' => open -= 1,
            // Whether a brace is special depends on what is around it.
            b'\\' => return "",
            b'[' if name.contains('}') => return "",
            _ => {}
        }
    }
    name.find(['*', '?', '[', '{']).map_or(name, |end| &name[..end])
}

/// The heads of some globs: only the shortest, since whatever meets a longer one meets them, too.
#[derive(Clone, Debug, Default)]
pub struct Heads<'a> {
    /// Sorted; none begins with another.
    shortest: Vec<&'a str>,
}

impl Heads<'_> {
    /// Whether a glob with this head can match a path that one of these matches.
    pub fn meet(&self, head: &str) -> bool {
        let at = self.shortest.partition_point(|mine| *mine <= head);
        // Only the last one that is not greater can be a prefix of `head`: any other prefix would also be a prefix of that one.
        at.checked_sub(1).is_some_and(|before| head.starts_with(self.shortest[before]))
            || self.shortest.get(at).is_some_and(|after| after.starts_with(head))
    }
}

impl<'a> FromIterator<&'a str> for Heads<'a> {
    fn from_iter<I: IntoIterator<Item = &'a str>>(heads: I) -> Heads<'a> {
        let mut shortest: Vec<&str> = heads.into_iter().collect();
        shortest.sort_unstable();
        shortest.dedup_by(|longer, shorter| longer.starts_with(*shorter));
        Heads { shortest }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_what_the_last_name_begins_with() {
        for (glob, answer) in [
            ("src/auth/login.rs", "login.rs"),
            ("README.md", "README.md"),
            ("src/**/login_*.rs", "login_"),
            ("src/x[ab]", "x"),
            ("x?", "x"),
            ("src/**", ""),
            ("a/x{b,c{d,e}}f", "x"),
            ("a,b*", "a,b"),
            ("{a/x,b}", ""),
            ("{a/x{b,c}d,e}", ""),
            ("{a,b}/x*", "x"),
            ("{a/x[{]y,b}", ""),
            ("x[{]y", "x"),
            ("x[}]y", ""),
            (r"a/x\{y*", ""),
            (r"a/x\}y*", ""),
        ] {
            assert_eq!(head(glob), answer, "{glob}");
        }
    }

    #[test]
    fn heads_meet_if_one_begins_with_another() {
        let all = ["", "a", "ab", "abc", "abd", "b", "ba", "é"];
        for some in 0..1_u32 << all.len() {
            let mine: Vec<&str> = (0..all.len()).filter(|n| some >> n & 1 == 1).map(|n| all[n]).collect();
            let heads: Heads<'_> = mine.iter().copied().collect();
            for other in all {
                let answer = mine.iter().any(|one| one.starts_with(other) || other.starts_with(one));
                assert_eq!(heads.meet(other), answer, "{mine:?} and {other}");
            }
        }
    }
}
