//! The conformance suite: what every store must do, as functions over any store.
