//! Compares two texts line by line, for people.

/// Lines of context around a change.
const AROUND: usize = 3;
/// Beyond this many comparisons the middle is shown as replaced.
const MAX_CELLS: usize = 4_000_000;

/// The differences between two texts: unchanged, removed (`-`) and added (`+`) lines.
pub fn diff(before: &str, after: &str) -> Vec<String> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let lines = compared(&old, &new);
    let changed: Vec<usize> =
        lines.iter().enumerate().filter(|(_, (mark, _))| *mark != ' ').map(|(at, _)| at).collect();
    let near = |at: usize| changed.iter().any(|change| change.abs_diff(at) <= AROUND);
    let mut shown = Vec::new();
    let mut left_out = false;
    for (at, (mark, line)) in lines.iter().enumerate() {
        if near(at) {
            if left_out {
                shown.push("@@".to_owned());
            }
            left_out = false;
            shown.push(format!("{mark}{line}"));
        } else {
            left_out = true;
        }
    }
    shown
}

fn compared<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let head = old.iter().zip(new).take_while(|(a, b)| a == b).count();
    let tail = old[head..].iter().rev().zip(new[head..].iter().rev()).take_while(|(a, b)| a == b).count();
    let (from, to) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut lines: Vec<(char, &str)> = old[..head].iter().map(|line| (' ', *line)).collect();
    if from.len().saturating_mul(to.len()) > MAX_CELLS {
        lines.extend(from.iter().map(|line| ('-', *line)));
        lines.extend(to.iter().map(|line| ('+', *line)));
    } else {
        lines.extend(longest_common(from, to));
    }
    lines.extend(old[old.len() - tail..].iter().map(|line| (' ', *line)));
    lines
}

fn longest_common<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = new.len() + 1;
    let mut lengths = vec![0_u32; (old.len() + 1) * width];
    for a in (0..old.len()).rev() {
        for b in (0..new.len()).rev() {
            lengths[a * width + b] = if old[a] == new[b] {
                lengths[(a + 1) * width + b + 1] + 1
            } else {
                lengths[(a + 1) * width + b].max(lengths[a * width + b + 1])
            };
        }
    }
    let (mut a, mut b, mut lines) = (0, 0, Vec::new());
    while a < old.len() || b < new.len() {
        if a < old.len() && b < new.len() && old[a] == new[b] {
            lines.push((' ', old[a]));
            (a, b) = (a + 1, b + 1);
        } else if b == new.len()
            || (a < old.len() && lengths[(a + 1) * width + b] >= lengths[a * width + b + 1])
        {
            lines.push(('-', old[a]));
            a += 1;
        } else {
            lines.push(('+', new[b]));
            b += 1;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_and_goes_is_marked_and_far_away_lines_are_left_out() {
        let before = "a\nb\nc\nd\ne\nf\ng\nh\ni\n";
        let after = "a\nB\nc\nd\ne\nf\ng\nh\ni\nj\n";
        assert_eq!(diff(before, after).join("|"), " a|-b|+B| c| d| e|@@| g| h| i|+j");
        assert_eq!(diff("", "x\n"), ["+x"]);
        assert!(diff("x\n", "x\n").is_empty());
    }
}
