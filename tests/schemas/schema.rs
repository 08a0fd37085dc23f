//! A schema, and what it must accept and refuse.

use std::{
    fs,
    path::{Path, PathBuf},
};

use jsonschema::Validator;
use serde_json::Value;

/// A schema of `docs/schemas`.
pub struct Schema {
    validator: Validator,
    /// Properties that may be missing, as pointers with `*` for every index.
    optional: &'static [&'static str],
}

/// Returns the root of the repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Reads the schema in a file of `docs/schemas`.
#[track_caller]
pub fn read(file: &str) -> Value {
    let path = root().join("docs/schemas").join(file);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{file}: {error}"));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"))
}

impl Schema {
    /// Reads a schema, of whose objects these properties may be missing.
    #[track_caller]
    pub fn of(file: &str, optional: &'static [&'static str]) -> Self {
        let validator = jsonschema::draft202012::new(&read(file));
        let validator = validator.unwrap_or_else(|error| panic!("{file}: {error}"));
        Self { validator, optional }
    }

    /// Panics unless the value is valid.
    #[track_caller]
    pub fn accept(&self, value: &Value) {
        let errors: Vec<String> = self
            .validator
            .iter_errors(value)
            .map(|error| format!("{} at {}", error, error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{errors:#?}\nin {value:#}");
    }

    /// Panics unless the value is valid, and is not when any of its objects has an unknown property
    /// more, or a property less.
    #[track_caller]
    pub fn hold(&self, value: &Value) {
        self.accept(value);
        let mut checked = 0;
        for pointer in objects(value) {
            let refuses = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
                let mut changed = value.clone();
                change(changed.pointer_mut(&pointer).unwrap().as_object_mut().unwrap());
                !self.validator.is_valid(&changed)
            };
            let more = refuses(&|object| drop(object.insert("surprise".to_owned(), Value::Null)));
            assert!(more, "{pointer:?} may have an unknown property in {value:#}");
            for key in value.pointer(&pointer).unwrap().as_object().unwrap().keys() {
                let one = format!("{pointer}/{key}");
                if !self.optional.contains(&anywhere(&one).as_str()) {
                    let less = refuses(&|object| drop(object.remove(key)));
                    assert!(less, "{one} may be missing in {value:#}");
                }
                checked += 1;
            }
        }
        assert!(checked > 0, "{value:#} has no properties");
    }
}

/// Pointers to all objects in a value, itself included.
fn objects(value: &Value) -> Vec<String> {
    let mut found = Vec::new();
    let mut pending = vec![(String::new(), value)];
    while let Some((pointer, value)) = pending.pop() {
        match value {
            Value::Object(object) => {
                let inner = object.iter().map(|(key, value)| (format!("{pointer}/{key}"), value));
                pending.extend(inner);
                found.push(pointer);
            }
            Value::Array(array) => {
                let inner = array.iter().enumerate();
                pending.extend(inner.map(|(index, value)| (format!("{pointer}/{index}"), value)));
            }
            _ => {}
        }
    }
    found
}

/// The pointer with `*` for every index.
fn anywhere(pointer: &str) -> String {
    let is_index = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = pointer.split('/').map(|part| if is_index(part) { "*" } else { part });
    parts.collect::<Vec<_>>().join("/")
}

#[test]
fn a_schema_that_is_too_lax_is_noticed() {
    let validator = |schema: Value| Schema {
        validator: jsonschema::draft202012::new(&schema).unwrap(),
        optional: &["/list/*/may"],
    };
    let strict = |closed: bool, required: &[&str]| {
        validator(serde_json::json!({
            "type": "object", "required": ["list"], "additionalProperties": false,
            "properties": {"list": {"type": "array", "items": {
                "type": "object", "required": required, "additionalProperties": !closed,
                "properties": {"must": {}, "may": {}},
            }}},
        }))
    };
    let value = serde_json::json!({"list": [{"must": 1, "may": 2}]});
    strict(true, &["must"]).hold(&value);
    for (closed, required) in [(false, &["must"][..]), (true, &[])] {
        let lax = strict(closed, required);
        lax.accept(&value);
        let held = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| lax.hold(&value)));
        assert!(held.is_err(), "{closed} {required:?}");
    }
}
