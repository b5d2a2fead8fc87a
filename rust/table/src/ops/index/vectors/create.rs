//! A new index over vectors, or a segment of one.

use std::collections::BTreeMap;
use std::sync::Arc;

use pennon_core::manifest::IndexMetadata;
use pennon_core::schema::Field;
use pennon_core::wire::index_parts::IndexParts;
use pennon_core::wire::vector_index::{DETAILS_TYPE, HnswDetails, StorageDetails, VectorIndexDetails};
use pennon_core::{Error, FragmentId, Result};
use pennon_index::{GraphOptions, IndexKind, VectorIndexKind, VectorModel};
use roaring::RoaringBitmap;
use tracing::instrument;
use uuid::Uuid;

use super::build::{self, VectorBuild};
use super::request::{NewVectorIndex, VectorParameters, VectorType};
use super::train::{VectorSource, train};
use crate::dataset::Dataset;
use crate::indices::Segment;
use crate::ops::index::build::Built;
use crate::ops::index::segment::new_entry;
use crate::store::Durability;
use crate::versions::snapshot::Snapshot;
use crate::write::staged::StagedFile;

impl Dataset {
    /// Makes an index over vectors and moves to the version that has it.
    ///
    /// Errors: `NotFound` for an unknown column; `SchemaMismatch` for a column without vectors; `InvalidInput` for
    /// parameters that do not fit; `AlreadyExists` for a name or a uuid that is taken; those of reading and writing.
    /// The table is as before then, and the files of the attempt are removed.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn create_vector_index(&mut self, new: NewVectorIndex) -> Result<()> {
        let (field, name, replaced) = self.check_new_vectors(&new).await?;
        let fragments: Vec<FragmentId> =
            if new.train { self.manifest().fragments.ids().collect() } else { Vec::new() };
        let (entry, files) = self.build_vectors(&new, &field, &name, fragments).await?;
        self.commit_indices(vec![entry], replaced, files).await
    }

    /// Makes a segment of an index over some fragments without committing it: its entry.
    ///
    /// Errors: those of [`Self::create_vector_index`]; `InvalidInput` for fragments that the version does not have.
    #[instrument(level = "debug", skip_all, fields(table = self.uri(), version = %self.version()))]
    pub async fn create_vector_index_segment(
        &self,
        new: NewVectorIndex,
        fragments: Vec<FragmentId>,
    ) -> Result<IndexMetadata> {
        let (field, name, _) = self.check_new_vectors(&new).await?;
        self.check_fragments(&fragments)?;
        Ok(self.build_vectors(&new, &field, &name, fragments).await?.0)
    }

    /// What an index would be built with, from a sample of the vectors of some fragments: for parts that several processes
    /// build. `None` for too few vectors.
    ///
    /// Errors: those of [`Self::create_vector_index_segment`].
    pub async fn train_vector_index(
        &self,
        new: &NewVectorIndex,
        fragments: Option<Vec<FragmentId>>,
    ) -> Result<Option<VectorModel>> {
        let (field, ..) = self.check_new_vectors(new).await?;
        let fragments = fragments.unwrap_or_else(|| self.manifest().fragments.ids().collect());
        self.check_fragments(&fragments)?;
        train(&source_of(self.snapshot(), &field, fragments)?, new.kind, new.metric, &new.parameters).await
    }

    fn check_fragments(&self, fragments: &[FragmentId]) -> Result<()> {
        match fragments.iter().find(|id| !self.manifest().fragments.contains_id(**id)) {
            None => Ok(()),
            Some(missing) => {
                let version = self.version();
                Err(Error::invalid_input(format!("Unknown fragment id {missing}: not in version {version}")))
            }
        }
    }

    async fn check_new_vectors(&self, new: &NewVectorIndex) -> Result<(Field, String, Vec<IndexMetadata>)> {
        let field = self.indexed_field(&new.column)?;
        let vectors = VectorType::of(&field, &new.column)?;
        vectors.check_metric(new.metric)?;
        new.parameters.check(new.kind, vectors.dimension)?;
        if new.kind == VectorIndexKind::IvfRq {
            return Err(Error::unsupported("an index of type IVF_RQ is read and not made"));
        }
        let (name, replaced) =
            self.check_name(&field, IndexKind::Vector, new.name.as_deref(), new.replace).await?;
        Ok((field, name, replaced))
    }

    async fn build_vectors(
        &self,
        new: &NewVectorIndex,
        field: &Field,
        name: &str,
        fragments: Vec<FragmentId>,
    ) -> Result<(IndexMetadata, Vec<StagedFile>)> {
        let source = source_of(self.snapshot(), field, fragments)?;
        let uuid = self.segment_uuid(new.uuid).await?;
        let model = match source.fragments.is_empty() {
            true => None,
            false => train(&source, new.kind, new.metric, &new.parameters).await?,
        };
        let parts = NewEntry { name, field, uuid, parameters: &new.parameters };
        match model {
            Some(model) => parts.build(source, Arc::new(model), Vec::new(), self.durability()).await,
            // Too few rows, or none: an entry that covers nothing, and rows are scanned until it is optimised.
            None => {
                let details = untrained(new);
                Ok((
                    parts.entry(self.snapshot(), &RoaringBitmap::new(), details, new.kind, None)?,
                    Vec::new(),
                ))
            }
        }
    }
}

/// The vectors of a field in some fragments.
pub(super) fn source_of(
    snapshot: &Arc<Snapshot>,
    field: &Field,
    fragments: Vec<FragmentId>,
) -> Result<VectorSource> {
    let path = snapshot.manifest.schema.path_of(field.id);
    let column = path.ok_or_else(|| Error::internal("an indexed field without a path"))?;
    let VectorType { element, dimension, .. } = VectorType::of(field, &column)?;
    Ok(VectorSource { snapshot: Arc::clone(snapshot), column, element, dimension, fragments })
}

/// An entry that is made.
pub(super) struct NewEntry<'a> {
    pub(super) name: &'a str,
    pub(super) field: &'a Field,
    pub(super) uuid: Uuid,
    pub(super) parameters: &'a VectorParameters,
}

impl NewEntry<'_> {
    /// The entry of a segment with the vectors of some fragments and of other segments, whose files are written.
    pub(super) async fn build(
        &self,
        source: VectorSource,
        model: Arc<VectorModel>,
        merged: Vec<Segment>,
        durability: Durability,
    ) -> Result<(IndexMetadata, Vec<StagedFile>)> {
        let snapshot = Arc::clone(&source.snapshot);
        let mut covered: RoaringBitmap = source.fragments.iter().map(|id| id.0).collect();
        merged.iter().for_each(|segment| covered |= &segment.covered);
        let (kind, details) = (model.kind(), model.details(hnsw_of(model.kind(), self.parameters)));
        let VectorParameters { m, ef_construction, max_level, .. } = *self.parameters;
        let graphs = GraphOptions { m, ef_construction, max_level };
        let build = VectorBuild { source, model, merged, graphs, uuid: self.uuid, durability };
        let built = build::run(build).await?;
        let entry = self.entry(&snapshot, &covered, details, kind, Some(&built))?;
        Ok((entry, built.files))
    }

    pub(super) fn entry(
        &self,
        snapshot: &Snapshot,
        covered: &RoaringBitmap,
        details: VectorIndexDetails,
        kind: VectorIndexKind,
        built: Option<&Built>,
    ) -> Result<IndexMetadata> {
        let details = VectorIndexDetails {
            target_partition_size: self.parameters.target_partition_size.unwrap_or(0),
            runtime_hints: hints(kind, self.parameters),
            ..details
        };
        IndexParts {
            fragments: Some(covered.iter().collect()),
            index_version: Some(kind.version()),
            files: built.map(|built| built.sizes.clone()).unwrap_or_default(),
            details: Some((DETAILS_TYPE.to_owned(), details.encode())),
            ..new_entry(snapshot, self.name, self.field, self.uuid)
        }
        .entry()
    }
}

fn hnsw_of(kind: VectorIndexKind, parameters: &VectorParameters) -> Option<HnswDetails> {
    let VectorParameters { m, ef_construction, max_level, .. } = *parameters;
    kind.has_graph().then_some(HnswDetails { m, ef_construction, max_level })
}

/// The details of an index that is not built yet.
fn untrained(new: &NewVectorIndex) -> VectorIndexDetails {
    let parameters = &new.parameters;
    let storage = match new.kind {
        VectorIndexKind::IvfPq | VectorIndexKind::IvfHnswPq => StorageDetails::Product {
            num_bits: parameters.num_bits,
            num_sub_vectors: parameters.num_sub_vectors.unwrap_or(0),
        },
        VectorIndexKind::IvfSq | VectorIndexKind::IvfHnswSq => StorageDetails::Scalar { num_bits: 8 },
        VectorIndexKind::IvfRq => StorageDetails::Rabit { num_bits: 5 },
        VectorIndexKind::IvfFlat | VectorIndexKind::IvfHnswFlat => StorageDetails::Flat,
    };
    VectorIndexDetails {
        metric: new.metric.number(),
        hnsw: hnsw_of(new.kind, parameters),
        storage: Some(storage),
        ..VectorIndexDetails::default()
    }
}

/// How an index was built, under the names that the reference has for it.
fn hints(kind: VectorIndexKind, parameters: &VectorParameters) -> BTreeMap<String, String> {
    let mut hints = BTreeMap::from([
        ("lance.ivf.sample_rate".to_owned(), parameters.sample_rate.to_string()),
        ("lance.ivf.max_iters".to_owned(), parameters.max_iterations.to_string()),
    ]);
    if let Some(partitions) = parameters.num_partitions {
        hints.insert("lance.ivf.num_partitions".to_owned(), partitions.to_string());
    }
    let name = match kind {
        VectorIndexKind::IvfPq | VectorIndexKind::IvfHnswPq => "lance.pq.sample_rate",
        VectorIndexKind::IvfSq | VectorIndexKind::IvfHnswSq => "lance.sq.sample_rate",
        _ => return hints,
    };
    hints.insert(name.to_owned(), parameters.sample_rate.to_string());
    hints
}
