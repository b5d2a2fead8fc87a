//! JSON of jobs that write columns of rows that are there.

use pennon_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::super::{ColumnsWork, JoinWork};
use super::{columns_json, columns_of};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ColumnsWorkJson {
    Expressions {
        expressions: Vec<(String, String)>,
        batch_size: Option<usize>,
    },
    /// See [`columns_json`].
    Values {
        schema: String,
    },
    Join(JoinJson),
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JoinJson {
    left_on: String,
    right_on: String,
    /// See [`columns_json`].
    source: String,
}

impl TryFrom<&ColumnsWork> for ColumnsWorkJson {
    type Error = Error;

    fn try_from(work: &ColumnsWork) -> Result<Self> {
        Ok(match work {
            ColumnsWork::Expressions { expressions, batch_size } => {
                Self::Expressions { expressions: expressions.clone(), batch_size: *batch_size }
            }
            ColumnsWork::Values(schema) => Self::Values { schema: columns_json(schema)? },
            ColumnsWork::Join(join) => Self::Join(join.try_into()?),
        })
    }
}

impl TryFrom<ColumnsWorkJson> for ColumnsWork {
    type Error = Error;

    fn try_from(json: ColumnsWorkJson) -> Result<Self> {
        Ok(match json {
            ColumnsWorkJson::Expressions { expressions, batch_size } => {
                Self::Expressions { expressions, batch_size }
            }
            ColumnsWorkJson::Values { schema } => Self::Values(columns_of(&schema)?),
            ColumnsWorkJson::Join(join) => Self::Join(join.try_into()?),
        })
    }
}

impl TryFrom<&JoinWork> for JoinJson {
    type Error = Error;

    fn try_from(join: &JoinWork) -> Result<Self> {
        let JoinWork { left_on, right_on, source } = join;
        Ok(Self { left_on: left_on.clone(), right_on: right_on.clone(), source: columns_json(source)? })
    }
}

impl TryFrom<JoinJson> for JoinWork {
    type Error = Error;

    fn try_from(json: JoinJson) -> Result<Self> {
        let JoinJson { left_on, right_on, source } = json;
        Ok(Self { left_on, right_on, source: columns_of(&source)? })
    }
}
