//! What was worked, and what became of it: sessions, timesheets, reports.

use super::*;

/// Work sessions, the newest first.
#[derive(JsonSchema, Serialize)]
pub(crate) struct SessionsAnswer {
    sessions: Vec<SessionView>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct TimesheetAnswer {
    #[serde(flatten)]
    sheet: SheetView,
    /// With `--explain`: what stands behind the sums, by its start.
    #[serde(skip_serializing_if = "Option::is_none")]
    stretches: Option<Vec<SheetPart>>,
    #[serde(flatten)]
    beside: Beside,
}

/// The month as it was sealed.
#[derive(JsonSchema, Serialize)]
pub(crate) struct TimesheetSealAnswer {
    sealed: Option<SealedView>,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct StandupAnswer {
    #[serde(flatten)]
    standup: StandupView,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct DayAnswer {
    #[serde(flatten)]
    day: DayView,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct CostAnswer {
    #[serde(flatten)]
    cost: CostView,
    #[serde(flatten)]
    beside: Beside,
}

#[derive(JsonSchema, Serialize)]
pub(crate) struct FlowAnswer {
    #[serde(flatten)]
    flow: FlowView,
    #[serde(flatten)]
    beside: Beside,
}
