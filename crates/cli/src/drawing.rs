//! The graph of work, drawn: as a tree for people, as Mermaid and DOT for programs that draw diagrams.
//!
//! Anyone may write a title, and each format can be broken by one in its own way: a terminal by control characters and
//! reversed text, Mermaid by quotes, entities and directives, DOT by quotes and backslashes. Each has its own escape here.

use std::collections::{BTreeMap, BTreeSet};

use onus_core::quote::counted;
use onus_core::task::State;
use onus_engine::{EdgeKind, GraphView, NodeView};

use crate::output::{Output, escape_line};

/// The deepest level of a tree that is drawn: anything deeper would not fit on a screen.
const DEEPEST: usize = 40;

/// Tasks by their place in the view, and how they are connected.
struct Tree<'a> {
    out: &'a Output,
    view: &'a GraphView,
    /// The tasks that each waits for, and those that wait for it.
    waits_for: Vec<Vec<(usize, EdgeKind)>>,
    ahead: Vec<Vec<(usize, EdgeKind)>>,
    is_drawn: Vec<bool>,
    lines: Vec<String>,
}

/// A tree for people: the tasks that no other waits for, with those they wait for below. From a root, both directions.
pub(crate) fn tree(out: &Output, view: &GraphView) -> String {
    let count = view.nodes.len();
    let places: BTreeMap<&str, usize> =
        view.nodes.iter().enumerate().map(|(place, node)| (node.id.as_str(), place)).collect();
    let mut tree = Tree {
        out,
        view,
        waits_for: vec![Vec::new(); count],
        ahead: vec![Vec::new(); count],
        is_drawn: vec![false; count],
        lines: Vec::new(),
    };
    for edge in &view.edges {
        if let (Some(from), Some(to)) = (places.get(edge.from.as_str()), places.get(edge.to.as_str())) {
            tree.waits_for[*to].push((*from, edge.kind));
            tree.ahead[*from].push((*to, edge.kind));
        }
    }
    match view.root.as_deref().and_then(|root| places.get(root)) {
        Some(root) => tree.around(*root),
        None => tree.everything(),
    }
    tree.lines.join("\n")
}

impl Tree<'_> {
    fn everything(&mut self) {
        let mut alone = 0;
        for place in 0..self.view.nodes.len() {
            let node = &self.view.nodes[place];
            let counted = node.unmet + node.open_children + node.open_dependents;
            if self.ahead[place].is_empty() && self.waits_for[place].is_empty() && counted == 0 {
                self.is_drawn[place] = true;
                alone += 1;
            } else if self.ahead[place].is_empty() {
                self.is_drawn[place] = true;
                self.lines.push(label(self.out, node));
                self.branches(place, true);
            }
        }
        if self.lines.is_empty() && alone == 0 && self.view.left_out == 0 {
            self.lines.push(self.out.dim("(none)"));
        }
        if alone > 0 {
            let what = counted(alone as u64, "unconnected task");
            self.lines.push(self.out.dim(&format!("{what}: onus list")));
        }
        self.say_what_is_left_out();
    }

    fn around(&mut self, root: usize) {
        self.is_drawn[root] = true;
        self.lines.push(label(self.out, &self.view.nodes[root]));
        for (upstream, title) in [(true, "waits for"), (false, "needed by")] {
            let edges = if upstream { &self.waits_for } else { &self.ahead };
            if !edges[root].is_empty() {
                self.lines.push(self.out.bold(title));
                self.branches(root, upstream);
            }
        }
        if self.lines.len() == 1 {
            self.lines.push(self.out.dim("  it waits for nothing, and nothing waits for it"));
        }
        self.say_what_is_left_out();
    }

    fn say_what_is_left_out(&mut self) {
        let undrawn = self.is_drawn.iter().filter(|drawn| !**drawn).count() as u64;
        let left_out = self.view.left_out + undrawn;
        if left_out > 0 {
            let how = if undrawn > 0 { "onus graph --format dot" } else { "add --limit 0" };
            self.lines.push(self.out.dim(&format!("… {left_out} more: {how}")));
        }
    }

    /// Draws everything below a place, without recursion: a chain may be longer than the stack.
    fn branches(&mut self, start: usize, upstream: bool) {
        let mut open: Vec<(usize, usize, String)> = vec![(start, 0, String::new())];
        while let Some((place, next, before)) = open.last_mut() {
            let edges = if upstream { &self.waits_for } else { &self.ahead };
            let Some((other, kind)) = edges[*place].get(*next).copied() else {
                open.pop();
                continue;
            };
            *next += 1;
            let is_last = *next == edges[*place].len();
            let goes_on = !edges[other].is_empty();
            let (turn, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
            let (line, below) = (format!("{before}{turn}"), format!("{before}{below}"));
            let word = match (kind, upstream) {
                (EdgeKind::Dep, true) => "needs",
                (EdgeKind::Dep, false) => "before",
                (EdgeKind::Part, true) => "part",
                (EdgeKind::Part, false) => "part of",
            };
            let node = &self.view.nodes[other];
            if std::mem::replace(&mut self.is_drawn[other], true) {
                let seen = self.out.dim(&format!("{word} {} (see above)", node.id));
                self.lines.push(format!("{line}{seen}"));
                continue;
            }
            self.lines.push(format!("{line}{} {}", self.out.dim(word), label(self.out, node)));
            if goes_on && open.len() >= DEEPEST {
                self.lines.push(format!("{below}└─ {}", self.out.dim(&format!("… onus graph {}", node.id))));
            } else if goes_on {
                open.push((other, 0, below));
            }
        }
    }
}

/// A task on one line.
pub(crate) fn label(out: &Output, node: &NodeView) -> String {
    let state = match node.state {
        State::Done => out.good(node.state.spoken()),
        State::Failed | State::Blocked => out.bad(node.state.spoken()),
        state => state.spoken().to_owned(),
    };
    let mark = mark(node).map(|mark| out.dim(&format!(" ({mark})"))).unwrap_or_default();
    format!("{} {} {state} {}{mark}", node.id, node.priority, escape_line(&node.title))
}

fn mark(node: &NodeView) -> Option<String> {
    match (&node.holder, node.ready) {
        (Some(holder), _) if node.lapsed => Some(format!("{holder}, lapsed")),
        (Some(holder), _) => Some(format!("held by {holder}")),
        (None, true) => Some("ready".to_owned()),
        (None, false) => None,
    }
}

/// The text in a box: id, priority, state and holder.
fn heading(view: &GraphView, node: &NodeView) -> String {
    let mark = mark(node).map(|mark| format!(" · {mark}")).unwrap_or_default();
    let held_up = view.bottlenecks.iter().find(|bottleneck| bottleneck.id == node.id);
    let held_up =
        held_up.map(|bottleneck| format!(" · unblocks {}", bottleneck.unblocks)).unwrap_or_default();
    format!("{} · {} · {}{mark}{held_up}", node.id, node.priority, node.state.spoken())
}

/// A flowchart. Arrows start at the task that comes first; dotted ones lead from a part to its parent.
pub(crate) fn mermaid(view: &GraphView) -> String {
    let name = |id: &str| id.replace('-', "_");
    let mut lines = vec!["flowchart TD".to_owned()];
    for node in &view.nodes {
        let words =
            format!("{}<br/>{}", mermaid_text(&heading(view, node)), mermaid_text(&escape_line(&node.title)));
        lines.push(format!("    {}[\"{words}\"]", name(&node.id)));
    }
    for edge in &view.edges {
        let arrow = match edge.kind {
            EdgeKind::Dep => "-->",
            EdgeKind::Part => "-. part .->",
        };
        lines.push(format!("    {} {arrow} {}", name(&edge.from), name(&edge.to)));
    }
    let critical: BTreeSet<&str> = view.critical_path.iter().map(String::as_str).collect();
    for (class, style, is_of) in [
        (
            "finished",
            "fill:#eee,color:#777",
            (|node: &NodeView, _: bool| node.state.is_finished()) as fn(&NodeView, bool) -> bool,
        ),
        ("ready", "fill:#dfd", |node, _| node.ready),
        ("critical", "stroke:#c00,stroke-width:3px", |_, critical| critical),
    ] {
        let of: Vec<String> = view
            .nodes
            .iter()
            .filter(|node| is_of(node, critical.contains(node.id.as_str())))
            .map(|node| name(&node.id))
            .collect();
        if !of.is_empty() {
            lines.push(format!("    classDef {class} {style}"));
            lines.push(format!("    class {} {class}", of.join(",")));
        }
    }
    if view.left_out > 0 {
        lines.push(format!("    %% {} more tasks are left out", view.left_out));
    }
    lines.join("\n")
}

/// Text inside a quoted label. Whatever could mean something to Mermaid, to the Markdown in its labels or to HTML is
/// written as a numbered entity.
fn mermaid_text(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_alphanumeric() || " .,-/:()+=!?'@·→".contains(c) {
            safe.push(c);
        } else {
            safe.push_str(&format!("#{};", u32::from(c)));
        }
    }
    safe
}

/// A directed graph for Graphviz. Edges start at the task that comes first; dashed ones lead from a part to its parent.
pub(crate) fn dot(view: &GraphView) -> String {
    let critical: BTreeSet<&str> = view.critical_path.iter().map(String::as_str).collect();
    let mut lines =
        vec!["digraph onus {".to_owned(), "    rankdir=LR;".to_owned(), "    node [shape=box];".to_owned()];
    for node in &view.nodes {
        let words = format!("{}\\n{}", dot_text(&heading(view, node)), dot_text(&escape_line(&node.title)));
        let style = match (critical.contains(node.id.as_str()), node.state.is_finished()) {
            (true, _) => ", penwidth=3",
            (_, true) => ", fontcolor=gray",
            _ if node.ready => ", style=bold",
            _ => "",
        };
        lines.push(format!("    \"{}\" [label=\"{words}\"{style}];", node.id));
    }
    for edge in &view.edges {
        let style = match edge.kind {
            EdgeKind::Dep => "",
            EdgeKind::Part => " [style=dashed, label=\"part\"]",
        };
        lines.push(format!("    \"{}\" -> \"{}\"{style};", edge.from, edge.to));
    }
    if view.left_out > 0 {
        lines.push(format!("    // {} more tasks are left out", view.left_out));
    }
    lines.push("}".to_owned());
    lines.join("\n")
}

/// Text inside a quoted string: quotes end it, backslashes and ampersands mean something in a label.
fn dot_text(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('&', "&amp;")
}

#[cfg(test)]
mod tests {
    use onus_core::task::{Priority, TaskType};
    use onus_engine::EdgeView;
    use proptest::prelude::*;

    use super::*;

    fn node(number: usize, title: &str) -> NodeView {
        NodeView {
            id: format!("ON-{number}"),
            title: title.to_owned(),
            kind: TaskType::Task,
            state: State::Open,
            priority: Priority::P2,
            ready: false,
            holder: None,
            lapsed: false,
            unmet: 0,
            open_children: 0,
            open_dependents: 0,
        }
    }

    fn view(titles: &[&str], edges: &[(usize, usize, EdgeKind)]) -> GraphView {
        let id = |n: usize| format!("ON-{n}");
        let edge = |(from, to, kind): &(usize, usize, EdgeKind)| EdgeView {
            from: id(*from),
            to: id(*to),
            kind: *kind,
        };
        GraphView {
            root: None,
            nodes: titles.iter().enumerate().map(|(at, title)| node(at + 1, title)).collect(),
            edges: edges.iter().map(edge).collect(),
            critical_path: Vec::new(),
            bottlenecks: Vec::new(),
            bottlenecks_complete: true,
            left_out: 0,
        }
    }

    fn plain() -> Output {
        Output::new(false, "never")
    }

    /// Reads a quoted DOT string after its opening quote, as the language defines it: its text, and what follows.
    fn dot_string(text: &str) -> (String, &str) {
        let mut words = String::new();
        let mut rest = text.char_indices();
        while let Some((at, c)) = rest.next() {
            match c {
                '"' => return (words.replace("&amp;", "&"), &text[at + 1..]),
                '\\' => match rest.next().unwrap().1 {
                    'n' => words.push('\n'),
                    c @ ('\\' | '"') => words.push(c),
                    c => panic!("an escape that means something else: {c}"),
                },
                c => words.push(c),
            }
        }
        panic!("a string without an end: {text}");
    }

    fn mermaid_label(line: &str) -> String {
        let words = line.split_once("[\"").unwrap().1.strip_suffix("\"]").unwrap();
        assert!(!words.contains('"') && !words.contains("%%") && !words.contains('`'), "{words}");
        let mut pieces = words.split('#');
        let mut text = pieces.next().unwrap().to_owned();
        for piece in pieces {
            let (number, rest) = piece.split_once(';').unwrap();
            text.push(char::from_u32(number.parse().unwrap()).unwrap());
            text.push_str(rest);
        }
        text
    }

    #[test]
    fn titles_that_try_to_break_out_stay_inside() {
        for title in [
            "a\" -> \"b\"; node [x=\"",
            "ends with a backslash \\",
            "\\N \\G \\l \\\"",
            "&lt;b&gt; &amp; <script>alert(1)</script>",
            "%%{init: {'theme':'dark'}}%%",
            "`markdown` **bold** _x_ #quot; #35;",
            "]\n end\n subgraph x[\"y\"]",
            "right to left \u{202e}gnp.exe \u{1b}[31m red",
        ] {
            let view = view(&[title, "other"], &[(1, 2, EdgeKind::Dep)]);
            let safe = escape_line(title);

            let text = dot(&view);
            let line = text.lines().find(|line| line.contains("label=\"ON-1")).unwrap();
            let (words, rest) = dot_string(line.split_once("label=\"").unwrap().1);
            assert_eq!((words.split_once('\n').unwrap().1, rest), (safe.as_str(), "];"), "{text}");
            assert_eq!(text.lines().count(), 7, "{text}");

            let text = mermaid(&view);
            assert_eq!(
                mermaid_label(text.lines().nth(1).unwrap()).split_once("<br/>").unwrap().1,
                safe,
                "{text}"
            );
            assert_eq!(text.lines().count(), 4, "{text}");

            assert!(!tree(&plain(), &view).contains(['\u{202e}', '\u{1b}']));
            assert_eq!(tree(&plain(), &view).lines().count(), 2);
        }
    }

    proptest! {
        #[test]
        fn any_title_can_be_read_back(title in "\\PC{0,40}|[\"\\\\&#;%`<>\\]\\[\n]{0,12}") {
            let view = view(&[&title], &[]);
            let safe = escape_line(&title);
            let text = dot(&view);
            let (words, rest) = dot_string(text.split_once("label=\"").unwrap().1);
            prop_assert_eq!(words, format!("ON-1 · P2 · open\n{safe}"));
            prop_assert_eq!(rest, "];\n}");
            let text = mermaid(&view);
            prop_assert_eq!(mermaid_label(text.lines().nth(1).unwrap()), format!("ON-1 · P2 · open<br/>{safe}"));
        }
    }

    /// Graphviz itself, where it is installed.
    #[test]
    fn graphviz_reads_what_is_drawn() {
        use std::io::Write as _;
        let spawned = std::process::Command::new("dot")
            .args(["-Tcanon"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn();
        let Ok(mut child) = spawned else { return };
        let view = view(&["a \"quoted\" \\title\\ & more", "b"], &[(1, 2, EdgeKind::Part)]);
        child.stdin.take().unwrap().write_all(dot(&view).as_bytes()).unwrap();
        assert!(child.wait_with_output().unwrap().status.success());
    }

    #[test]
    fn a_shared_task_is_drawn_once_and_pointed_at_after() {
        let view = view(
            &["Release", "Site", "API", "Database", "Alone"],
            &[(2, 1, EdgeKind::Part), (3, 1, EdgeKind::Dep), (4, 2, EdgeKind::Dep), (4, 3, EdgeKind::Dep)],
        );
        let drawn = tree(&plain(), &view);
        let expected = [
            "ON-1 P2 open Release",
            "├─ part ON-2 P2 open Site",
            "│  └─ needs ON-4 P2 open Database",
            "└─ needs ON-3 P2 open API",
            "   └─ needs ON-4 (see above)",
            "1 unconnected task: onus list",
        ];
        assert_eq!(drawn.lines().collect::<Vec<_>>(), expected);
        let mut around = view;
        around.root = Some("ON-3".to_owned());
        around.nodes.retain(|node| !matches!(node.id.as_str(), "ON-2" | "ON-5"));
        around.edges.retain(|edge| edge.from != "ON-2" && edge.to != "ON-2");
        let drawn = tree(&plain(), &around);
        let expected = [
            "ON-3 P2 open API",
            "waits for",
            "└─ needs ON-4 P2 open Database",
            "needed by",
            "└─ before ON-1 P2 open Release",
        ];
        assert_eq!(drawn.lines().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_chain_of_any_length_is_drawn_as_deep_as_it_fits() {
        let titles = vec!["t"; 20_000];
        let edges: Vec<_> = (1..20_000).map(|n| (n + 1, n, EdgeKind::Dep)).collect();
        let text = tree(&plain(), &view(&titles, &edges));
        let last: Vec<&str> = text.lines().rev().take(2).collect();
        assert!(last[1].ends_with("… onus graph ON-41"), "{last:?}");
        assert_eq!(last[0], "… 19959 more: onus graph --format dot");
    }
}
