//! Import cycles among the modules of a crate.
//!
//! A module is a file. It imports another one if its code, tests left out, names an item that is
//! defined there; a path through re-exports leads to the module of the definition, and a re-export
//! alone is no import. Files are read as tokens, so that comments and strings do not count and paths
//! in macros do.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// Keywords that define a name, which follows.
const DEFINITIONS: [&str; 8] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// Words that begin an item, which ends with a semicolon or a block.
const ITEMS: [&str; 13] = [
    "fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "use", "impl",
    "pub", "unsafe",
];

/// More re-exports than these in a row are a mistake of this test.
const REEXPORTS_MAX: usize = 20;

/// A path from the root of the crate, or of a module.
type Names = Vec<String>;

/// The modules that each module imports, each with an item of it.
type Imports<'a> = BTreeMap<&'a Names, BTreeMap<&'a Names, String>>;

/// A file.
#[derive(Debug, Default)]
struct Module {
    children: BTreeSet<String>,
    defined: BTreeSet<String>,
    /// Names that `use` brings in, with the paths they stand for.
    aliases: BTreeMap<String, Names>,
    globs: Vec<Names>,
    /// Paths that occur in the code.
    references: Vec<Names>,
    /// Names that are re-exported: imports only if the code uses them itself.
    reexported: BTreeSet<String>,
    /// Every word outside of `use`.
    words: BTreeSet<String>,
}

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
        let tokens: TokenStream =
            text.parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let mut module = Module::default();
        Walk { module: &mut module, path, inline: 0 }.items(tokens, true);
        // Globs of other crates bring in nothing of this one.
        module.globs.retain(|glob| match glob.strip_prefix(path).and_then(<[String]>::first) {
            Some(first) => {
                module.children.contains(first)
                    || module.aliases.contains_key(first)
                    || module.defined.contains(first)
            }
            None => true,
        });
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

/// A walk over the tokens of a file.
struct Walk<'a> {
    module: &'a mut Module,
    /// The file's module.
    path: &'a [String],
    /// Modules in this file that the walk is in.
    inline: usize,
}

impl Walk<'_> {
    /// Walks over tokens; those of a module's own level define its names.
    fn items(&mut self, tokens: TokenStream, own_level: bool) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let mut at = 0;
        while at < tokens.len() {
            if is_punct(&tokens[at], '#') {
                let (after, is_test) = attribute(&tokens, at);
                at = if is_test { after_item(&tokens, after) } else { after };
                continue;
            }
            match &tokens[at] {
                TokenTree::Group(group) => {
                    if !is_visibility(&tokens, at) {
                        self.items(group.stream(), false);
                    }
                    at += 1;
                }
                TokenTree::Ident(ident) => {
                    at = self.word(&ident.to_string(), &tokens, at, own_level);
                }
                _ => at += 1,
            }
        }
    }

    /// Takes in a word and what belongs to it; returns where to go on.
    fn word(&mut self, word: &str, tokens: &[TokenTree], at: usize, own_level: bool) -> usize {
        let next = tokens.get(at + 1);
        let next_word = match next {
            Some(TokenTree::Ident(ident)) => Some(ident.to_string()),
            _ => None,
        };
        if word == "use" && !next.is_some_and(|next| is_punct(next, '<')) {
            let end = (at..tokens.len()).find(|index| is_punct(&tokens[*index], ';'));
            let end = end.expect("`use` ends with a semicolon");
            let is_public =
                at > 0 && (is_word(&tokens[at - 1], "pub") || is_visibility(tokens, at - 1));
            self.use_tree(&tokens[at + 1..end], &[], is_public);
            return end + 1;
        }
        if let ("mod", Some(name)) = (word, &next_word) {
            match tokens.get(at + 2) {
                Some(TokenTree::Group(body)) => {
                    self.module.defined.insert(name.clone());
                    self.inline += 1;
                    self.items(body.stream(), false);
                    self.inline -= 1;
                }
                _ => drop(self.module.children.insert(name.clone())),
            }
            return at + 3;
        }
        if let Some(name) = next_word.filter(|_| own_level && DEFINITIONS.contains(&word)) {
            self.module.defined.insert(name);
        }
        self.module.words.insert(word.to_owned());
        let begins = at < 2 || !is_path_separator(tokens, at - 2);
        if !begins || !is_path_separator(tokens, at + 1) {
            return at + 1;
        }
        let mut names = vec![word.to_owned()];
        let mut end = at + 1;
        while is_path_separator(tokens, end) {
            let Some(TokenTree::Ident(ident)) = tokens.get(end + 2) else { break };
            names.push(ident.to_string());
            end += 3;
        }
        self.module.words.extend(names.iter().cloned());
        let path = self.absolute(&names);
        self.module.references.push(path);
        end
    }

    /// Takes in one tree of a `use`, below a path.
    fn use_tree(&mut self, tokens: &[TokenTree], above: &[String], is_public: bool) {
        let mut names = above.to_vec();
        let mut alias = None;
        let mut at = 0;
        while at < tokens.len() {
            match &tokens[at] {
                TokenTree::Ident(word) if word == "as" => {
                    alias = Some(tokens[at + 1].to_string());
                    break;
                }
                TokenTree::Ident(word) => names.push(word.to_string()),
                TokenTree::Group(group) => {
                    let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                    for tree in inner.split(|token| is_punct(token, ',')) {
                        if !tree.is_empty() {
                            self.use_tree(tree, &names, is_public);
                        }
                    }
                    return;
                }
                token if is_punct(token, '*') => {
                    let path = self.absolute(&names);
                    self.module.globs.push(path);
                    return;
                }
                _ => (),
            }
            at += 1;
        }
        if names.len() > 1 && names[names.len() - 1] == "self" {
            names.pop();
        }
        let name = alias.unwrap_or_else(|| names[names.len() - 1].clone());
        let path = self.absolute(&names);
        // `use name;` in the module that `name` is in says nothing.
        if path != [self.path, std::slice::from_ref(&name)].concat() {
            if is_public {
                self.module.reexported.insert(name.clone());
            }
            self.module.aliases.insert(name, path);
        }
    }

    /// Returns a path from the root of the crate. Paths into other crates become paths to names that
    /// do not exist.
    fn absolute(&self, names: &[String]) -> Names {
        if names[0] == "crate" {
            return names[1..].to_vec();
        }
        let supers = names.iter().take_while(|name| *name == "super").count();
        let is_self = usize::from(names[0] == "self");
        // Modules in this file are one with it.
        let up = supers.saturating_sub(self.inline);
        let above = self.path.len().saturating_sub(up);
        [&self.path[..above], &names[supers.max(is_self)..]].concat()
    }
}

fn is_punct(token: &TokenTree, punct: char) -> bool {
    matches!(token, TokenTree::Punct(found) if found.as_char() == punct)
}

fn is_word(token: &TokenTree, word: &str) -> bool {
    matches!(token, TokenTree::Ident(found) if found == word)
}

fn is_path_separator(tokens: &[TokenTree], at: usize) -> bool {
    let colon = |at: usize| tokens.get(at).is_some_and(|token| is_punct(token, ':'));
    colon(at) && colon(at + 1)
}

/// Returns whether the token is the `(crate)` of `pub(crate)` or the like.
fn is_visibility(tokens: &[TokenTree], at: usize) -> bool {
    let TokenTree::Group(group) = &tokens[at] else { return false };
    at > 0
        && is_word(&tokens[at - 1], "pub")
        && group.delimiter() == Delimiter::Parenthesis
        && group.stream().into_iter().next().is_some_and(|first| {
            ["crate", "super", "self", "in"].iter().any(|word| is_word(&first, word))
        })
}

/// Returns where an attribute ends, and whether it leaves its item to tests.
fn attribute(tokens: &[TokenTree], at: usize) -> (usize, bool) {
    let inner = usize::from(tokens.get(at + 1).is_some_and(|token| is_punct(token, '!')));
    let Some(TokenTree::Group(group)) = tokens.get(at + 1 + inner) else { return (at + 1, false) };
    let text = group.stream().to_string();
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let is_test = words[0] == "test"
        || words[0] == "cfg" && words.contains(&"test") && !words.contains(&"not");
    (at + 2 + inner, is_test)
}

/// Returns where the item ends that begins here, after more attributes perhaps.
fn after_item(tokens: &[TokenTree], mut at: usize) -> usize {
    while tokens.get(at).is_some_and(|token| is_punct(token, '#')) {
        at = attribute(tokens, at).0;
    }
    let is_item = tokens.get(at).is_some_and(|token| ITEMS.iter().any(|word| is_word(token, word)));
    while let Some(token) = tokens.get(at) {
        at += 1;
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => break,
            token if is_punct(token, ';') || !is_item && is_punct(token, ',') => break,
            _ => (),
        }
    }
    at
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
