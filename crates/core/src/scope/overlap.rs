//! Whether two lists of globs can match a common path, and the shortest path that proves it.
//!
//! Two patterns are walked through together: from each pair of steps, along every kind of character that both take.
//! Pairs are visited by the length of what was read, each once, so the first pair that is an end for both gives a shortest
//! path. The number of pairs is at most the product of the patterns' lengths.
//!
//! Shared paths matter only if the example found is one. Then the state also includes the steps that the shared globs are in
//! after the text so far, which can be exponential. Two things keep it small: a set that takes everything from here on is not
//! followed, and a pair of steps that was visited with fewer shared steps is not visited again with more, since whatever could
//! be found there was already found.

use std::collections::HashMap;

use super::budget::{Budget, Exhausted};
use super::class::{Alphabet, Class};
use super::path::Progress;
use super::pattern::{Pattern, Step};
use super::shared::{self, SetId, Shared};
use super::{Glob, ScopeError};

/// How many steps one search may take in all.
pub const MAX_STEPS: u64 = 1 << 18;

/// How many more steps it may take for every pair of globs that anchors, heads and tails could not rule out: few pairs need more.
pub const STEPS_A_PAIR: u64 = 1 << 10;

/// Proof that two scopes collide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// A path that both match and that is not shared; none has fewer characters.
    pub path: String,
    /// Which glob of each list matches it: their places in the lists.
    pub left: usize,
    pub right: usize,
}

/// Whether some path is matched by a glob of `a`, a glob of `b`, and none of `shared`.
///
/// If the search becomes too long, a path that was found by then is still proof, though perhaps not the shortest.
pub fn overlap<B: AsRef<Glob>>(a: &[Glob], b: &[B], shared: &[Glob]) -> Result<Option<Witness>, ScopeError> {
    overlap_where(a, b, shared, |_, _| true)
}

/// Like [`overlap`], but only for pairs that count.
pub(crate) fn overlap_where<A: AsRef<Glob>, B: AsRef<Glob>>(
    a: &[A],
    b: &[B],
    shared: &[Glob],
    counts: impl Fn(&A, &B) -> bool,
) -> Result<Option<Witness>, ScopeError> {
    let mut found: Option<(usize, Witness)> = None;
    let mut budget = Budget::of(MAX_STEPS);
    for (left, ours) in a.iter().enumerate() {
        let one = ours.as_ref();
        for (right, theirs) in b.iter().enumerate() {
            let two = theirs.as_ref();
            if !one.may_meet(two) || !counts(ours, theirs) {
                continue;
            }
            budget.limit += STEPS_A_PAIR;
            let below = found.as_ref().map_or(usize::MAX, |(chars, _)| *chars);
            match common(one, two, shared, below, &mut budget) {
                Ok(None) => {}
                Ok(Some(path)) => found = Some((path.chars().count(), Witness { path, left, right })),
                Err(Exhausted) if found.is_some() => return Ok(found.map(|(_, witness)| witness)),
                Err(Exhausted) => {
                    let (left, right) = (one.to_string(), two.to_string());
                    return Err(ScopeError::TooComplex { left, right, limit: budget.limit });
                }
            }
        }
    }
    Ok(found.map(|(_, witness)| witness))
}

/// The shortest path of fewer than `below` characters that both match and that is not shared.
fn common(
    one: &Glob,
    two: &Glob,
    shared: &[Glob],
    below: usize,
    budget: &mut Budget,
) -> Result<Option<String>, Exhausted> {
    let (outer, inner) = if one.anchor().len() <= two.anchor().len() { (one, two) } else { (two, one) };
    let base = inner.anchor();
    let is_shared = |path: &str, budget: &mut Budget| {
        budget.spend(shared.len());
        let is_shared = shared.iter().any(|glob| glob.admits(path, budget));
        budget.check().map(|()| is_shared)
    };
    let (Some(outer_pattern), Some(inner_pattern)) = (&outer.pattern, &inner.pattern) else {
        let found = base.chars().count() < below && outer.admits(base, budget);
        budget.check()?;
        return Ok(if found && !is_shared(base, budget)? { Some(base.to_owned()) } else { None });
    };
    let Some(below) = below.checked_sub(base.chars().count()) else { return Ok(None) };
    let rest = &base[outer.anchor().len()..];
    let starts = outer_pattern.run(rest, budget);
    budget.check()?;
    let mut search = Search::new([outer_pattern, inner_pattern], Shared::default());
    let Some(end) = search.shortest(&starts, shared::NONE, below, budget)? else { return Ok(None) };
    let path = format!("{base}{end}");
    if !is_shared(&path, budget)? {
        return Ok(Some(path));
    }
    let concerned = shared.iter().filter(|glob| glob.may_meet(one) && glob.may_meet(two));
    let (shared, set) = Shared::after_base(concerned, base, budget);
    budget.check()?;
    let Some(set) = set else { return Ok(None) };
    let mut search = Search::new([outer_pattern, inner_pattern], shared);
    let end = search.shortest(&starts, set, below, budget)?;
    Ok(end.map(|end| format!("{base}{end}")))
}

/// A pair of steps, and the state of what was read to reach it.
#[derive(Clone, Copy)]
struct Place {
    outer: u32,
    inner: u32,
    progress: Progress,
    set: SetId,
}

/// How a place was first reached: from which visit, and by which character, if any. A start of the search is reached from the
/// first visit, by none.
struct Visit {
    place: Place,
    from: usize,
    by: Option<char>,
}

struct Search<'a> {
    outer: &'a Pattern,
    inner: &'a Pattern,
    shared: Shared,
    visits: Vec<Visit>,
    /// The pairs of steps that were visited with no shared glob left, one bit each.
    bare: Vec<u64>,
    /// The others, with the sets that they were visited with.
    with: HashMap<usize, Vec<SetId>>,
}

impl<'a> Search<'a> {
    fn new([outer, inner]: [&'a Pattern; 2], shared: Shared) -> Search<'a> {
        let places = outer.steps.len() * inner.steps.len() * 4;
        let bare = vec![0; places.div_ceil(64)];
        Search { outer, inner, shared, visits: Vec::with_capacity(64), bare, with: HashMap::new() }
    }

    /// The shortest text of fewer than `below` characters that leads from these steps of the outer pattern and the
    /// first of the inner to the end of both.
    fn shortest(
        &mut self,
        starts: &[u32],
        set: SetId,
        below: usize,
        budget: &mut Budget,
    ) -> Result<Option<String>, Exhausted> {
        let letters = self.letters(budget)?;
        let (mut layer, mut next_layer) = (Vec::with_capacity(16), Vec::with_capacity(16));
        for outer in starts.iter().copied() {
            let place = Place { outer, inner: 0, progress: Progress::Start, set };
            self.visit(&mut layer, 0, None, place, budget);
        }
        for _ in 0..below {
            // All of a layer before any of the next, so that every place is first visited by a shortest text.
            if let Some(end) = self.spread(&mut layer, budget)? {
                return Ok(Some(self.read(end)));
            }
            for at in layer.drain(..) {
                let Some(place) = self.visits.get(at).map(|visit| visit.place) else { continue };
                match (self.outer.step(place.outer), self.inner.step(place.inner)) {
                    (Step::Char(c), _) | (_, Step::Char(c)) => {
                        self.take(&mut next_layer, at, c, place, budget);
                    }
                    _ => {
                        budget.spend(letters.len());
                        budget.check()?;
                        letters.iter().for_each(|c| self.take(&mut next_layer, at, *c, place, budget));
                    }
                }
            }
            if next_layer.is_empty() {
                break;
            }
            std::mem::swap(&mut layer, &mut next_layer);
        }
        Ok(None)
    }

    /// Adds to a layer whatever can be reached from it without a character. Returns early if both patterns end.
    fn spread(&mut self, layer: &mut Vec<usize>, budget: &mut Budget) -> Result<Option<usize>, Exhausted> {
        let mut i = 0;
        while let Some(at) = layer.get(i).copied() {
            i += 1;
            budget.spend(1);
            budget.check()?;
            let Some(place) = self.visits.get(at).map(|visit| visit.place) else { continue };
            if self.is_end(place) {
                return Ok(Some(at));
            }
            for outer in self.outer.leads(place.outer).into_iter().flatten() {
                self.visit(layer, at, None, Place { outer, ..place }, budget);
            }
            // While the outer pattern can move without a character, the inner one waits.
            if !self.outer.only_leads(place.outer) {
                for inner in self.inner.leads(place.inner).into_iter().flatten() {
                    self.visit(layer, at, None, Place { inner, ..place }, budget);
                }
            }
        }
        Ok(None)
    }

    /// The characters to try where neither pattern requires a certain one.
    fn letters(&self, budget: &mut Budget) -> Result<Vec<char>, Exhausted> {
        let classes =
            || -> [&[Class]; 3] { [&self.outer.classes, &self.inner.classes, self.shared.classes()] };
        let alphabet = Alphabet::new(classes().into_iter().flatten(), self.shared.chars());
        budget.spend(alphabet.work());
        budget.check()?;
        Ok(alphabet.spell())
    }

    fn is_end(&self, place: Place) -> bool {
        self.outer.step(place.outer) == Step::End
            && self.inner.step(place.inner) == Step::End
            && place.progress == Progress::Name
            && !self.shared.ends(place.set)
    }

    fn take(&mut self, layer: &mut Vec<usize>, from: usize, c: char, place: Place, budget: &mut Budget) {
        if let Some(outer) = self.outer.take(place.outer, c)
            && let Some(inner) = self.inner.take(place.inner, c)
            && let Some(progress) = place.progress.after(c)
            && let Some(set) = self.shared.after(place.set, c, budget)
        {
            self.visit(layer, from, Some(c), Place { outer, inner, progress, set }, budget);
        }
    }

    fn visit(
        &mut self,
        layer: &mut Vec<usize>,
        from: usize,
        by: Option<char>,
        place: Place,
        budget: &mut Budget,
    ) {
        if self.is_new(place, budget) {
            layer.push(self.visits.len());
            self.visits.push(Visit { place, from, by });
        }
    }

    /// Whether the pair of steps was not visited yet, or only with sets that make more paths shared.
    fn is_new(&mut self, place: Place, budget: &mut Budget) -> bool {
        let pair = place.outer as usize * self.inner.steps.len() + place.inner as usize;
        let key = pair * 4 + place.progress as usize;
        let Some(bare) = self.bare.get_mut(key / 64) else { return false };
        if *bare >> (key % 64) & 1 == 1 {
            return false;
        }
        if place.set == shared::NONE {
            *bare |= 1 << (key % 64);
            return true;
        }
        let sets = self.with.entry(key).or_default();
        if sets.iter().any(|set| self.shared.within(*set, place.set, budget)) {
            return false;
        }
        sets.push(place.set);
        true
    }

    /// The text that was read on the way to a visit.
    fn read(&self, mut at: usize) -> String {
        let mut chars = Vec::new();
        while let Some(visit) = self.visits.get(at) {
            chars.extend(visit.by);
            if visit.from == at {
                break;
            }
            at = visit.from;
        }
        chars.iter().rev().collect()
    }
}
