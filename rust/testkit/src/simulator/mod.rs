//! What the engine does, simulated: each run is drawn from one number and can be repeated from it.
//!
//! | module | what |
//! |---|---|
//! | [`commits`] | several writers whose commits interleave at every await, on a store that misbehaves |
//! | [`tables`] | programs of all verbs on whole tables, and states in which a crash may leave them, compared with a model of the rows |

pub mod commits;
pub mod tables;
