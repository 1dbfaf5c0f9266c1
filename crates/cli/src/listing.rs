//! Lists of tasks, written as they are read: however long a list is, only one sheet of it is in memory.

use onus_core::refusal::Refusal;
use onus_engine::{ListEnd, QueryResult, TaskView};

use crate::output::{LongDocument, Output, note};
use crate::{render, wording};

pub(crate) struct Listing<'a> {
    out: &'a Output,
    /// With `--json`, once there is something to write.
    document: Option<LongDocument>,
    pub(crate) is_empty: bool,
}

impl<'a> Listing<'a> {
    pub(crate) fn new(out: &'a Output) -> Listing<'a> {
        Listing { out, document: None, is_empty: true }
    }

    /// Writes the next tasks. Those of one sheet are aligned in columns.
    pub(crate) fn sheet(&mut self, tasks: &[TaskView]) {
        if tasks.is_empty() {
            return;
        }
        let is_first = std::mem::take(&mut self.is_empty);
        if !self.out.json {
            return self.out.line(&render::tasks(self.out, tasks));
        }
        let document = self.document.get_or_insert_with(LongDocument::default);
        for (at, task) in tasks.iter().enumerate() {
            document.raw(if is_first && at == 0 { OPENING } else { "," });
            document.value(task);
        }
    }

    /// Writes what follows the last task: cursor and notices. There is only one document, so if reading fails after it
    /// was begun, the error becomes one more field of it.
    pub(crate) fn end(&mut self, looked: QueryResult<ListEnd>) -> Result<u8, Refusal> {
        let document = self.document.take();
        let (looked, mut document) = match (looked, document) {
            (Err(refusal), Some(mut document)) => {
                document.raw("],\"error\":");
                document.value(&wording::refusal(&refusal));
                document.end();
                return Ok(refusal.exit_code());
            }
            (looked, document) => (looked?, document.unwrap_or_default()),
        };
        if !self.out.json {
            if self.is_empty {
                self.out.line(&self.out.dim("(none)"));
            }
            let ListEnd { cursor, ad_hoc } = &looked.value;
            if let Some(cursor) = cursor {
                note(&format!("more: --cursor {cursor}"));
            }
            if *ad_hoc > 0 {
                let (tasks, are) = if *ad_hoc == 1 { ("task", "is") } else { ("tasks", "are") };
                note(&format!("{ad_hoc} ad-hoc {tasks} {are} not listed: onus list --ad-hoc"));
            }
            self.out.notices(&looked.notices);
            return Ok(0);
        }
        document.raw(if self.is_empty { OPENING } else { "" });
        document.raw("]");
        if let Some(cursor) = &looked.value.cursor {
            document.raw(",\"cursor\":");
            document.value(cursor);
        }
        if looked.value.ad_hoc > 0 {
            document.raw(",\"ad_hoc\":");
            document.value(&looked.value.ad_hoc);
        }
        if !looked.notices.is_empty() {
            document.raw(",\"notices\":");
            document.value(&looked.notices.iter().map(wording::notice).collect::<Vec<_>>());
        }
        document.end();
        Ok(0)
    }
}

const OPENING: &str = "{\"tasks\":[";
