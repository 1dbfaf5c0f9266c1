//! A plan: tasks that are created together and may refer to one another. Checks it before any of them exists.

use std::collections::{BTreeMap, BTreeSet};

use crate::command::{PlannedTask, TaskLink};
use crate::graph;
use crate::ids::{Prefix, TaskRef, shortened};
use crate::refusal::{Code, Refusal, Step};
use crate::task::check_word;

/// The most tasks that one plan may have.
pub const MAX_TASKS: usize = 5_000;

/// How many typing errors a name may have and still be recognised.
const SLIPS: usize = 2;

/// The order in which a plan's tasks can be created: as planned, but a parent before its parts, which are counted in its
/// row. Refused if a name or an origin occurs twice, a name is unknown, or a task would wait for itself.
pub fn order(plan: &[PlannedTask], prefix: &Prefix) -> Result<Vec<usize>, Refusal> {
    if plan.is_empty() || plan.len() > MAX_TASKS {
        return Err(Refusal::usage(format!(
            "a plan has 1 to {MAX_TASKS} tasks; this one has {}",
            plan.len()
        )));
    }
    let index = names(plan, prefix)?;
    check_origins(plan)?;
    let mut waits = vec![Vec::new(); plan.len()];
    for (i, planned) in plan.iter().enumerate() {
        let place = |link: &TaskLink| match link {
            TaskLink::Planned(name) => match index.get(name.as_str()) {
                Some(i) => Ok(Some(*i)),
                None => Err(of_entry(plan, i, unknown(name, &index))),
            },
            TaskLink::Task(_) => Ok(None),
        };
        for dep in &planned.task.deps {
            waits[i].extend(place(dep)?);
        }
        for relates in &planned.task.relates {
            place(relates)?;
        }
        if let Some(parent) = planned.task.parent.as_ref().map(place).transpose()?.flatten() {
            waits[parent].push(i);
        }
    }
    match graph::cycle(&waits) {
        None => Ok(parents_first(plan, &index)),
        Some(circle) => {
            let labels: Vec<String> = circle.iter().map(|i| label(plan, *i)).collect();
            Err(circle_refusal(&labels))
        }
    }
}

/// Exit 6: no task in a circle could ever begin. `labels`: the tasks in the circle, each once.
pub fn circle_refusal(labels: &[String]) -> Refusal {
    let way: Vec<&str> = labels.iter().chain(labels.first()).map(String::as_str).collect();
    Refusal::new(Code::Cycle, format!("the plan waits for itself: {}", way.join(" → ")))
        .next(Step::plain("remove one of these dependencies from the plan"))
}

/// The label of an entry of a plan: its name, or else its title.
pub fn label(plan: &[PlannedTask], index: usize) -> String {
    shortened(plan[index].name.as_ref().unwrap_or(&plan[index].task.title))
}

/// Adds to a refusal which entry it is about.
pub fn of_entry(plan: &[PlannedTask], index: usize, refusal: Refusal) -> Refusal {
    let message = format!("task {} of the plan ('{}'): {}", index + 1, label(plan, index), refusal.message);
    Refusal { message, ..refusal }
}

fn names<'p>(plan: &'p [PlannedTask], prefix: &Prefix) -> Result<BTreeMap<&'p str, usize>, Refusal> {
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    for (i, planned) in plan.iter().enumerate() {
        let Some(name) = planned.name.as_deref() else { continue };
        check_word("name", name).map_err(|refusal| of_entry(plan, i, refusal))?;
        // Otherwise `deps = ["ON-12"]` would change its meaning once somebody names a task like that.
        let is_id = match name.parse() {
            Ok(TaskRef::Number(_)) => true,
            Ok(TaskRef::Id { prefix: of, .. }) => of.eq_ignore_ascii_case(prefix.as_str()),
            Ok(TaskRef::External { .. }) => true,
            Ok(TaskRef::Part(_)) | Err(_) => false,
        };
        if is_id {
            let refusal = Refusal::usage(format!("'{name}' reads as the id of a task: choose another name"));
            return Err(of_entry(plan, i, refusal));
        }
        if let Some(other) = index.insert(name, i) {
            return Err(Refusal::usage(format!(
                "the plan has two tasks named '{name}': the {} and the {}",
                nth(other),
                nth(i)
            )));
        }
    }
    Ok(index)
}

fn check_origins(plan: &[PlannedTask]) -> Result<(), Refusal> {
    let mut seen = BTreeSet::new();
    for (i, origin) in
        plan.iter().enumerate().filter_map(|(i, planned)| Some((i, planned.task.origin.as_ref()?)))
    {
        if !seen.insert(origin) {
            let refusal =
                Refusal::usage(format!("another task in the plan has the same origin, {}", origin.as_str()));
            return Err(of_entry(plan, i, refusal));
        }
    }
    Ok(())
}

fn unknown(name: &str, index: &BTreeMap<&str, usize>) -> Refusal {
    let typed: String = name.chars().take(100).collect();
    let near = index.keys().map(|known| (strsim::levenshtein(&typed, known), *known)).min();
    let meant = near
        .filter(|(slips, known)| *slips <= SLIPS && *slips < known.chars().count())
        .map(|(_, known)| format!(": did you mean '{known}'?"))
        .unwrap_or_default();
    Refusal::usage(format!("the plan has no task named '{}'{meant}", shortened(name)))
}

fn nth(index: usize) -> String {
    let ending = match (index + 1) % 100 {
        11..=13 => "th",
        n => match n % 10 {
            1 => "st",
            2 => "nd",
            3 => "rd",
            _ => "th",
        },
    };
    format!("{}{ending}", index + 1)
}

fn parents_first(plan: &[PlannedTask], index: &BTreeMap<&str, usize>) -> Vec<usize> {
    let parent = |i: usize| match &plan[i].task.parent {
        Some(TaskLink::Planned(name)) => index.get(name.as_str()).copied(),
        _ => None,
    };
    let mut order = Vec::with_capacity(plan.len());
    let mut is_placed = vec![false; plan.len()];
    for i in 0..plan.len() {
        let mut line = vec![i];
        while let Some(above) = line.last().and_then(|last| parent(*last)).filter(|above| !is_placed[*above])
        {
            line.push(above);
        }
        while let Some(next) = line.pop() {
            if !std::mem::replace(&mut is_placed[next], true) {
                order.push(next);
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use crate::command::NewTask;

    use super::*;

    fn planned(name: &str, parent: Option<&str>, deps: &[&str]) -> PlannedTask {
        let link = |name: &str| TaskLink::Planned(name.to_owned());
        PlannedTask {
            name: Some(name.to_owned()),
            task: NewTask {
                parent: parent.map(link),
                deps: deps.iter().map(|name| link(name)).collect(),
                ..NewTask::titled(name)
            },
        }
    }

    fn on() -> Prefix {
        "ON".parse().unwrap()
    }

    fn refused(plan: &[PlannedTask]) -> (Code, String) {
        let refusal = order(plan, &on()).unwrap_err();
        (refusal.code, refusal.message)
    }

    #[test]
    fn a_parent_is_created_before_its_parts_and_the_rest_as_planned() {
        let plan = [
            planned("a", Some("b"), &[]),
            planned("c", None, &["a"]),
            planned("b", Some("d"), &[]),
            planned("d", None, &[]),
        ];
        assert_eq!(order(&plan, &on()), Ok(vec![3, 2, 0, 1]));
    }

    #[test]
    fn what_waits_for_itself_is_refused_with_the_way_through_dependencies_and_parts() {
        let plan = [planned("a", None, &["b"]), planned("b", None, &["c"]), planned("c", None, &["a"])];
        let (code, message) = refused(&plan);
        assert_eq!(code, Code::Cycle);
        assert!(message.contains("a → b → c → a") || message.contains("b → c → a → b"), "{message}");
        let (code, message) =
            refused(&[planned("part", Some("epic"), &["epic"]), planned("epic", None, &[])]);
        assert_eq!(code, Code::Cycle, "a part may not wait for what contains it");
        assert!(
            message.contains("part → epic → part") || message.contains("epic → part → epic"),
            "{message}"
        );
    }

    #[test]
    fn names_are_known_unique_and_no_ids() {
        let (code, message) = refused(&[planned("database", None, &[]), planned("api", None, &["databse"])]);
        assert_eq!(code, Code::Usage);
        assert!(message.ends_with("no task named 'databse': did you mean 'database'?"), "{message}");
        assert!(message.starts_with("task 2 of the plan ('api')"), "{message}");
        let (_, message) = refused(&[planned("a", None, &["zebra"])]);
        assert!(message.ends_with("no task named 'zebra'"), "{message}");
        let (_, message) = refused(&[planned("a", None, &[]), planned("a", None, &[])]);
        assert!(message.contains("the 1st and the 2nd"), "{message}");
        for id in ["12", "ON-3", "on-3", "jira:WEB-7"] {
            assert!(refused(&[planned(id, None, &[])]).1.contains("reads as the id"), "{id}");
        }
        assert!(order(&[planned("step-2", None, &[]), planned("cafe", None, &["step-2"])], &on()).is_ok());
        assert!(refused(&[planned("two words", None, &[])]).1.contains("is not a name"));
        assert_eq!(refused(&[]).0, Code::Usage);
    }

    #[test]
    fn one_origin_is_one_task_inside_a_plan_too() {
        let from = |name: &str| {
            let mut planned = planned(name, None, &[]);
            planned.task.origin = "mail:1".parse().ok();
            planned
        };
        assert!(refused(&[from("a"), from("b")]).1.contains("has the same origin, mail:1"));
    }

    #[test]
    fn a_name_is_recognised_if_at_most_two_characters_are_wrong_and_one_is_right() {
        for (typed, meant) in [
            ("apo", "api"),
            ("ap", "api"),
            ("aapi", "api"),
            ("übe", "ube"),
            ("databs", "database"),
            ("dtabse", "database"),
        ] {
            let (_, message) = refused(&[planned(meant, None, &[typed])]);
            assert!(message.ends_with(&format!(": did you mean '{meant}'?")), "{message}");
        }
        for (typed, name) in [("datas", "database"), ("", "ab")] {
            let (_, message) = refused(&[planned(name, None, &[typed])]);
            assert!(message.ends_with(&format!("has no task named '{typed}'")), "{message}");
        }
    }
}
