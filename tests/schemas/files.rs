//! The files themselves: their form, and that nobody looks for one in vain.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use crate::schema::{read, root};

fn names() -> Vec<String> {
    let entries = fs::read_dir(root().join("docs/schemas")).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert!(names.len() >= 7, "{names:?}");
    names
}

#[test]
fn every_schema_is_valid_and_says_what_it_is() {
    for file in names() {
        let schema = read(&file);
        jsonschema::draft202012::meta::validate(&schema)
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let (name, rest) = file.split_once(".v").unwrap();
        let version: u32 = rest.strip_suffix(".json").unwrap().parse().unwrap();
        assert_eq!(schema["$id"], format!("urn:unsnap:schema:{name}:{version}"));
        let title = schema["title"].as_str().unwrap();
        assert!(title.ends_with(&format!(", version {version}")), "{file}: {title}");
        assert!(schema["description"].is_string(), "{file}");
    }
}

/// Walks through all schemas in a schema.
fn each(schema: &Value, visit: &mut impl FnMut(&Value)) {
    match schema {
        Value::Object(object) => {
            visit(schema);
            object.values().for_each(|inner| each(inner, visit));
        }
        Value::Array(array) => array.iter().for_each(|inner| each(inner, visit)),
        _ => {}
    }
}

#[test]
fn every_object_is_closed_and_every_property_is_described() {
    for file in names() {
        let schema = read(&file);
        each(&schema, &mut |one| {
            // What a condition refers to is described where it is declared.
            if one["type"] != "object" {
                return;
            }
            assert_eq!(one["additionalProperties"], false, "{file}: {one:#}");
            for (name, property) in one["properties"].as_object().unwrap() {
                let referred = property["$ref"].as_str().map(|it| it.strip_prefix('#').unwrap());
                let referred = referred.and_then(|pointer| schema.pointer(pointer));
                let all = [Some(property), referred];
                let described = all.into_iter().flatten().any(|it| it["description"].is_string());
                assert!(described, "{file}: {name}");
                for (unit, words) in [
                    ("_ms", &["millisecond"][..]),
                    ("bytes", &["byte", "Bytes"]),
                    ("rate_limit", &["bytes per second"]),
                ] {
                    let text = property["description"].as_str().unwrap_or_default();
                    let is_number = property["type"].to_string().contains("integer");
                    let named = words.iter().any(|word| text.contains(word));
                    assert!(!is_number || !name.contains(unit) || named, "{file}: {name}: {text}");
                }
            }
        });
    }
}

#[test]
fn a_schema_stands_alone_and_definitions_of_one_name_are_equal() {
    let mut known: BTreeMap<String, (String, Value)> = BTreeMap::new();
    for file in names() {
        let schema = read(&file);
        each(&schema, &mut |one| {
            if let Some(target) = one["$ref"].as_str() {
                let found = target.strip_prefix('#').and_then(|pointer| schema.pointer(pointer));
                assert!(found.is_some(), "{file}: {target}");
            }
        });
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            let told = (file.clone(), definition.clone());
            let (elsewhere, first) = known.entry(name.clone()).or_insert(told);
            assert_eq!(first, definition, "{name} in {file} and {elsewhere}");
        }
    }
    assert!(known.len() > 20);
}

#[test]
fn the_page_lists_every_schema() {
    let page = fs::read_to_string(root().join("docs/schemas.md")).unwrap();
    let linked: Vec<&str> =
        page.split("](schemas/").skip(1).map(|rest| rest.split_once(')').unwrap().0).collect();
    let mut sorted = linked.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, names());
}
