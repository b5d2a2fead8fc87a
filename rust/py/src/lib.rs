//! The extension module `pennon._native`: conversion, release of the GIL and error mapping. No logic.
//!
//! | file | what it exposes | stub |
//! |---|---|---|
//! | `dataset.rs` | `Dataset`, a table at one version | `_dataset.pyi` |
//! | `scan.rs` | `Scan`, `Batches` | `_scan.pyi` |
//! | `expression.rs` | values of expressions over rows in memory | `_expression.pyi` |
//! | `evolution.rs` | columns that are added, changed and dropped | `_evolution.pyi` |
//! | `blob.rs` | `Blob`: the bytes of a value | `_blob.pyi` |
//! | `field_sizes.rs` | bytes of fields | `_field_sizes.pyi` |
//! | `file.rs` | `FileReader`, `FileWriter`: one data file | `_file.pyi` |
//! | `fragment.rs` | `Fragment`, read-only, and the parts of one, both ways | `_fragment.pyi` |
//! | `schema.rs` | schemas with field ids, both ways | `_schema.pyi` |
//! | `changes.rs` | the change feed, histories, restored rows | `_changes.pyi` |
//! | `branches.rs` | `Branches`; making branches and clones | `_branches.pyi` |
//! | `indices.rs` | indices over values | `_indices.pyi` |
//! | `cleanup.rs` | removal of old versions | `_cleanup.pyi` |
//! | `compaction.rs` | compaction, whole or in steps | `_compaction.pyi` |
//! | `repair.rs` | repair | `_repair.pyi` |
//! | `seal.rs` | seals, scrubbing | `_seal.pyi` |
//! | `verify.rs` | verification | `_verify.pyi` |
//! | `tags.rs` | `Tags` | `_tags.pyi` |
//! | `write.rs`, `write_request.rs` | `write`, and the options of a write | `_write.pyi` |
//! | `jobs.rs` | work that many processes share | `_jobs.pyi` |
//! | `distributed.rs` | fragments that are rewritten and committed by hand | `_distributed.pyi` |
//! | `found.rs` | deletes and updates of rows that a Python function finds | `_found.pyi` |
//! | `update.rs` | updates | `_update.pyi` |
//! | `vector_indices.rs` | indices over vectors | `_vector_indices.pyi` |
//! | `merge_insert.rs` | merges | `_merge_insert.pyi` |
//! | `metrics.rs` | counters | `_metrics.pyi` |
//! | `processors.rs` | the number of threads | `_processors.pyi` |
//! | `progress.rs` | how far a step is, for a Python function | `_progress.pyi` |
//! | `session.rs` | `Session`: caches that tables share | `_session.pyi` |
//! | `transaction.rs`, `operation.rs`, `index.rs`, `commit.rs` | transactions and what is in them, both ways; commits | `_transaction.pyi` |
//! | `runtime.rs`, `caller.rs`, `logging.rs`, `lock.rs`, `handle.rs`, `forked.rs`, `arrow.rs`, `error.rs`, `given.rs`, `reference.rs`, `memory.rs`, `sliced.rs` | nothing of their own | |
//!
//! Every call is the same walk: extract the arguments, release the GIL, one call into `pennon_table`, wrap.

mod arrow;
mod blob;
mod branches;
mod caller;
mod changes;
mod cleanup;
mod commit;
mod compaction;
mod dataset;
mod distributed;
mod error;
mod evolution;
mod expression;
mod field_sizes;
mod file;
mod forked;
mod found;
mod fragment;
mod given;
mod handle;
mod index;
mod indices;
mod jobs;
mod lock;
mod logging;
mod memory;
mod merge_insert;
mod metrics;
mod operation;
mod processors;
mod progress;
mod reference;
mod repair;
mod runtime;
mod scan;
mod schema;
mod seal;
mod session;
mod sliced;
mod tags;
mod transaction;
mod update;
mod vector_indices;
mod verify;
mod write;
mod write_request;

use pyo3::prelude::*;

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    memory::set_up();
    logging::set_up();
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<dataset::Dataset>()?;
    module.add_class::<session::Session>()?;
    module.add_class::<scan::Scan>()?;
    module.add_class::<scan::Batches>()?;
    module.add_class::<blob::Blob>()?;
    module.add_class::<fragment::Fragment>()?;
    module.add_class::<compaction::PlannedFragments>()?;
    module.add_class::<jobs::JobPlan>()?;
    module.add_class::<jobs::Task>()?;
    module.add_class::<jobs::TaskResult>()?;
    module.add_class::<tags::Tags>()?;
    module.add_class::<branches::Branches>()?;
    module.add_class::<file::FileReader>()?;
    module.add_class::<file::FileWriter>()?;
    module.add_function(wrap_pyfunction!(file::stable_version, module)?)?;
    module.add_function(wrap_pyfunction!(fragment::encode_row_ids, module)?)?;
    module.add_function(wrap_pyfunction!(fragment::decode_row_ids, module)?)?;
    module.add_function(wrap_pyfunction!(fragment::count_row_ids, module)?)?;
    module.add_function(wrap_pyfunction!(schema::path_names, module)?)?;
    module.add_function(wrap_pyfunction!(schema::schema_from_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(schema::schema_to_arrow, module)?)?;
    module.add_function(wrap_pyfunction!(commit::commit, module)?)?;
    module.add_function(wrap_pyfunction!(transaction::merge, module)?)?;
    module.add_function(wrap_pyfunction!(write::write, module)?)?;
    module.add_function(wrap_pyfunction!(write::write_uncommitted, module)?)?;
    module.add_function(wrap_pyfunction!(branches::create_branch, module)?)?;
    module.add_function(wrap_pyfunction!(branches::clone_table, module)?)?;
    module.add_function(wrap_pyfunction!(branches::base_paths, module)?)?;
    module.add_function(wrap_pyfunction!(branches::add_bases, module)?)?;
    module.add_function(wrap_pyfunction!(branches::version_refs, module)?)?;
    module.add_function(wrap_pyfunction!(changes::changes, module)?)?;
    module.add_function(wrap_pyfunction!(changes::fragments_since, module)?)?;
    module.add_function(wrap_pyfunction!(changes::history, module)?)?;
    module.add_function(wrap_pyfunction!(changes::restore_rows, module)?)?;
    module.add_function(wrap_pyfunction!(cleanup::cleanup, module)?)?;
    module.add_function(wrap_pyfunction!(cleanup::explain_cleanup, module)?)?;
    module.add_function(wrap_pyfunction!(processors::cpu_count, module)?)?;
    module.add_function(wrap_pyfunction!(processors::set_cpu_count, module)?)?;
    module.add_function(wrap_pyfunction!(repair::repair_table, module)?)?;
    module.add_function(wrap_pyfunction!(seal::seal_table, module)?)?;
    module.add_class::<seal::Scrub>()?;
    module.add_function(wrap_pyfunction!(verify::verify, module)?)?;
    module.add_function(wrap_pyfunction!(verify::verify_table, module)?)?;
    module.add_function(wrap_pyfunction!(distributed::rewrite_fragments, module)?)?;
    module.add_function(wrap_pyfunction!(distributed::commit_new, module)?)?;
    module.add_function(wrap_pyfunction!(found::delete_found, module)?)?;
    module.add_function(wrap_pyfunction!(found::update_found, module)?)?;
    module.add_function(wrap_pyfunction!(update::update, module)?)?;
    module.add_function(wrap_pyfunction!(update::update_rows, module)?)?;
    module.add_function(wrap_pyfunction!(update::update_columns_in_fragment, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::add_expressions, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::add_values, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::add_nulls, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::with_columns, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::alter_columns, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::drop_columns, module)?)?;
    module.add_function(wrap_pyfunction!(expression::evaluate, module)?)?;
    module.add_function(wrap_pyfunction!(indices::create_index, module)?)?;
    module.add_function(wrap_pyfunction!(indices::create_index_segment, module)?)?;
    module.add_function(wrap_pyfunction!(vector_indices::create_vector_index, module)?)?;
    module.add_function(wrap_pyfunction!(vector_indices::create_vector_index_segment, module)?)?;
    module.add_function(wrap_pyfunction!(vector_indices::train_vector_index, module)?)?;
    module.add_function(wrap_pyfunction!(vector_indices::vector_index_model, module)?)?;
    module.add_function(wrap_pyfunction!(vector_indices::vector_index_statistics, module)?)?;
    module.add_function(wrap_pyfunction!(indices::commit_index_segments, module)?)?;
    module.add_function(wrap_pyfunction!(indices::merge_index_segments, module)?)?;
    module.add_function(wrap_pyfunction!(indices::drop_index, module)?)?;
    module.add_function(wrap_pyfunction!(indices::describe_indices, module)?)?;
    module.add_function(wrap_pyfunction!(indices::index_statistics, module)?)?;
    module.add_function(wrap_pyfunction!(indices::prewarm_index, module)?)?;
    module.add_function(wrap_pyfunction!(indices::optimize_indices, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::merge_columns, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::add_expressions_in_fragment, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::add_values_in_fragment, module)?)?;
    module.add_function(wrap_pyfunction!(evolution::merge_columns_in_fragment, module)?)?;
    module.add_function(wrap_pyfunction!(metrics::process_counters, module)?)?;
    module.add_function(wrap_pyfunction!(field_sizes::field_sizes, module)?)?;
    module.add_function(wrap_pyfunction!(merge_insert::merge_keys, module)?)?;
    module.add_function(wrap_pyfunction!(merge_insert::merge_insert, module)?)?;
    module.add_function(wrap_pyfunction!(merge_insert::merge_insert_uncommitted, module)?)?;
    module.add_function(wrap_pyfunction!(merge_insert::explain_merge_insert, module)?)?;
    module.add_function(wrap_pyfunction!(merge_insert::analyze_merge_insert, module)?)?;
    module.add_function(wrap_pyfunction!(compaction::compact, module)?)?;
    module.add_function(wrap_pyfunction!(compaction::plan_compaction, module)?)?;
    module.add_function(wrap_pyfunction!(compaction::compact_fragments, module)?)?;
    module.add_function(wrap_pyfunction!(compaction::commit_compaction, module)?)?;
    Ok(())
}
