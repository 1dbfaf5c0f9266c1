//! Landing, with the real binary, the real git and real gates.

mod behind;
mod checked;
mod constrained;
mod killed;
mod kit;
mod queue;
mod refused;
mod remote;
mod round;
mod settled;
mod simple;
mod stopped;
mod tidied;
mod told;
