//! Import cycles among the modules of a crate.
//!
//! A module is a file. It imports another one if its code, tests left out, names an item that is
//! defined there; a path through re-exports leads to the module of the definition, and a re-export
//! alone is no import. Files are read as tokens, so that comments and strings do not count and paths
//! in macros do.

mod file;

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use self::file::{Module, Names};

/// More re-exports than these in a row are a mistake of this test.
const REEXPORTS_MAX: usize = 20;

/// The modules that each module imports, each with an item of it.
type Imports<'a> = BTreeMap<&'a Names, BTreeMap<&'a Names, String>>;

/// The modules of a crate.
#[derive(Debug, Default)]
pub struct Modules(BTreeMap<Names, Module>);

impl Modules {
    /// Reads a crate from the file of its root.
    pub fn of_crate(root: &Path) -> Self {
        let mut modules = Self::default();
        modules.read(root, root.parent().unwrap(), &[]);
        modules
    }

    fn read(&mut self, file: &Path, directory: &Path, path: &[String]) {
        let text = fs::read_to_string(file).unwrap();
        let tokens = text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let module = Module::of_file(tokens, path);
        for child in &module.children {
            let below = [path, std::slice::from_ref(child)].concat();
            let own = directory.join(child);
            let flat = own.with_extension("rs");
            let file: PathBuf = if flat.exists() { flat } else { own.join("mod.rs") };
            self.read(&file, &own, &below);
        }
        self.0.insert(path.to_vec(), module);
    }

    /// Returns the groups of modules that import each other, each in order, with one cycle.
    pub fn cycles(&self) -> Vec<(Vec<String>, String)> {
        let imports: Imports<'_> = self.0.keys().map(|path| (path, self.imports(path))).collect();
        let reached: BTreeMap<&Names, BTreeSet<&Names>> =
            self.0.keys().map(|path| (path, reachable(&imports, path))).collect();
        let mut groups = BTreeSet::new();
        for (path, others) in &reached {
            if others.contains(path) {
                let group = others.iter().filter(|other| reached[**other].contains(path));
                groups.insert(group.copied().collect::<Vec<&Names>>());
            }
        }
        let told = |group: Vec<&Names>| {
            let cycle = shortest_cycle(&imports, group[0]);
            let mut text = name(cycle[0]);
            for pair in cycle.windows(2) {
                let item = &imports[pair[0]][pair[1]];
                text = format!("{text} -> {} ({item})", name(pair[1]));
            }
            (group.into_iter().map(name).collect(), text)
        };
        groups.into_iter().map(told).collect()
    }

    /// Returns the modules that a module imports, each with an item of it.
    fn imports(&self, path: &Names) -> BTreeMap<&Names, String> {
        let module = &self.0[path];
        let used = module.aliases.iter().filter(|(alias, _)| {
            !module.reexported.contains(*alias) || module.words.contains(*alias)
        });
        let mut imports = BTreeMap::new();
        for target in module.references.iter().chain(used.map(|(_, target)| target)) {
            // A module brought in by its name is imported where a path goes through the name.
            if let Some(Found::Item(found)) = self.resolve(target, 0) {
                imports.insert(found, target[target.len() - 1].clone());
            }
        }
        for glob in &module.globs {
            if let Some(Found::Item(found) | Found::Module(found)) = self.resolve(glob, 0) {
                // A parent that makes the names of its children its own re-exports them.
                if !found.starts_with(path) {
                    imports.insert(found, "*".to_owned());
                }
            }
        }
        imports.remove(path);
        imports
    }

    /// Returns what a path from the root leads to; nothing if that is not in this crate.
    fn resolve(&self, names: &[String], depth: usize) -> Option<Found<'_>> {
        assert!(depth < REEXPORTS_MAX, "{names:?} goes round in circles");
        let (mut here, module) = self.0.get_key_value(&Names::new())?;
        let mut module = module;
        for (index, name) in names.iter().enumerate() {
            let rest = &names[index + 1..];
            if module.children.contains(name) {
                let below = [&here[..], std::slice::from_ref(name)].concat();
                (here, module) = self.0.get_key_value(&below)?;
                continue;
            }
            if let Some(target) = module.aliases.get(name) {
                return self.resolve(&[target, rest].concat(), depth + 1);
            }
            if module.defined.contains(name) {
                return Some(Found::Item(here));
            }
            let through = |glob: &Names| {
                let glob = self.resolve(glob, depth + 1)?;
                let Found::Module(glob) = glob else { return None };
                let known = &self.0[glob];
                let has = known.defined.contains(name)
                    || known.aliases.contains_key(name)
                    || known.children.contains(name);
                has.then(|| self.resolve(&[&glob[..], &names[index..]].concat(), depth + 1))?
            };
            // Macros of the crate are everywhere, and belong to nobody.
            return module.globs.iter().find_map(through);
        }
        Some(Found::Module(here))
    }
}

/// The end of a path: a module, or an item with the module that defines it.
enum Found<'a> {
    Item(&'a Names),
    Module(&'a Names),
}

fn name(path: &Names) -> String {
    if path.is_empty() { "(root)".to_owned() } else { path.join("::") }
}

fn reachable<'a>(imports: &Imports<'a>, from: &'a Names) -> BTreeSet<&'a Names> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Names> = imports[from].keys().copied().collect();
    while let Some(path) = next.pop() {
        if reached.insert(path) {
            next.extend(imports[path].keys());
        }
    }
    reached
}

/// Returns the modules of a shortest way from one to itself.
fn shortest_cycle<'a>(imports: &Imports<'a>, from: &'a Names) -> Vec<&'a Names> {
    let mut ways: Vec<Vec<&Names>> = vec![vec![from]];
    let mut seen = BTreeSet::new();
    let mut next = 0;
    loop {
        let way = ways[next].clone();
        next += 1;
        for target in imports[way[way.len() - 1]].keys() {
            let longer = [&way[..], &[*target]].concat();
            if *target == from {
                return longer;
            }
            if seen.insert(*target) {
                ways.push(longer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Modules;

    fn cycles(files: &[(&str, &str)]) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let modules = Modules::of_crate(&directory.path().join("lib.rs"));
        modules.cycles().into_iter().map(|(_, cycle)| cycle).collect()
    }

    #[test]
    fn two_modules_that_use_each_other_are_a_cycle() {
        let root = ("lib.rs", "mod a; mod b;");
        let b = ("b.rs", "use crate::a::A; pub struct B(A);");
        let a = "pub struct A; fn f() { vec![super::b::B]; }";
        assert_eq!(cycles(&[root, b, ("a.rs", a)]), ["a -> b (B) -> a (A)"]);
        let attribute = "pub struct A { #[arg(value_parser = crate::b::B)] x: u8 }";
        assert_eq!(cycles(&[root, b, ("a.rs", attribute)]), ["a -> b (B) -> a (A)"]);
        for innocent in [
            "pub struct A; // crate::b::B",
            "pub struct A; const X: &str = \"crate::b::B\";",
            "pub struct A; #[cfg(test)] mod tests { use crate::b::B; }",
            "pub struct A; #[cfg(test)] use crate::b::B; fn f(b: std::b::B) {}",
        ] {
            assert!(cycles(&[root, b, ("a.rs", innocent)]).is_empty(), "{innocent}");
        }
    }

    #[test]
    fn paths_through_other_modules_lead_to_the_definition() {
        let root = ("lib.rs", "mod a; mod b; mod c; pub use b::B;");
        let b = ("b/mod.rs", "mod d; pub use self::d::*; pub use d::D as E;");
        let d = ("b/d.rs", "use crate::a; pub struct B; pub struct D; fn f() { a::g() }");
        let c = ("c.rs", "use crate::b; pub fn h() -> b::E { todo!() }");
        let a = |uses| ("a.rs", uses);
        let of = |uses| cycles(&[root, a(uses), b, c, d]);
        assert!(of("pub fn g() {}").is_empty());
        assert_eq!(of("pub fn g() { crate::B; }"), ["a -> b::d (B) -> a (g)"]);
        assert_eq!(
            of("use crate::{c::h, std}; pub fn g() {}"),
            ["a -> c (h) -> b::d (E) -> a (g)"]
        );
        // A re-export alone imports nothing, nor does a module's name.
        assert!(of("use crate::b; pub use crate::b::B; pub fn g() {}").is_empty());
        assert_eq!(of("pub use crate::b::B; pub fn g(b: B) {}"), ["a -> b::d (B) -> a (g)"]);
    }

    #[test]
    fn a_parent_and_its_child_can_be_a_cycle() {
        let root = ("lib.rs", "mod a; pub struct Root; fn f() { a::g() }");
        let of = |a| cycles(&[root, ("a.rs", a)]);
        assert_eq!(
            of("pub fn g() { mod inner { fn h(r: super::super::Root) {} } }"),
            ["(root) -> a (g) -> (root) (Root)"]
        );
        assert!(of("pub fn g() { mod inner { fn h() { super::g() } } }").is_empty());
    }
}
