//! What is asked of a value, by filters, statistics and indices alike.

use pennon_datafile::statistics::Bound;

/// What is asked of a value. Only [`ValueTest::IsNull`] holds for null.
///
/// Floats are compared in their total order, in which -0.0 is below 0.0: who wants them equal asks for both.
#[derive(Debug, Clone, PartialEq)]
pub enum ValueTest {
    /// It is null.
    IsNull,
    /// It is not null.
    NotNull,
    /// It is a float that is not a number.
    IsNan,
    /// It is a number.
    NotNan,
    /// It is this one.
    Eq(Bound),
    /// It is another one.
    NotEq(Bound),
    /// It is below.
    Less(Bound),
    /// It is below or this one.
    LessEq(Bound),
    /// It is above.
    Greater(Bound),
    /// It is above or this one.
    GreaterEq(Bound),
    /// It is one of these, which ascend.
    OneOf(Vec<Bound>),
    /// It is none of these, which ascend.
    NoneOf(Vec<Bound>),
    /// It begins with these bytes.
    Prefix(Vec<u8>),
    /// A text that has these bytes somewhere.
    Contains(Vec<u8>),
    /// A list that has one of these items; `None` is a null item.
    HasAny(Vec<Option<Bound>>),
    /// A list that has all of these items.
    HasAll(Vec<Option<Bound>>),
    /// A list, not null, that has none of these items.
    HasNone(Vec<Option<Bound>>),
    /// A list, not null, that lacks one of these items.
    LacksOne(Vec<Option<Bound>>),
}

impl ValueTest {
    /// Whether the values that pass are those of an interval, or of some.
    pub fn is_of_intervals(&self) -> bool {
        match self {
            Self::IsNan
            | Self::NotNan
            | Self::Eq(_)
            | Self::Less(_)
            | Self::LessEq(_)
            | Self::Greater(_)
            | Self::GreaterEq(_)
            | Self::OneOf(_)
            | Self::Prefix(_) => true,
            Self::IsNull
            | Self::NotNull
            | Self::NotEq(_)
            | Self::NoneOf(_)
            | Self::Contains(_)
            | Self::HasAny(_)
            | Self::HasAll(_)
            | Self::HasNone(_)
            | Self::LacksOne(_) => false,
        }
    }

    /// Whether it is of intervals, or of all values but those of some: several such tests are searched for at once.
    pub fn is_combinable(&self) -> bool {
        self.is_of_intervals() || matches!(self, Self::NotEq(_) | Self::NoneOf(_))
    }

    /// Whether it is about the items of lists.
    pub fn is_of_items(&self) -> bool {
        matches!(self, Self::HasAny(_) | Self::HasAll(_) | Self::HasNone(_) | Self::LacksOne(_))
    }
}
