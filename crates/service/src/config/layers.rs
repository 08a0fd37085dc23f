//! Merging the layers of the configuration (defaults < file < environment < flags) as TOML tables.

use std::collections::BTreeMap;

use toml::{Table, Value};
use unsnap_settings::LimitsTable;

use super::{
    error::ConfigError,
    settings::{Settings, Target},
};

/// Prefix of environment variables that are settings: `UNPACKD_<SECTION>_<KEY>`.
pub const VARIABLE_PREFIX: &str = "UNPACKD_";

/// Least similarity (0 to 1, Jaro-Winkler) at which a known name is suggested for an unknown one. A
/// guess.
const LIKENESS_MIN: f64 = 0.7;

/// A setting from outside the file: `(section, key)` and the text of its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// Section, such as "archives".
    pub section: &'static str,
    /// Key, such as "directory".
    pub key: &'static str,
    /// Text of the value; list items are separated by commas.
    pub value: String,
}

/// Returns all keys by section; `target` stands for each of its tables.
fn known() -> BTreeMap<String, Vec<String>> {
    let keys = |table: Table| table.keys().cloned().collect::<Vec<String>>();
    let mut known: BTreeMap<String, Vec<String>> = defaults()
        .into_iter()
        .filter_map(|(section, value)| match value {
            Value::Table(table) => Some((section, keys(table))),
            _ => None,
        })
        .collect();
    known.insert("limits".to_owned(), LimitsTable::KEYS.map(str::to_owned).to_vec());
    let target = Table::try_from(Target::default()).unwrap_or_default();
    known.insert("target".to_owned(), keys(target));
    known
}

fn defaults() -> Table {
    Table::try_from(Settings::default()).unwrap_or_default()
}

/// Parses a file's text and refuses unknown sections and keys.
pub(super) fn parse(text: &str) -> Result<Table, ConfigError> {
    let table: Table = text.parse().map_err(|error| ConfigError(format!("{error}")))?;
    let known = known();
    for (section, value) in &table {
        let Some(keys) = known.get(section) else {
            return Err(unknown("table", &format!("[{section}]"), section, known.keys()));
        };
        let tables: Vec<&Table> = match (section.as_str(), value) {
            ("target", Value::Array(targets)) => {
                targets.iter().filter_map(Value::as_table).collect()
            }
            ("target", _) => {
                return Err(ConfigError("each target must be written as [[target]]".to_owned()));
            }
            (_, Value::Table(table)) => vec![table],
            (_, _) => return Err(ConfigError(format!("{section} must be a table: [{section}]"))),
        };
        for key in tables.into_iter().flat_map(Table::keys) {
            if !keys.contains(key) {
                return Err(unknown("key", &format!("{key} in [{section}]"), key, keys.iter()));
            }
        }
    }
    Ok(table)
}

fn unknown<'k>(
    what: &str,
    shown: &str,
    name: &str,
    known: impl Iterator<Item = &'k String>,
) -> ConfigError {
    let nearest = known
        .map(|known| (strsim::jaro_winkler(name, known), known))
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .filter(|(likeness, _)| *likeness >= LIKENESS_MIN);
    let hint = nearest.map_or_else(String::new, |(_, known)| format!("; did you mean {known}?"));
    ConfigError(format!("unknown {what} {shown}{hint}"))
}

/// Returns the settings among the environment variables. Refuses an unknown variable with the
/// prefix: its author relies on it.
pub(super) fn of_environment(
    variables: impl Iterator<Item = (String, String)>,
) -> Result<Vec<(String, String, String)>, ConfigError> {
    let mut known = known();
    known.remove("target");
    let names: BTreeMap<String, (String, String)> = known
        .into_iter()
        .flat_map(|(section, keys)| keys.into_iter().map(move |key| (section.clone(), key)))
        .map(|(section, key)| {
            let name = format!("{VARIABLE_PREFIX}{section}_{key}");
            (name.to_ascii_uppercase().replace('-', "_"), (section, key))
        })
        .collect();
    variables
        .filter(|(name, _)| name.starts_with(VARIABLE_PREFIX))
        .map(|(name, value)| match names.get(&name) {
            Some((section, key)) => Ok((section.clone(), key.clone(), value)),
            None => Err(unknown("variable", &name, &name, names.keys())),
        })
        .collect()
}

/// Overrides one setting in the table.
pub(super) fn set(
    table: &mut Table,
    section: &str,
    key: &str,
    text: &str,
) -> Result<(), ConfigError> {
    let defaults = defaults();
    let default = defaults.get(section).and_then(|section| section.get(key));
    let refuse = |wanted: &str| {
        ConfigError(format!("{key} of [{section}] must be {wanted}, not \"{text}\""))
    };
    let value = match default {
        Some(Value::Boolean(_)) => {
            Value::Boolean(text.parse().map_err(|_| refuse("true or false"))?)
        }
        Some(Value::Array(_)) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        // Sizes may have units.
        Some(Value::Integer(_)) | None => {
            text.parse().map_or_else(|_| Value::String(text.to_owned()), Value::Integer)
        }
        Some(_) => Value::String(text.to_owned()),
    };
    let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    if let Value::Table(section) = section {
        section.insert(key.to_owned(), value);
    }
    Ok(())
}
