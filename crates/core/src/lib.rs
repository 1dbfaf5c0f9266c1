//! The domain of onus, pure: no I/O, no clock, no randomness, no SQL.
//!
//! One [`task::Task`] record is the authoritative owner of a unit of work. To change it, a caller submits a
//! [`command::Command`]; [`decide::decide`] looks at a [`decide::View`] that was read under the task's lock and
//! answers with events or a [`refusal::Refusal`]; [`apply::apply_to_task`] turns each event into row changes. Time,
//! ids and randomness are passed in, so the same code serves the engine, a rebuild, and a simulation.
//!
//! **Authority.** The lease with the task's highest token decides who may write ([`lease`]). Tokens only grow; a
//! token stays usable after a lapse until a higher one is granted or the task is handed off, so a slow
//! holder can still finish, and a superseded one changes nothing.
//!
//! **States** follow one table ([`transition`]). **Time** is the store's clock, read inside the write
//! ([`time`]). **History** is a hash chain per task ([`chain`]); free text is stored next to it and can be erased
//! ([`text`]).

pub mod actor;
pub mod apply;
pub mod attention;
pub mod chain;
pub mod circle;
pub mod command;
pub mod commit;
pub mod constraint;
pub mod decide;
pub mod event;
pub mod forecast;
pub mod gate;
pub mod graph;
pub mod ids;
pub mod intake;
pub mod kin;
pub mod landing;
pub mod lease;
pub mod plan;
pub mod policy;
pub mod quote;
pub mod refusal;
pub mod rescue;
pub mod scope;
pub mod seal;
pub mod seat;
pub mod session;
pub mod sight;
pub mod stretch;
pub mod task;
pub mod text;
pub mod time;
pub mod timesheet;
pub mod transition;
