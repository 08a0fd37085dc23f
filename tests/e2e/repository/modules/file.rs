//! A file, read as tokens.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A path from the root of the crate, or of a module.
pub type Names = Vec<String>;

/// Keywords that define a name, which follows.
const DEFINITIONS: [&str; 8] =
    ["fn", "struct", "enum", "union", "trait", "type", "const", "static"];

/// Words that begin an item, which ends with a semicolon or a block.
const ITEMS: [&str; 13] = [
    "fn", "struct", "enum", "union", "trait", "type", "const", "static", "mod", "use", "impl",
    "pub", "unsafe",
];

/// A file, tests left out.
#[derive(Debug, Default)]
pub struct Module {
    pub children: BTreeSet<String>,
    pub defined: BTreeSet<String>,
    /// Names that `use` brings in, with the paths they stand for.
    pub aliases: BTreeMap<String, Names>,
    pub globs: Vec<Names>,
    /// Paths that occur in the code.
    pub references: Vec<Names>,
    /// Names that are re-exported: imports only if the code uses them itself.
    pub reexported: BTreeSet<String>,
    /// Every word outside of `use`.
    pub words: BTreeSet<String>,
}

impl Module {
    /// Reads the file of a module.
    pub fn of_file(tokens: TokenStream, path: &[String]) -> Self {
        let mut module = Self::default();
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
        module
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
                if is_test {
                    at = after_item(&tokens, after);
                    continue;
                }
                // Attributes name items as well, such as the parser of an argument.
                for token in &tokens[at + 1..after] {
                    if let TokenTree::Group(group) = token {
                        self.items(group.stream(), false);
                    }
                }
                at = after;
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
