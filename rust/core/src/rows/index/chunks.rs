//! A sorted list that versions share: pieces of some hundred items, which are cheap to clone.
//!
//! A change makes new pieces of those that it falls into and shares the others. Pieces have at most twice their target
//! length; a list that has become much too fine is packed again.

/// A piece.
pub(super) trait Chunk: Clone {
    /// What it holds.
    type Item: Clone;
    /// Items in a new piece.
    const TARGET: usize;

    /// Items are in the order of their keys.
    fn key(item: &Self::Item) -> Key;
    /// Packs some of the first items, at least one, and says how many.
    fn pack(items: &[Self::Item]) -> (Self, usize);
    /// Appends its items.
    fn unpack(&self, items: &mut Vec<Self::Item>);
    /// Bytes it takes beyond itself.
    fn memory(&self) -> usize;
    /// Number of items.
    fn len(&self) -> usize;
}

/// The smallest id and an address.
pub(super) type Key = (u64, u64);

/// A sorted list of items.
#[derive(Debug)]
pub(super) struct Chunks<C> {
    chunks: Vec<C>,
    /// Key of the first item of each piece.
    fences: Vec<Key>,
    items: usize,
    bytes: usize,
}

impl<C: Chunk> Chunks<C> {
    fn empty() -> Self {
        Self { chunks: Vec::new(), fences: Vec::new(), items: 0, bytes: 0 }
    }

    /// A list of sorted items.
    pub(super) fn new(items: &[C::Item]) -> Self {
        let mut list = Self::empty();
        list.pack(items);
        list
    }

    pub(super) fn chunks(&self) -> &[C] {
        &self.chunks
    }

    pub(super) fn memory(&self) -> usize {
        self.bytes
    }

    /// Number of pieces whose first key passes the test, which those of the first pieces do.
    ///
    /// The search starts where the last one ended: for ascending ids the piece is close by.
    pub(super) fn count_first(&self, hint: &mut usize, test: impl Fn(Key) -> bool) -> usize {
        let mut low = (*hint).min(self.fences.len());
        if low > 0 && !self.fences.get(low - 1).is_some_and(|fence| test(*fence)) {
            low = 0;
        }
        let mut step = 1;
        while self.fences.get(low + step - 1).is_some_and(|fence| test(*fence)) {
            low += step;
            step *= 2;
        }
        let next = self.fences.get(low..self.fences.len().min(low + step)).unwrap_or_default();
        *hint = low + next.partition_point(|fence| test(*fence));
        *hint
    }

    /// The key of the first item of a piece.
    pub(super) fn first_key(&self, piece: usize) -> Option<Key> {
        self.fences.get(piece).copied()
    }

    fn pack(&mut self, mut items: &[C::Item]) {
        while !items.is_empty() {
            // Equal pieces rather than a short one at the end.
            let size = if items.len() <= 2 * C::TARGET {
                items.len()
            } else {
                items.len().div_ceil(items.len().div_ceil(C::TARGET))
            };
            let (chunk, packed) = C::pack(items.get(..size).unwrap_or(items));
            self.push(items.first().map(C::key).unwrap_or_default(), chunk);
            items = items.get(packed.max(1)..).unwrap_or_default();
        }
    }

    fn push(&mut self, fence: Key, chunk: C) {
        self.items += chunk.len();
        self.bytes += chunk.memory() + size_of::<Key>() + size_of::<C>();
        self.fences.push(fence);
        self.chunks.push(chunk);
    }

    /// The list without the items of some keys and with new items, both sorted.
    pub(super) fn apply(&self, mut removed: &[Key], mut added: &[C::Item]) -> Self {
        if self.chunks.is_empty() {
            return Self::new(added);
        }
        let mut list = Self::empty();
        let (mut old, mut merged) = (Vec::new(), Vec::new());
        for (at, (chunk, &fence)) in self.chunks.iter().zip(&self.fences).enumerate() {
            let next = self.fences.get(at + 1);
            let here = |key: Key| next.is_none_or(|next| key < *next);
            let (gone, later) = split(removed, |key| here(*key));
            let (new, newer) = split(added, |item| here(C::key(item)));
            (removed, added) = (later, newer);
            if gone.is_empty() && new.is_empty() {
                list.push(fence, chunk.clone());
                continue;
            }
            old.clear();
            merged.clear();
            chunk.unpack(&mut old);
            merge::<C>(&old, gone, new, &mut merged);
            list.pack(&merged);
        }
        if list.chunks.len() > 16 + 4 * (list.items / C::TARGET) {
            let mut items = Vec::with_capacity(list.items);
            list.chunks.iter().for_each(|chunk| chunk.unpack(&mut items));
            return Self::new(&items);
        }
        list
    }
}

/// The first items that pass the test, and the rest. Most often there is none, or the list is short.
fn split<T>(items: &[T], test: impl Fn(&T) -> bool) -> (&[T], &[T]) {
    match items.first() {
        Some(first) if test(first) => {
            items.split_at_checked(items.partition_point(test)).unwrap_or((items, &[]))
        }
        _ => (&[], items),
    }
}

fn merge<C: Chunk>(old: &[C::Item], mut removed: &[Key], mut added: &[C::Item], out: &mut Vec<C::Item>) {
    for item in old {
        let key = C::key(item);
        removed = split(removed, |gone| *gone < key).1;
        if removed.first() == Some(&key) {
            continue;
        }
        let (before, after) = split(added, |new| C::key(new) < key);
        out.extend_from_slice(before);
        out.push(item.clone());
        added = after;
    }
    out.extend_from_slice(added);
}
