//! Finding fields by path and cutting a schema down to some of them.
//!
//! A path is the names from the top joined by dots: `b.x`, and `l.item.x` through a list. A name that itself
//! contains a dot or a backtick is written in backticks, a backtick inside doubled: `` `a.b`.c ``. Names are
//! compared exactly.

use super::{Field, Schema};
use crate::{Error, FieldId, Result};

/// Valid fields an error message lists at most.
const LISTED: usize = 20;

impl Schema {
    /// The field at a path.
    pub fn field_by_path(&self, path: &str) -> Option<&Field> {
        if let Some(field) = self.field(path) {
            return Some(field);
        }
        let names = path_names(path)?;
        let (first, rest) = names.split_first()?;
        rest.iter().try_fold(self.field(first)?, |field, name| field.child(name))
    }

    /// The column of that path, which is its name, in back ticks or not; none if the path leads to a member.
    pub fn column_by_path(&self, path: &str) -> Option<&Field> {
        let found = self.field_by_path(path)?;
        self.fields.iter().find(|column| column.id == found.id)
    }

    /// The field of that id.
    pub fn field_by_id(&self, id: FieldId) -> Option<&Field> {
        self.depth_first().find(|f| f.id == id)
    }

    /// The path of the field of that id, quoted so that [`Self::field_by_path`] finds it.
    pub fn path_of(&self, id: FieldId) -> Option<String> {
        fn find(fields: &[Field], id: FieldId, parent: &str) -> Option<String> {
            fields.iter().find_map(|field| {
                let path = join(parent, &field.name);
                if field.id == id { Some(path) } else { find(&field.children, id, &path) }
            })
        }
        find(&self.fields, id, "")
    }

    /// The schema of some columns: names or paths of nested fields.
    ///
    /// Top-level fields are in the order of the paths that first name them; parts of one field that several paths
    /// name are one field, its children in the same order. Ids and metadata are kept. Errors: `InvalidInput`
    /// for a path without a field, see [`unknown_field`].
    ///
    /// ```
    /// use arrow_schema::{DataType, Field, Schema as ArrowSchema};
    /// use pennon_core::schema::Schema;
    ///
    /// let point = DataType::Struct(vec![Field::new("x", DataType::Int8, true), Field::new("y", DataType::Int8, true)].into());
    /// let schema = Schema::from_arrow(&ArrowSchema::new(vec![
    ///     Field::new("a", DataType::Int64, true),
    ///     Field::new("p", point, true),
    /// ]))?;
    /// let part = schema.project(&["p.y".to_string(), "a".to_string()])?;
    /// assert_eq!(part.fields[0].children[0].name, "y");
    /// assert_eq!(schema.project(&["b".to_string()]).unwrap_err().to_string(), "No field named b. Valid fields are a, p.");
    /// # Ok::<(), pennon_core::Error>(())
    /// ```
    pub fn project(&self, columns: &[String]) -> Result<Self> {
        let mut parts: Vec<(&Field, WantedFields)> = Vec::new();
        for column in columns {
            let names = self.resolve(column)?;
            let Some((first, rest)) = names.split_first() else { continue };
            let at = match parts.iter().position(|(f, _)| std::ptr::eq(*f, *first)) {
                Some(at) => at,
                None => {
                    parts.push((*first, WantedFields::Children(Vec::new())));
                    parts.len() - 1
                }
            };
            if let Some((_, part)) = parts.get_mut(at) {
                part.add(rest);
            }
        }
        let fields = parts.iter().map(|(field, part)| part.cut(field)).collect();
        Ok(Self { fields, metadata: self.metadata.clone() })
    }

    /// The fields along a path, top first.
    fn resolve(&self, path: &str) -> Result<Vec<&Field>> {
        if let Some(field) = self.field(path) {
            return Ok(vec![field]);
        }
        let names = path_names(path)
            .ok_or_else(|| Error::invalid_input(format!("`{path}` is not a column name or path")))?;
        let (mut level, mut parent) = (&self.fields, String::new());
        let mut found = Vec::with_capacity(names.len());
        for name in &names {
            let here = join(&parent, name);
            let Some(field) = level.iter().find(|f| f.name == *name) else {
                let valid: Vec<String> = level.iter().map(|f| join(&parent, &f.name)).collect();
                return Err(unknown_field(&here, valid.iter().map(String::as_str)));
            };
            found.push(field);
            level = &field.children;
            parent = here;
        }
        Ok(found)
    }
}

/// What is wanted of a field.
enum WantedFields<'a> {
    Whole,
    Children(Vec<(&'a Field, WantedFields<'a>)>),
}

impl<'a> WantedFields<'a> {
    fn add(&mut self, path: &[&'a Field]) {
        let Some((first, rest)) = path.split_first() else {
            *self = Self::Whole;
            return;
        };
        let Self::Children(children) = self else { return };
        match children.iter_mut().find(|(f, _)| std::ptr::eq(*f, *first)) {
            Some((_, part)) => part.add(rest),
            None => {
                let mut part = Self::Children(Vec::new());
                part.add(rest);
                children.push((*first, part));
            }
        }
    }

    fn cut(&self, field: &Field) -> Field {
        let Self::Children(wanted) = self else { return field.clone() };
        let children = wanted.iter().map(|(child, part)| part.cut(child)).collect();
        Field {
            children,
            name: field.name.clone(),
            logical_type: field.logical_type.clone(),
            metadata: field.metadata.clone(),
            ..*field
        }
    }
}

/// The error for a name that is not among the valid ones: `No field named nope. Valid fields are a, b.`
///
/// A valid name that differs by case or by at most two letters is suggested.
pub fn unknown_field<'a>(name: &str, valid: impl IntoIterator<Item = &'a str>) -> Error {
    let valid: Vec<&str> = valid.into_iter().collect();
    let mut message = format!("No field named {name}.");
    if let Some(similar) = nearest(name, &valid) {
        message.push_str(&format!(" Did you mean {similar}?"));
    }
    if !valid.is_empty() {
        let listed: Vec<&str> = valid.iter().take(LISTED).copied().collect();
        message.push_str(&format!(" Valid fields are {}", listed.join(", ")));
        if valid.len() > LISTED {
            message.push_str(&format!(" and {} more", valid.len() - LISTED));
        }
        message.push('.');
    }
    Error::invalid_input(message)
}

impl Schema {
    /// [`unknown_field`], of a name that no column has.
    pub fn unknown_column(&self, name: &str) -> Error {
        unknown_field(name, self.fields.iter().map(|field| field.name.as_str()))
    }
}

/// The valid name that is most like the wrong one, if any is near.
fn nearest<'a>(name: &str, valid: &[&'a str]) -> Option<&'a str> {
    let lower = name.to_lowercase();
    // A name of three letters has too many neighbours at distance two.
    let limit = if name.chars().count() > 3 { 2 } else { 1 };
    valid
        .iter()
        .map(|v| (edit_distance(&lower, &v.to_lowercase()), *v))
        .filter(|(d, v)| *d <= limit && *d < v.chars().count().max(1))
        .min_by_key(|(d, _)| *d)
        .map(|(_, v)| v)
}

/// Number of single-letter changes between two texts (Levenshtein).
///
/// ```
/// assert_eq!(pennon_core::schema::edit_distance("colour", "color"), 1);
/// ```
pub fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut left = i + 1;
        let mut next = vec![left];
        for ((y, diagonal), above) in b.iter().zip(&row).zip(row.iter().skip(1)) {
            left = (diagonal + usize::from(x != *y)).min(above + 1).min(left + 1);
            next.push(left);
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

/// A path one step longer, the name in backticks where it needs them.
pub(super) fn join(parent: &str, name: &str) -> String {
    let needs_quotes = !parent.is_empty() && name.contains('.') || name.contains('`');
    let name = if needs_quotes { format!("`{}`", name.replace('`', "``")) } else { name.to_owned() };
    if parent.is_empty() { name } else { format!("{parent}.{name}") }
}

/// The names of a path; `None` if its backticks do not pair up or text touches them.
pub fn path_names(path: &str) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let mut rest = path.chars().peekable();
    loop {
        let mut name = String::new();
        if rest.next_if_eq(&'`').is_some() {
            loop {
                match rest.next()? {
                    '`' if rest.next_if_eq(&'`').is_some() => name.push('`'),
                    '`' => break,
                    c => name.push(c),
                }
            }
        } else {
            while let Some(c) = rest.next_if(|c| *c != '.' && *c != '`') {
                name.push(c);
            }
        }
        names.push(name);
        match rest.next() {
            None => return Some(names),
            Some('.') => {}
            Some(_) => return None,
        }
    }
}
