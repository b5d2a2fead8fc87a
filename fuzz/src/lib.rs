//! Fuzz targets: each takes any bytes, gives them to the decoders of one family, and looks at what comes back as a reader
//! would. An error is right, as long as it does not call itself a bug; a panic, an overflow, a hang or too much memory
//! is not.
//!
//! `src/bin/decoders.rs` runs them under libFuzzer, `src/bin/seeds.rs` makes what they begin with; `make fuzz` calls both.

pub mod inputs;
pub mod memory;
pub mod mutate;
pub mod targets;

use std::sync::OnceLock;

/// What an input of a target is made of, so that changes of it make sense.
#[derive(Debug, Clone, Copy)]
pub enum Shape {
    /// Any bytes.
    Bytes,
    /// A file with positions in it: most changes keep its length.
    Positions,
    /// The pieces of a data file, [`inputs::Pieces`].
    Pieces,
    /// An index, [`inputs::Index`].
    Index,
}

/// A target by its name.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name.
    pub name: &'static str,
    /// What is done with an input.
    pub run: fn(&[u8]),
    /// What an input is made of.
    pub shape: Shape,
}

/// The target that `PENNON_FUZZ_TARGET` names.
///
/// # Panics
///
/// If it names none.
pub fn chosen(targets: &'static [Target]) -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("PENNON_FUZZ_TARGET").unwrap_or_default();
        targets.iter().find(|target| target.name == name).unwrap_or_else(|| {
            let names: Vec<&str> = targets.iter().map(|target| target.name).collect();
            panic!("PENNON_FUZZ_TARGET is {name:?}, expected one of {}", names.join(", "))
        })
    })
}

/// A result of which the error does not matter, unless it says that Pennon has a bug.
///
/// # Panics
///
/// If the error is of the kind `Internal`.
pub fn checked<T>(result: pennon_core::Result<T>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(error) => {
            assert!(
                error.kind() != pennon_core::ErrorKind::Internal,
                "bytes from outside are no bug: {error}"
            );
            None
        }
    }
}
