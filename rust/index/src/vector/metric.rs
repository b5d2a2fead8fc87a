//! What distance means.

use std::fmt;
use std::str::FromStr;

use arrow_schema::DataType;
use pennon_core::Error;

/// A measure of distance between two vectors; less is nearer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Metric {
    /// The sum of squared differences, not its root.
    L2,
    /// One minus the cosine of the angle; a vector of length zero has none.
    Cosine,
    /// One minus the inner product.
    Dot,
    /// The number of bits that differ.
    Hamming,
}

impl Metric {
    /// The name in files.
    pub fn name(self) -> &'static str {
        match self {
            Self::L2 => "l2",
            Self::Cosine => "cosine",
            Self::Dot => "dot",
            Self::Hamming => "hamming",
        }
    }

    /// Its number in the details of an index.
    pub fn number(self) -> u32 {
        match self {
            Self::L2 => 0,
            Self::Cosine => 1,
            Self::Dot => 2,
            Self::Hamming => 3,
        }
    }

    /// The metric with this number in the details of an index.
    pub fn numbered(number: u32) -> Option<Self> {
        [Self::L2, Self::Cosine, Self::Dot, Self::Hamming].get(usize::try_from(number).ok()?).copied()
    }

    /// The metric of vectors of these elements that nothing else is said of.
    pub fn natural(element: &DataType) -> Self {
        if Self::Hamming.supports(element) { Self::Hamming } else { Self::L2 }
    }

    /// Whether it is defined for vectors of these elements: floats, and for bits bytes.
    pub fn supports(self, element: &DataType) -> bool {
        match self {
            Self::Hamming => *element == DataType::UInt8,
            _ => matches!(element, DataType::Float16 | DataType::Float32 | DataType::Float64),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = Error;

    /// Names in any case; `euclidean` is `l2`. Errors: `InvalidInput`.
    fn from_str(text: &str) -> Result<Self, Error> {
        match text.to_ascii_lowercase().as_str() {
            "l2" | "euclidean" => Ok(Self::L2),
            "cosine" => Ok(Self::Cosine),
            "dot" => Ok(Self::Dot),
            "hamming" => Ok(Self::Hamming),
            _ => Err(Error::invalid_input(format!(
                "Metric type '{text}' is not supported, expected l2, cosine, dot or hamming"
            ))),
        }
    }
}
