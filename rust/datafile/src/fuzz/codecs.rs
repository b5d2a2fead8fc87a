//! Buffers of each encoding, first valid and then damaged, through the code that reads files.

use arrow_schema::{DataType, Field};
use pennon_core::file::{CompressionScheme, CompressiveEncoding as E, FullZipWidth, General, PackedMember};

use super::{Random, run};
use crate::encodings::codec::{Codec, Scratch};
use crate::encodings::fsst::{MAGIC, TABLE_SIZE};
use crate::values::{Data, Leaf, Values};

fn flat(bits_per_value: u64) -> E {
    E::Flat { bits_per_value }
}

fn boxed(encoding: E) -> Box<E> {
    Box::new(encoding)
}

/// A type, an encoding of it and a chunk of `n` values; `block` is the form of levels and dictionaries.
struct Case {
    data_type: DataType,
    encoding: E,
    buffers: Vec<Vec<u8>>,
    block: bool,
}

fn noise(random: &mut Random, len: usize) -> Vec<u8> {
    (0..len).map(|_| random.next().to_le_bytes()[0]).collect()
}

fn integer(width: usize) -> DataType {
    match width {
        1 => DataType::UInt8,
        2 => DataType::UInt16,
        4 => DataType::UInt32,
        _ => DataType::UInt64,
    }
}

/// Offsets and bytes of `n` values, the offsets starting at the end of themselves or at zero.
fn strings(random: &mut Random, n: usize, width: usize, block: bool) -> Vec<u8> {
    let lengths: Vec<usize> = (0..n).map(|_| random.below(9)).collect();
    let table = (n + 1) * width;
    let mut bytes = Vec::new();
    let put = |bytes: &mut Vec<u8>, value: usize| bytes.extend(&(value as u64).to_le_bytes()[..width]);
    if block {
        put(&mut bytes, width * 8);
        put(&mut bytes, 2 * width + table);
    }
    let mut end = if block { 0 } else { table };
    put(&mut bytes, end);
    for length in &lengths {
        end += length;
        put(&mut bytes, end);
    }
    let total: usize = lengths.iter().sum();
    bytes.extend((0..total).map(|i| b'a' + u8::try_from(i % 26).unwrap()));
    bytes
}

fn symbol_table(random: &mut Random) -> Vec<u8> {
    let symbols = 1 + random.below(255);
    let mut table = vec![u8::try_from(symbols).unwrap(), 0, 0, u8::from(random.below(8) > 0)];
    table.extend(MAGIC.to_le_bytes());
    table.extend((0..symbols * 8).map(|i| b'a' + u8::try_from(i % 26).unwrap()));
    table.extend((0..symbols).map(|i| u8::try_from(1 + i % 8).unwrap()));
    table.resize(TABLE_SIZE, 0);
    table
}

fn packed_groups(random: &mut Random, n: usize, width: usize, header: bool) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..n.div_ceil(1024) {
        let bits = random.below(width * 8 + 1);
        if header {
            bytes.extend(&(bits as u64).to_le_bytes()[..width]);
        }
        bytes.extend(noise(random, 128 * bits));
    }
    bytes
}

fn compressed(random: &mut Random, bytes: &[u8]) -> (CompressionScheme, Vec<u8>) {
    if random.below(2) == 0 {
        let mut out = u32::try_from(bytes.len()).unwrap().to_le_bytes().to_vec();
        out.extend(lz4_flex::block::compress(bytes));
        (CompressionScheme::Lz4, out)
    } else {
        let mut out = (bytes.len() as u64).to_le_bytes().to_vec();
        out.extend(zstd::bulk::compress(bytes, 0).unwrap());
        (CompressionScheme::Zstd, out)
    }
}

/// What is decoded.
#[derive(Debug, Clone, Copy)]
enum CaseKind {
    Flat,
    Bits,
    InlineBitpacking,
    OutOfLineBitpacking,
    Rle,
    ByteStreamSplit,
    Variable,
    Fsst,
    FixedSizeList,
    PackedStruct,
    /// A row of variable width.
    VariablePackedStruct,
    /// Any of these, compressed.
    General,
}

const PLAIN: [CaseKind; 10] = [
    CaseKind::Flat,
    CaseKind::Bits,
    CaseKind::InlineBitpacking,
    CaseKind::OutOfLineBitpacking,
    CaseKind::Rle,
    CaseKind::ByteStreamSplit,
    CaseKind::Variable,
    CaseKind::Fsst,
    CaseKind::FixedSizeList,
    CaseKind::PackedStruct,
];

fn case(random: &mut Random, kind: CaseKind, n: usize) -> Case {
    let width = *random.pick(&[1usize, 2, 4, 8]);
    let bits = width as u64 * 8;
    let offset_width = *random.pick(&[4usize, 8]);
    let mut case =
        Case { data_type: integer(width), encoding: flat(bits), buffers: Vec::new(), block: false };
    match kind {
        CaseKind::Bits => {
            (case.data_type, case.encoding) = (DataType::Boolean, flat(1));
            case.buffers.push(noise(random, n.div_ceil(8)));
        }
        CaseKind::InlineBitpacking => {
            case.encoding = E::InlineBitpacking { uncompressed_bits: bits };
            case.buffers.push(packed_groups(random, n, width, true));
        }
        CaseKind::OutOfLineBitpacking => {
            let compressed_bits = random.below(width * 8 + 1);
            case.encoding =
                E::OutOfLineBitpacking { uncompressed_bits: bits, compressed_bits: compressed_bits as u64 };
            case.block = random.below(2) == 0;
            case.buffers.push(noise(random, n.div_ceil(1024) * 128 * compressed_bits));
        }
        CaseKind::Rle => {
            case.encoding = E::Rle { values: boxed(flat(bits)), run_lengths: boxed(flat(8)) };
            let runs = n.div_ceil(7);
            let mut lengths = vec![7u8; n / 7];
            lengths.resize(runs, u8::try_from(n % 7).unwrap());
            case.buffers = vec![noise(random, runs * width), lengths];
            if random.below(2) == 0 {
                case.block = true;
                let mut block = ((runs * width) as u64).to_le_bytes().to_vec();
                block.extend(case.buffers.concat());
                case.buffers = vec![block];
            }
        }
        CaseKind::ByteStreamSplit => {
            case.encoding = E::ByteStreamSplit { values: boxed(flat(bits)) };
            case.buffers.push(noise(random, n * width));
        }
        CaseKind::Variable => {
            case.data_type = random.pick(&[DataType::Utf8, DataType::LargeBinary]).clone();
            case.encoding = E::Variable { bits_per_offset: offset_width as u64 * 8 };
            case.block = random.below(3) == 0;
            case.buffers.push(strings(random, n, offset_width, case.block));
        }
        CaseKind::Fsst => {
            case.data_type = DataType::Binary;
            let values = boxed(E::Variable { bits_per_offset: 32 });
            case.encoding = E::Fsst { symbol_table: symbol_table(random).into(), values };
            case.buffers.push(strings(random, n, 4, false));
        }
        CaseKind::FixedSizeList => {
            case.data_type = DataType::new_fixed_size_list(integer(width), 3, true);
            let has_validity = random.below(2) == 0;
            case.encoding = E::FixedSizeList { items_per_value: 3, has_validity, values: boxed(flat(bits)) };
            if has_validity {
                case.buffers.push(noise(random, (3 * n).div_ceil(8)));
            }
            case.buffers.push(noise(random, 3 * n * width));
        }
        CaseKind::PackedStruct => {
            let members = [DataType::UInt8, integer(width), DataType::FixedSizeBinary(5)];
            let members = members.iter().enumerate().map(|(i, t)| Field::new(i.to_string(), t.clone(), true));
            case.data_type = DataType::Struct(members.collect());
            let row = 8 + bits + 40;
            case.encoding = E::PackedStruct { bits_per_value: vec![8, bits, 40], values: boxed(flat(row)) };
            case.buffers.push(noise(random, n * (6 + width)));
        }
        CaseKind::General => return compress(random, n),
        CaseKind::Flat | CaseKind::VariablePackedStruct => case.buffers.push(noise(random, n * width)),
    }
    case
}

/// A plain case whose first buffer is compressed.
fn compress(random: &mut Random, n: usize) -> Case {
    let plain = *random.pick(&PLAIN);
    let mut case = case(random, plain, n);
    if let Some(first) = case.buffers.first_mut() {
        let (scheme, bytes) = compressed(random, first);
        *first = bytes;
        case.encoding = E::General(General { scheme, level: None, values: Box::new(case.encoding) });
    }
    case
}

fn decode(case: &Case, n: usize, random: &mut Random) {
    let Ok(leaf) = Leaf::of(&case.data_type) else { return };
    let Ok(codec) = Codec::compile_leaf(&case.encoding, &leaf) else { return };
    if case.block {
        let mut data = Data::with_capacity(leaf.physical, 0).unwrap();
        let _ = codec.append_block(&case.buffers[0], n, &mut data);
        return;
    }
    let mut bounds: Vec<usize> = (0..2 * (1 + random.below(20))).map(|_| random.below(n + 1)).collect();
    bounds.sort_unstable();
    let slices: Vec<_> = bounds.chunks(2).map(|b| b[0]..b[1]).collect();
    let buffers: Vec<&[u8]> = case.buffers.iter().map(Vec::as_slice).collect();
    let mut values = Values::with_capacity(&leaf, 0).unwrap();
    let _ = codec.append(&buffers, n, &slices, &mut values, &mut Scratch::default());
}

fn chunk(random: &mut Random, kind: CaseKind) -> usize {
    let n = 1 + random.below(3000);
    let mut case = case(random, kind, n);
    let mut good = Random::new(7);
    decode(&case, n, &mut good);
    for _ in 0..20 {
        let at = random.below(case.buffers.len());
        if let Some(buffer) = case.buffers.get_mut(at) {
            random.damage(buffer, 0);
        }
        // The number of values is read from the file as well.
        let n = if random.below(4) == 0 { random.below(1 << 15) } else { n };
        decode(&case, n, random);
    }
    case.buffers.iter().map(Vec::len).sum()
}

/// A row of a packed struct of variable width.
fn row(random: &mut Random) -> usize {
    let types = [DataType::UInt16, DataType::Utf8, DataType::new_fixed_size_list(DataType::Float32, 2, true)];
    let fields = types.iter().enumerate().map(|(i, t)| Field::new(i.to_string(), t.clone(), true));
    let leaf = Leaf::of(&DataType::Struct(fields.collect())).unwrap();
    let list = E::FixedSizeList { items_per_value: 2, has_validity: true, values: boxed(flat(32)) };
    let fsst = E::Fsst {
        symbol_table: symbol_table(random).into(),
        values: boxed(E::Variable { bits_per_offset: 32 }),
    };
    let member = |values, width| PackedMember { values, width };
    let members = vec![
        member(flat(16), FullZipWidth::Fixed(16)),
        member(fsst, FullZipWidth::Variable(32)),
        member(list, FullZipWidth::Fixed(72)),
    ];
    let codec = Codec::compile_leaf(&E::VariablePackedStruct { members }, &leaf).unwrap();
    let length = u8::try_from(random.below(100)).unwrap();
    let mut bytes = vec![1, 2, length, 0, 0, 0];
    bytes.extend(noise(random, usize::from(length) + 9));
    let mut values = Values::with_capacity(&leaf, 0).unwrap();
    for _ in 0..20 {
        let _ = codec.append_value(&bytes, &mut values.data, &mut Scratch::default());
        random.damage(&mut bytes, 0);
    }
    bytes.len()
}

fn input(random: &mut Random, kind: CaseKind) -> usize {
    match kind {
        CaseKind::VariablePackedStruct => row(random),
        _ => chunk(random, kind),
    }
}

#[test]
fn damaged_chunks() {
    let others = [CaseKind::VariablePackedStruct, CaseKind::General];
    for kind in PLAIN.into_iter().chain(others) {
        run(Some(100), |random| input(random, kind));
    }
}

/// A target for each decoder.
macro_rules! targets {
    ($($name:ident: $kind:ident),+ $(,)?) => {$(
        #[test]
        #[ignore = "runs as long as FUZZ_SECONDS says"]
        fn $name() {
            run(None, |random| input(random, CaseKind::$kind));
        }
    )+};
}

targets! {
    fuzz_flat: Flat,
    fuzz_bits: Bits,
    fuzz_inline_bitpacking: InlineBitpacking,
    fuzz_out_of_line_bitpacking: OutOfLineBitpacking,
    fuzz_rle: Rle,
    fuzz_byte_stream_split: ByteStreamSplit,
    fuzz_variable: Variable,
    fuzz_fsst: Fsst,
    fuzz_fixed_size_list: FixedSizeList,
    fuzz_packed_struct: PackedStruct,
    fuzz_variable_packed_struct: VariablePackedStruct,
    fuzz_general: General,
}
