//! Every store against the conformance suite, and what only a server can get wrong.

mod conformance;
mod postgres;
