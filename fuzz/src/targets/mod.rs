//! The targets.

mod files;
mod indices;
mod messages;
mod rows;
mod texts;

use crate::{Shape, Target};

pub use indices::{KINDS, TYPES};

/// Decoders of files.
pub const DECODERS: &[Target] = &[
    Target { name: "manifest", run: messages::manifest, shape: Shape::Positions },
    Target { name: "transaction", run: messages::transaction, shape: Shape::Bytes },
    Target { name: "message", run: messages::message, shape: Shape::Bytes },
    Target { name: "name", run: messages::name, shape: Shape::Bytes },
    Target { name: "row_ids", run: rows::row_ids, shape: Shape::Bytes },
    Target { name: "row_versions", run: rows::row_versions, shape: Shape::Bytes },
    Target { name: "row_sets", run: rows::row_sets, shape: Shape::Bytes },
    Target { name: "deletions", run: rows::deletions, shape: Shape::Bytes },
    Target { name: "datafile", run: files::datafile, shape: Shape::Positions },
    Target { name: "pieces", run: files::pieces, shape: Shape::Pieces },
    Target { name: "seal", run: files::seal, shape: Shape::Bytes },
    Target { name: "index", run: indices::scalar, shape: Shape::Index },
    Target { name: "vectors", run: indices::vectors, shape: Shape::Index },
    Target { name: "sql", run: texts::sql, shape: Shape::Bytes },
    Target { name: "jobs", run: texts::jobs, shape: Shape::Bytes },
    Target { name: "options", run: texts::options, shape: Shape::Bytes },
];
