//! Support for tests and for the maintenance of the workspace; no other crate depends on it.
//!
//! | module | what |
//! |---|---|
//! | [`simulator`] | histories of commits by several writers, and programs of all verbs on whole tables, each repeatable from a number |
//! | [`wire_code`] | generates the wire code of `pennon-core` |

pub mod simulator;
pub mod wire_code;
