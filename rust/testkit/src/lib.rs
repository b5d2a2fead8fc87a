//! Support for tests and for the maintenance of the workspace; no other crate depends on it outside of tests.

pub mod wire_code;
