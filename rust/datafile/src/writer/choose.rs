//! Which codec the values of a page get: the one that makes them smallest.
//!
//! | values | forms to choose from |
//! |---|---|
//! | integers of 8 to 64 bits, and what is stored as such | plain, bit packing, runs |
//! | everything else | plain |
//! | strings and binary with values above 32 KiB | zstd for each value |
//!
//! A field may request a compressor around them, with byte planes of 32- and 64-bit values as one more form.
//!
//! A form that saves less than [`WORTHWHILE`] loses to a faster form: runs to bit packing, bit packing to plain.

use pennon_core::Result;
use pennon_core::file::CompressionScheme;

use super::codec::{Codec, Encoder, Form};
use super::options::{Compression, FieldOptions};
use super::values::{Data, Values};
use crate::encodings::bitpack::GROUP;
use crate::encodings::bitpack::encode::{Pack, inline_bytes};
use crate::encodings::flat::encode::Rope;
use crate::encodings::general::encode::Compressor;
use crate::encodings::le::{Number, with_width};

/// Per cent of the size that a saving must leave at most.
const WORTHWHILE: usize = 96;
/// Bytes of a chunk and its word in addition to the values, about.
const CHUNK: usize = 20;
/// Chunks that are tried with a compressor.
const SAMPLES: usize = 8;
/// Values longer than this are compressed one by one.
const HUGE: u64 = 32 << 10;
/// Groups of a page that are measured, at least if there are so many.
const MEASURED: usize = 64;
/// Longest run.
const RUN: usize = 255;

/// The codec of these values.
pub(crate) fn choose(values: &Values, options: &FieldOptions) -> Result<Codec> {
    if options.compression == Some(Compression::None) || !values.lists.is_empty() {
        return Ok(Codec::default());
    }
    let form = match &values.data {
        Data::Fixed { width, bytes } => {
            with_width!(*width, T => integers::<T>(&measure::<T>(bytes), options).0, Form::Plain)
        }
        Data::Variable(_) => Form::Plain,
        Data::Bits { .. } => return Ok(Codec::default()),
    };
    match options.compression {
        Some(Compression::General(compressor)) => compressed(values, form, compressor, options),
        _ => Ok(form.into()),
    }
}

/// The codec of values that are stored one by one: those of variable width may be compressed, each for itself.
pub(crate) fn choose_large(values: &Values, options: &FieldOptions) -> Result<Codec> {
    let Data::Variable(v) = &values.data else { return Ok(Codec::default()) };
    let compressor = match options.compression {
        None if v.longest() > HUGE => Compressor { scheme: CompressionScheme::Zstd, level: None },
        // The reference cannot read LZ4 here, and writes zstd if LZ4 is requested.
        Some(Compression::General(Compressor { scheme: CompressionScheme::Lz4, .. })) => {
            Compressor { scheme: CompressionScheme::Zstd, level: None }
        }
        Some(Compression::General(compressor)) => compressor,
        _ => return Ok(Codec::default()),
    };
    let (mut before, mut after) = (0, 0);
    let (mut bytes, mut scratch) = (Vec::new(), Vec::new());
    for at in (0..values.len()).step_by((values.len() / SAMPLES).max(1)).take(SAMPLES) {
        let sample = v.value_bytes(at, 1).min(HUGE).size();
        bytes.clear();
        compressor.append(v.bytes.slice(v.start(at), sample, &mut scratch), &mut bytes)?;
        before += sample;
        after += bytes.len();
    }
    let compressor = Some(compressor).filter(|_| after * 100 < before * WORTHWHILE);
    Ok(Codec { form: Form::Plain, compressor, symbols: None })
}

/// The smallest of a form alone, compressed, and planes compressed, by what they make of a sample.
fn compressed(values: &Values, form: Form, compressor: Compressor, options: &FieldOptions) -> Result<Codec> {
    let plain = Codec::from(form);
    let mut forms = vec![form];
    if let Data::Fixed { width: 4 | 8, .. } = &values.data {
        match options.planes {
            Some(true) => forms = vec![Form::Planes],
            Some(false) => {}
            None => forms.push(Form::Planes),
        }
    }
    let mut best = (sample(values, &plain)?, plain);
    for form in forms {
        let codec = Codec { form, compressor: Some(compressor), symbols: None };
        let size = sample(values, &codec)?;
        if size * 100 < best.0 * WORTHWHILE {
            best = (size, codec);
        }
    }
    Ok(best.1)
}

/// Bytes of some chunks from all over the page.
fn sample(values: &Values, codec: &Codec) -> Result<usize> {
    let total = values.len();
    let len = total.min(GROUP);
    let mut encoder = Encoder::new(values, codec);
    let (mut out, mut sizes) = (Vec::new(), Vec::new());
    let chunks = SAMPLES.min(total.div_ceil(len.max(1)));
    for chunk in 0..chunks {
        let at = (total - len) / (chunks - 1).max(1) * chunk;
        encoder.put(at, len, &mut out, &mut sizes)?;
    }
    Ok(sizes.iter().sum())
}

/// Properties of integers.
#[derive(Debug, Clone, Copy, Default)]
struct Statistics {
    values: usize,
    /// Bytes of the values packed.
    packed: usize,
    /// Values that differ from the one before.
    changes: usize,
}

impl Statistics {
    fn runs(&self) -> usize {
        self.changes + self.values / RUN
    }
}

/// Looks at all groups of a small page and at every so many of a large one.
fn measure<T: Pack>(bytes: &Rope) -> Statistics {
    let total = bytes.len() / T::BYTES;
    let every = (total.div_ceil(GROUP) / MEASURED).max(1);
    let mut found = Statistics::default();
    let mut scratch = Vec::new();
    let mut last = None;
    for start in (0..total).step_by(GROUP * every) {
        let group = bytes.slice(start * T::BYTES, GROUP * T::BYTES, &mut scratch);
        let values = T::iter(group);
        found.values += values.len();
        found.packed += inline_bytes::<T>(T::width(group)) + CHUNK;
        found.changes += values.clone().zip(values.clone().skip(1)).filter(|(a, b)| a != b).count();
        found.changes += usize::from(last != values.clone().next());
        last = values.last();
    }
    found
}

/// Bytes of 64-bit integers in their smallest form, and their runs, about.
pub(crate) fn size_of_integers(bytes: &Rope, options: &FieldOptions) -> (usize, usize) {
    let found = measure::<u64>(bytes);
    let scale = |part: usize| part * (bytes.len() / 8) / found.values.max(1);
    (scale(integers::<u64>(&found, options).1), scale(found.runs()))
}

/// The smallest form and its bytes.
fn integers<T: Pack>(found: &Statistics, options: &FieldOptions) -> (Form, usize) {
    let plain = found.values * T::BYTES;
    let (mut form, mut best) = (Form::Plain, plain);
    let smaller = |bytes: usize, best: usize| bytes * 100 < best * WORTHWHILE;
    if smaller(found.packed, best) {
        (form, best) = (Form::Inline, found.packed);
    }
    let runs = found.runs();
    let runs_bytes = runs * (T::BYTES + 1) + found.values.div_ceil(2048) * (CHUNK + 8);
    if smaller(runs_bytes, best) && is_share(runs, found.values, options.runs_threshold) {
        (form, best) = (Form::Runs, runs_bytes);
    }
    (form, best)
}

/// Whether `part` of `total` is a smaller share than this.
#[expect(clippy::cast_precision_loss, reason = "a rough comparison")]
pub(crate) fn is_share(part: usize, total: usize, share: f64) -> bool {
    (part as f64) < total as f64 * share
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_buffer::Buffer;

    use crate::writer::tests::Random;

    fn of_numbers(values: impl Iterator<Item = u32>) -> Values {
        let bytes: Vec<u8> = values.flat_map(u32::to_le_bytes).collect();
        // In several parts, so that groups cross them.
        let parts = bytes.chunks(5000 * 4).map(Buffer::from).collect();
        Values::fixed(4, Rope::new(parts))
    }

    fn form(values: impl Iterator<Item = u32>) -> Form {
        choose(&of_numbers(values), &FieldOptions::default()).unwrap().form
    }

    #[test]
    fn integers_get_the_smallest_form() {
        assert_eq!(form((0..20_000).map(|i| i * 31 % 1000)), Form::Inline);
        assert_eq!(form(0..20_000), Form::Inline);
        assert_eq!(form((0..20_000u32).map(|i| i.wrapping_mul(0x9e37_79b9))), Form::Plain);
        assert_eq!(form((0..20_000).map(|i| (i / 100 * 7919) << 8)), Form::Runs);
        assert_eq!(form((0..20_000).map(|i| i / 2000)), Form::Runs);
        assert_eq!(form(0..20), Form::Plain);
    }

    #[test]
    fn large_values_in_some_groups_only() {
        assert_eq!(form((0..20_000).map(|i| if i > 18_000 { u32::MAX - i } else { i % 7 })), Form::Inline);
    }

    #[test]
    fn options_of_the_field_decide() {
        let runs = || of_numbers((0..20_000).map(|i| (i / 100 * 7919) << 8));
        let choose = |values: &Values, options: FieldOptions| {
            let codec = choose(values, &options).unwrap();
            (codec.form, codec.compressor.is_some())
        };
        let none = FieldOptions { compression: Some(Compression::None), ..FieldOptions::default() };
        assert_eq!(choose(&runs(), none), (Form::Plain, false));
        let few = FieldOptions { runs_threshold: 0.0, ..FieldOptions::default() };
        assert_eq!(choose(&runs(), few), (Form::Inline, false));
        for scheme in [CompressionScheme::Lz4, CompressionScheme::Zstd] {
            let general = Some(Compression::General(Compressor { scheme, level: None }));
            let with = |planes| FieldOptions { compression: general, planes, ..FieldOptions::default() };
            let scattered = |i: u32| i.wrapping_mul(0x9e37_79b9);
            let slow = || of_numbers((0..20_000).map(|i| scattered(i) >> 24 | (i % 2) << 31 | 0x1234_5600));
            assert_eq!(choose(&slow(), with(None)), (Form::Planes, true));
            assert_eq!(choose(&slow(), with(Some(true))), (Form::Planes, true));
            assert_eq!(choose(&slow(), with(Some(false))).0, Form::Plain);
            let mut random = Random(7);
            let noise = of_numbers((0..20_000).map(|_| u32::try_from(random.below(1 << 31) << 1).unwrap()));
            assert_eq!(choose(&noise, with(None)), (Form::Plain, false));
        }
    }
}
