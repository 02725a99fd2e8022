//! A Parquet table: columns of rows that are gathered and written a group at a time.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use parquet::basic::{Compression, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::parser::parse_message_type;

/// Rows that are held until they are written together.
const GROUP_ROWS: usize = 64 * 1024;
/// A group is written earlier where its texts are so long together, in bytes.
const GROUP_BYTES: usize = 64 << 20;

/// What a row has in a column.
pub(super) enum Value {
    Null,
    Int(i64),
    Bool(bool),
    Text(Arc<str>),
}

impl Value {
    /// A count, as far as a column holds it.
    pub(super) fn count(count: u64) -> Self {
        Self::Int(i64::try_from(count).unwrap_or(i64::MAX))
    }

    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self::Text(Arc::from(text.as_ref()))
    }

    pub(super) fn option<T>(value: Option<T>, of: impl FnOnce(T) -> Self) -> Self {
        value.map_or(Self::Null, of)
    }
}

/// A column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Type {
    Int,
    Bool,
    Text,
}

/// A column of rows that are not written yet. All columns may be null.
enum Column {
    Int(Vec<Option<i64>>),
    Bool(Vec<Option<bool>>),
    Text(Vec<Option<Arc<str>>>),
}

impl Column {
    fn new(kind: Type) -> Self {
        match kind {
            Type::Int => Self::Int(Vec::new()),
            Type::Bool => Self::Bool(Vec::new()),
            Type::Text => Self::Text(Vec::new()),
        }
    }
}

/// A table that is being written.
pub(super) struct Table {
    path: PathBuf,
    writer: SerializedFileWriter<File>,
    columns: Vec<Column>,
    rows: usize,
    text_bytes: usize,
}

impl Table {
    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn create(path: &Path, columns: &[(&str, Type)]) -> anyhow::Result<Self> {
        let fields: String = columns
            .iter()
            .map(|(name, kind)| match kind {
                Type::Int => format!("OPTIONAL INT64 {name}; "),
                Type::Bool => format!("OPTIONAL BOOLEAN {name}; "),
                Type::Text => format!("OPTIONAL BYTE_ARRAY {name} (UTF8); "),
            })
            .collect();
        let schema = Arc::new(parse_message_type(&format!("message rows {{ {fields} }}"))?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::try_new(1)?))
            .build();
        let create = || format!("cannot write {}", path.display());
        let file = super::create(path).with_context(create)?;
        Ok(Self {
            path: path.to_owned(),
            writer: SerializedFileWriter::new(file, schema, Arc::new(properties))
                .with_context(create)?,
            columns: columns.iter().map(|(_, kind)| Column::new(*kind)).collect(),
            rows: 0,
            text_bytes: 0,
        })
    }

    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn add(&mut self, row: impl IntoIterator<Item = Value>) -> anyhow::Result<()> {
        for (column, value) in self.columns.iter_mut().zip(row) {
            match (column, value) {
                (Column::Int(cells), Value::Int(number)) => cells.push(Some(number)),
                (Column::Int(cells), _) => cells.push(None),
                (Column::Bool(cells), Value::Bool(is)) => cells.push(Some(is)),
                (Column::Bool(cells), _) => cells.push(None),
                (Column::Text(cells), Value::Text(text)) => {
                    self.text_bytes += text.len();
                    cells.push(Some(text));
                }
                (Column::Text(cells), _) => cells.push(None),
            }
        }
        self.rows += 1;
        if self.rows >= GROUP_ROWS || self.text_bytes >= GROUP_BYTES {
            self.write_group()?;
        }
        Ok(())
    }

    /// # Errors
    /// The system's, with the file's name.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        if self.rows > 0 {
            self.write_group()?;
        }
        let closed = self.writer.close();
        closed.with_context(|| format!("cannot write {}", self.path.display()))?;
        Ok(())
    }

    fn write_group(&mut self) -> anyhow::Result<()> {
        let path = self.path.clone();
        self.write_columns()
            .with_context(|| format!("cannot write {}", path.display()))?;
        self.rows = 0;
        self.text_bytes = 0;
        Ok(())
    }

    fn write_columns(&mut self) -> anyhow::Result<()> {
        let mut group = self.writer.next_row_group()?;
        for column in &mut self.columns {
            let mut writer = group
                .next_column()?
                .context("the schema has fewer columns than the table")?;
            match column {
                Column::Int(cells) => write::<Int64Type>(&mut writer, cells.drain(..))?,
                Column::Bool(cells) => write::<BoolType>(&mut writer, cells.drain(..))?,
                Column::Text(cells) => {
                    let texts = cells
                        .drain(..)
                        .map(|cell| cell.map(|text| ByteArray::from(&*text)));
                    write::<ByteArrayType>(&mut writer, texts)?;
                }
            }
            writer.close()?;
        }
        group.close()?;
        Ok(())
    }
}

fn write<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    cells: impl Iterator<Item = Option<T::T>>,
) -> anyhow::Result<()> {
    let mut values = Vec::new();
    let there: Vec<i16> = cells
        .map(|cell| {
            let is_there = i16::from(cell.is_some());
            values.extend(cell);
            is_there
        })
        .collect();
    writer
        .typed::<T>()
        .write_batch(&values, Some(&there), None)?;
    Ok(())
}
