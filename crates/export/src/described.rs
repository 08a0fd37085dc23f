//! What a manifest describes.

use std::collections::BTreeSet;

use unsnap_table::{AccountColumns, KeyForm, Schema, TableKind};

use crate::{
    Manifest, Problem, TableFacts,
    manifest::{BASE58, BINARY, VERSION},
};

/// Largest manifest. One of a million files is smaller.
pub(crate) const MANIFEST_BYTES_MAX: usize = 256 << 20;

/// The tables of an export, in the order of its manifest.
pub(crate) struct Described {
    pub tables: Vec<(TableKind, Schema)>,
    pub columns: AccountColumns,
}

/// Parses a manifest.
pub(crate) fn parse(text: &[u8]) -> Result<Manifest, Box<Problem>> {
    let wrong = |reason: serde_json::Error| Box::new(Problem::Manifest(reason.to_string()));
    let value: serde_json::Value = serde_json::from_slice(text).map_err(wrong)?;
    match value["version"].as_u64() {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => return Err(Problem::Version(version).into()),
        None => return Err(Problem::Manifest("it has no version".to_owned()).into()),
    }
    serde_json::from_value(value).map_err(wrong)
}

impl Described {
    /// Returns the tables that a manifest describes, if they are tables that an export can have.
    pub fn by(manifest: &Manifest) -> Result<Self, Box<Problem>> {
        let wrong = |reason: String| Err(Problem::Manifest(reason).into());
        let keys = match manifest.keys.as_str() {
            BINARY => KeyForm::Binary,
            BASE58 => KeyForm::Base58,
            other => return wrong(format!("there are no keys of the form {other:?}")),
        };
        let has = |name: &str| {
            let mut columns = manifest.tables.iter().flat_map(|table| &table.columns);
            columns.any(|column| column == name)
        };
        let columns = AccountColumns { keys, data: has("data"), provenance: has("storage_id") };
        let mut tables = Vec::new();
        for TableFacts { name, columns: named, files, .. } in &manifest.tables {
            let Some(kind) = TableKind::ALL.into_iter().find(|kind| kind.name() == name) else {
                return wrong(format!("there is no table {name:?}"));
            };
            let schema = Schema::of(kind, columns);
            if !schema.columns.iter().map(|column| column.name).eq(named) {
                return wrong(format!("the table {name} has no such columns"));
            }
            if tables.iter().any(|(other, _)| *other == kind) {
                return wrong(format!("it names the table {name} twice"));
            }
            if let Some(file) = files.iter().find(|file| !is_below(name, &file.path)) {
                return wrong(format!("{:?} is not in the directory {name}", file.path));
            }
            tables.push((kind, schema));
        }
        let paths: BTreeSet<&str> = manifest.files().map(|file| file.path.as_str()).collect();
        if paths.len() != manifest.files().count() {
            return wrong("it names a file twice".to_owned());
        }
        Ok(Self { tables, columns })
    }
}

/// Returns whether a path leads to something below a directory.
fn is_below(directory: &str, path: &str) -> bool {
    let plain = |part: &str| !["", ".", ".."].contains(&part);
    let mut parts = path.split('/');
    parts.next() == Some(directory) && path.contains('/') && parts.all(plain)
}
