//! Writes inputs to begin with: `seeds FOLDER`, of the golden files of the tests and of files that Pennon writes. They get a
//! folder for each target.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::{Float32Type, Int32Type};
use arrow_array::{
    Array, ArrayRef, BinaryArray, FixedSizeListArray, Float64Array, Int32Array, Int64Array, ListArray,
    RecordBatch, StringArray, UInt64Array,
};
use arrow_schema::DataType;
use bytes::Bytes;
use pennon_core::Version;
use pennon_core::deletion::DeletionVector;
use pennon_core::file::FileVersion;
use pennon_core::manifest::{DeletionFileType, ManifestFile};
use pennon_core::rows::{RowIdSequence, RowRanges, VersionSequence};
use pennon_core::schema::Schema;
use pennon_core::wire::index_section;
use pennon_core::wire::vector_index::IvfMessage;
use pennon_datafile::{FileReader, FileWriter, MemorySource, Seal, WriteOptions, deletion_file};
use pennon_fuzz::inputs::{Index, Pieces};
use pennon_fuzz::targets::{KINDS, TYPES};
use pennon_index::{
    BTreeWriter, BitmapWriter, BuildOptions, ClusterOptions, IndexKind, LabelListWriter, Metric, NGramWriter,
    RowSet, SortedRun, VectorIndexBuilder, VectorIndexKind, VectorModel, VectorStorage, WrittenFile,
    ZoneForm, ZoneWriter, items_of, train_bounds, train_centroids, train_codebook,
};

type Done = Result<(), Box<dyn Error>>;

/// Larger files are left out.
const MOST_BYTES: usize = 96 << 10;

fn main() -> Done {
    let root = std::env::args_os().nth(1).ok_or("seeds: expected the folder to write to")?;
    let seeds = Seeds(root.into());
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden");
    for path in files_below(&golden)? {
        seeds.of_golden_file(&path)?;
    }
    seeds.rows(&golden)?;
    seeds.indices()?;
    seeds.vectors()?;
    seeds.small_files()?;
    for name in [
        "_versions/18446744073709551614.manifest",
        "18446744073709551614.manifest",
        "7.manifest",
        "d9223372036854775809.manifest",
        "0-d9f2b359-fead-4134-aa58-b9ce4f96b418.txn",
        "data/8714cd07-4e06-45ce-b82e-3f7603c691d2.lance",
        "_deletions/0-1-2673443788929487851.arrow",
        "_indices/8714cd07-4e06-45ce-b82e-3f7603c691d2/page_data.lance",
        "_refs/tags/a.json",
        "tree/a/b",
    ] {
        seeds.put("name", name.as_bytes())?;
    }
    seeds.texts()
}

fn files_below(folder: &Path) -> Result<Vec<PathBuf>, Box<dyn Error>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() { all.extend(files_below(&path)?) } else { all.push(path) }
    }
    all.sort();
    Ok(all)
}

struct Seeds(PathBuf);

impl Seeds {
    fn put(&self, target: &str, bytes: &[u8]) -> Done {
        if bytes.len() > MOST_BYTES {
            return Ok(());
        }
        let folder = self.0.join(target);
        fs::create_dir_all(&folder)?;
        let name = format!("{:016x}", twox_hash::XxHash3_64::oneshot(bytes));
        Ok(fs::write(folder.join(name), bytes)?)
    }

    fn message(&self, kind: u8, bytes: &[u8]) -> Done {
        self.put("message", &[&[kind], bytes].concat())
    }

    fn of_golden_file(&self, path: &Path) -> Done {
        let bytes = fs::read(path)?;
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("manifest") => self.manifest(&bytes),
            Some("txn") => self.put("transaction", &bytes),
            Some("lance") => self.data_file(&bytes),
            Some("bin") => self.put("deletions", &[&[1, 0, 0], bytes.as_slice()].concat()),
            Some("arrow")
                if path.components().any(|part| part.as_os_str().to_string_lossy().contains("deletion")) =>
            {
                self.put("deletions", &[&[0, 0, 0], bytes.as_slice()].concat())
            }
            Some("idx") if path.ends_with("index.idx") => {
                let [first, second] = [bytes, fs::read(path.with_file_name("auxiliary.idx"))?];
                self.index("vectors", [0; Index::HEAD], [&first, &second])
            }
            _ => Ok(()),
        }
    }

    fn manifest(&self, bytes: &[u8]) -> Done {
        self.put("manifest", bytes)?;
        let Ok(file) = ManifestFile::decode(Bytes::copy_from_slice(bytes)) else { return Ok(()) };
        self.message(0, &file.manifest.encode())?;
        for fragment in file.manifest.fragments.decode_all() {
            self.message(1, &fragment.encode())?;
            for (target, sequence) in [("row_ids", fragment.row_id_sequence()?.map(|ids| ids.encode()))] {
                sequence.map_or(Ok(()), |bytes| self.put(target, &bytes))?;
            }
            for versions in [fragment.created_at_sequence()?, fragment.last_updated_at_sequence()?] {
                versions.map_or(Ok(()), |versions| self.put("row_versions", &versions.encode()))?;
            }
        }
        if let Some(section) = file.indices()? {
            self.message(2, &section)?;
            for entry in index_section::decode(section)? {
                self.message(3, &entry.encoded)?;
                if let Ok(parts) = pennon_core::wire::index_parts::IndexParts::of(&entry)
                    && let Some((_, details)) = parts.details
                {
                    for kind in [4, 5, 9] {
                        self.message(kind, &details)?;
                    }
                }
            }
        }
        if let Some(transaction) = file.transaction()? {
            self.put("transaction", &transaction)?;
        }
        Ok(())
    }

    fn data_file(&self, bytes: &[u8]) -> Done {
        self.put("datafile", &[&[2], bytes].concat())?;
        let Some(pieces) = Pieces::of_file(bytes) else {
            return Ok(());
        };
        self.put("pieces", &pieces.encode())?;
        if let Some(descriptor) = pieces.buffers.first() {
            self.message(10, descriptor)?;
        }
        for column in &pieces.columns {
            self.message(11 + pieces.version, column)?;
        }
        Ok(())
    }

    /// The first rows of golden files in small files of each version, whose metadata is most of them.
    fn small_files(&self) -> Done {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/datafile");
        for path in files_below(&folder)? {
            if path.extension().is_none_or(|extension| extension != "lance") {
                continue;
            }
            let source = Arc::new(MemorySource::new("golden", fs::read(&path)?));
            let Ok(reader) = FileReader::open(source) else { continue };
            let metadata = reader.metadata();
            let rows: RowRanges = (0..metadata.num_rows.min(40)).into();
            let arrow = Arc::new(metadata.schema.to_arrow());
            let Ok(arrays) = reader.read(&metadata.schema.fields, &reader.column_map(), &rows) else {
                continue;
            };
            let Ok(batch) = RecordBatch::try_new(arrow, arrays) else { continue };
            for version in [FileVersion::V2_0, FileVersion::V2_1, FileVersion::V2_2] {
                if let Ok(bytes) = data_file(&batch, &metadata.schema, version) {
                    self.data_file(&bytes)?;
                }
            }
        }
        // Large enough for blocks with checksums.
        let numbers = Int64Array::from_iter_values((0..40_000).map(|row| row / 5000));
        let floats =
            Float64Array::from_iter((0..40_000).map(|row| (row % 9 > 0).then_some(f64::from(row / 4000))));
        let texts = StringArray::from_iter_values((0..40_000).map(|row| format!("{}", row / 4000)));
        let columns: [(&str, ArrayRef); 3] =
            [("a", Arc::new(numbers)), ("b", Arc::new(floats)), ("c", Arc::new(texts))];
        let batch = RecordBatch::try_from_iter(columns)?;
        let bytes = data_file(&batch, &Schema::from_arrow(&batch.schema())?, FileVersion::V2_2)?;
        self.data_file(&bytes)?;
        self.statistics()
    }

    /// Files of a little more than 64 KiB, which have statistics.
    fn statistics(&self) -> Done {
        let scattered = |rows: i64| (0..rows).map(|row| row * 2_654_435_761 % i64::from(i32::MAX));
        let numbers = Int32Array::from_iter_values(scattered(18_000).flat_map(i32::try_from));
        let floats = Float64Array::from_iter(scattered(4_600).map(|n| (n % 9 > 0).then_some(n as f64 / 7.0)));
        let texts = StringArray::from_iter_values(scattered(4_600).map(|n| n.to_string()));
        let columns: [Vec<(&str, ArrayRef)>; 2] =
            [vec![("a", Arc::new(numbers))], vec![("b", Arc::new(floats)), ("c", Arc::new(texts))]];
        for columns in columns {
            let batch = RecordBatch::try_from_iter(columns)?;
            let schema = Schema::from_arrow(&batch.schema())?;
            for version in [FileVersion::V2_1, FileVersion::V2_2] {
                let bytes = data_file(&batch, &schema, version)?;
                if bytes.len() > MOST_BYTES {
                    return Err(format!("a seed of {} bytes", bytes.len()).into());
                }
                let reader = FileReader::open(Arc::new(MemorySource::new("seed", bytes.clone())))?;
                reader.statistics(0)?.ok_or("a seed without statistics")?;
                self.data_file(&bytes)?;
            }
        }
        Ok(())
    }

    /// Texts that are kept in `seeds`: a line is one of SQL and of JSON, a paragraph an address with options.
    fn texts(&self) -> Done {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
        for (target, between) in [("sql", "\n"), ("jobs", "\n"), ("options", "\n\n")] {
            let texts = fs::read_to_string(folder.join(target).with_extension("txt"))?;
            texts.trim_end().split(between).try_for_each(|text| self.put(target, text.as_bytes()))?;
        }
        Ok(())
    }

    fn rows(&self, golden: &Path) -> Done {
        for line in fs::read_to_string(golden.join("sequences.txt"))?.lines() {
            let hex = line.rsplit(' ').next().unwrap_or_default();
            let bytes = (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16));
            self.put("row_ids", &bytes.collect::<Result<Vec<_>, _>>()?)?;
        }
        let mut versions = VersionSequence::unrecorded(7);
        versions.push(5, Version(3));
        versions.push(1 << 40, Version(9));
        self.put("row_versions", &versions.encode())?;
        let ids: Vec<u64> = (0..500).map(|id| id * id % 1009 + (id / 100) * 100_000).collect();
        self.put("row_ids", &RowIdSequence::from_slice(&ids).encode())?;
        for rows in [ids.clone(), (0..20_000).collect(), vec![1 << 40, u64::MAX], vec![]] {
            let set = RowSet::of(rows);
            self.put("row_sets", &[&[0], set.encode()?.as_slice()].concat())?;
            self.put("row_sets", &[&[1], set.encode_treemap()?.as_slice()].concat())?;
        }
        for count in [3_u32, 70, 6000] {
            let rows: DeletionVector = (0..count).map(|row| row * 3).collect();
            for (number, form) in [(0, DeletionFileType::Arrow), (1, DeletionFileType::Bitmap)] {
                let bytes = deletion_file::encode_as(form, &rows)?;
                let [low, high] = u16::try_from(count)?.to_le_bytes();
                // Without the checksum, which hides what is behind it.
                let content = match number {
                    1 => &bytes[..bytes.len() - 16],
                    _ => &bytes,
                };
                self.put("deletions", &[&[number, low, high], content].concat())?;
            }
        }
        let file: Vec<u8> = (0..200).collect();
        let seal = Seal::of(&MemorySource::new("file", file.clone()))?.encode();
        self.put("seal", &[&[200], file.as_slice(), &seal[..seal.len() - 8]].concat())
    }

    fn index(&self, target: &str, head: [u8; Index::HEAD], [first, second]: [&[u8]; 2]) -> Done {
        let take = |file| Pieces::of_file(file).unwrap_or_default();
        let index = Index { head, first: take(first), second: take(second) };
        self.put(target, &index.encode())
    }

    fn scalar(&self, kind: IndexKind, data_type: &DataType, files: [&WrittenFile<Vec<u8>>; 2]) -> Done {
        let position = |at: Option<usize>| u8::try_from(at.unwrap_or(0)).unwrap_or(0);
        let mut head = [0; Index::HEAD];
        head[0] = position(KINDS.iter().position(|other| *other == kind));
        head[1] = position(TYPES.iter().position(|other| other == data_type));
        head[2] = b'7';
        self.index("index", head, files.map(|file| file.sink.as_slice()))
    }

    fn indices(&self) -> Done {
        let rows = UInt64Array::from_iter_values((0..60).map(|row| row * 5 % 61));
        let numbers: ArrayRef =
            Arc::new(Int64Array::from_iter((0..60).map(|row| (row % 7 > 0).then_some(row % 13))));
        let texts = (0..60).map(|row| (row % 8 > 0).then(|| format!("text{}", row % 11)));
        let texts: ArrayRef = Arc::new(StringArray::from_iter(texts));
        let floats = (0..60)
            .map(|row| (row % 5 > 0).then(|| if row % 9 == 0 { f64::NAN } else { f64::from(row) / 3.0 }));
        let floats: ArrayRef = Arc::new(Float64Array::from_iter(floats));
        let binary: ArrayRef = Arc::new(BinaryArray::from_iter_values((0..60_u8).map(|row| [row % 9, 2])));
        for values in [numbers, texts, floats, binary] {
            let data_type = values.data_type();
            let run = SortedRun::sort(&values, &rows)?;
            for version in [FileVersion::V2_0, FileVersion::V2_1] {
                let mut writer = BTreeWriter::try_new(Vec::new(), data_type, version, 16)?;
                writer.write(&run)?;
                let files = writer.finish(Vec::new())?;
                let named = |name: &str| files.iter().find(|file| file.name == name).ok_or("no such file");
                let files = [named("page_lookup.lance")?, named("page_data.lance")?];
                self.scalar(IndexKind::BTree, data_type, files)?;
                let mut writer = BitmapWriter::try_new(Vec::new(), data_type, version)?;
                writer.write(&run)?;
                let file = writer.finish()?;
                self.scalar(IndexKind::Bitmap, data_type, [&file, &file])?;
            }
            for kind in [IndexKind::ZoneMap, IndexKind::BloomFilter] {
                let Ok(form) = ZoneForm::try_new(kind, data_type.clone(), 16, 0.01) else { continue };
                let parts = form.gather(&values, &rows)?;
                let mut writer = ZoneWriter::try_new(Vec::new(), form, FileVersion::V2_1)?;
                writer.add(parts);
                let file = writer.finish()?;
                self.scalar(kind, data_type, [&file, &file])?;
            }
        }
        let lists = (0..30)
            .map(|row| (row % 4 > 0).then(|| (0..row % 3).map(move |at| (at > 0).then_some(row + at))));
        let lists: ArrayRef = Arc::new(ListArray::from_iter_primitive::<Int32Type, _, _>(lists));
        let (items, rows, nulls) = items_of(&lists, &UInt64Array::from_iter_values(0..30))?;
        let mut writer = LabelListWriter::try_new(Vec::new(), items.data_type(), FileVersion::V2_1)?;
        writer.write(&SortedRun::sort(&items, &rows)?)?;
        let file = writer.finish(&nulls)?;
        self.scalar(IndexKind::LabelList, &DataType::Int64, [&file, &file])?;
        let mut writer = NGramWriter::try_new(Vec::new(), FileVersion::V2_1)?;
        // Token 0 and those of "abc" and "def".
        for (token, rows) in [(0, vec![3]), (15_523, vec![1, 2, 9]), (19_738, vec![2, 9])] {
            writer.write(token, &RowSet::of(rows))?;
        }
        let file = writer.finish()?;
        self.scalar(IndexKind::NGram, &DataType::Utf8, [&file, &file])
    }

    fn vectors(&self) -> Done {
        let mut state = 1_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f32::from(u16::try_from(state >> 16).unwrap_or(0)) / 65_536.0
        };
        let lists = (0..300).map(|_| Some((0..8).map(|_| Some(next())).collect::<Vec<_>>()));
        let vectors = FixedSizeListArray::from_iter_primitive::<Float32Type, _, _>(lists, 8);
        let (metric, options) =
            (Metric::L2, ClusterOptions { max_iterations: 3, ..ClusterOptions::default() });
        let few = || "too few vectors";
        let (centroids, _) =
            train_centroids(&vectors, metric, 2, options, &mut |_, _| Ok(()))?.ok_or_else(few)?;
        let codebook =
            |codes| train_codebook(&vectors, metric, &centroids, codes, options, &mut |_, _| Ok(()));
        let (bytes, halves) = (codebook((8, 2))?.ok_or_else(few)?, codebook((4, 4))?.ok_or_else(few)?);
        let (low, high) = train_bounds(&vectors, metric)?.ok_or_else(few)?;
        let product = |codebook, num_bits, num_sub_vectors| VectorStorage::Product {
            codebook,
            num_bits,
            num_sub_vectors,
        };
        let scalar = VectorStorage::Scalar { low, high };
        use VectorIndexKind as K;
        for (kind, storage, rows) in [
            (K::IvfFlat, VectorStorage::Flat, 60),
            (K::IvfPq, product(&bytes, 8, 2), 60),
            (K::IvfPq, product(&halves, 4, 4), 60),
            (K::IvfSq, scalar, 60),
            (K::IvfHnswFlat, VectorStorage::Flat, 100),
            (K::IvfHnswPq, product(&halves, 4, 4), 100),
            (K::IvfHnswSq, scalar, 100),
        ] {
            let model = VectorModel::try_new(kind, metric, &centroids, storage)?;
            let mut builder = VectorIndexBuilder::new(Arc::new(model), BuildOptions::default());
            builder.add(&vectors.slice(0, rows), &(0..rows as u64).collect::<Vec<_>>())?;
            let (files, _) =
                builder.finish(Vec::new(), Vec::new(), FileVersion::V2_1, &[], &mut |_, _| Ok(()))?;
            let named = |name: &str| files.iter().find(|file| file.name == name).ok_or("no such file");
            let (first, second) = (named("index.idx")?, named("auxiliary.idx")?);
            self.index("vectors", [3; Index::HEAD], [&first.sink, &second.sink])?;
            for buffer in Pieces::of_file(&first.sink).into_iter().flat_map(|pieces| pieces.buffers) {
                if IvfMessage::decode(buffer.clone().into()).is_ok() {
                    self.message(6, &buffer)?;
                    self.message(7, &buffer)?;
                }
            }
        }
        Ok(())
    }
}

fn data_file(batch: &RecordBatch, schema: &Schema, version: FileVersion) -> Result<Vec<u8>, Box<dyn Error>> {
    let options = WriteOptions { version, max_page_bytes: 64 << 10 };
    let mut writer = FileWriter::try_new(Vec::new(), schema.clone(), options)?;
    writer.write(batch)?;
    Ok(writer.finish()?.1)
}
