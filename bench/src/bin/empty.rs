//! A program that does nothing: what starting and ending a process costs by itself.

fn main() {}
