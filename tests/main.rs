//! The real binary, end to end: what people and programs are answered, what agents' harnesses meet, what the record keeps, what
//! a server changes, and what the documents show. One program, so that it is linked once.

mod agents;
mod contract;
mod docs;
mod guard;
mod mcp;
mod record;
mod server;
mod support;
