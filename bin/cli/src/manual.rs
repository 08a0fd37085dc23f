//! Manual pages, generated from a program's command line: one for the program, and one for each of
//! its subcommands.

use clap::Command;
use clap_mangen::Man;
use roff::{Roff, bold, roman};

use crate::examples::{Example, examples};

/// Facts about a program that clap does not know.
#[derive(Clone, Copy, Debug)]
pub struct Manual {
    /// Name under which it is installed.
    pub program: &'static str,
    /// 1 for commands, 8 for services.
    pub section: &'static str,
    /// Exit codes and their meanings.
    pub exit_status: &'static [(&'static str, &'static str)],
    /// Other pages, with their sections.
    pub see_also: &'static [&'static str],
}

/// A manual page.
#[derive(Clone, Debug)]
pub struct Page {
    /// The program and its subcommands, down to the one that the page describes.
    pub words: Vec<String>,
    /// Name of its file, such as `ledger-tool-unpack.1`.
    pub file_name: String,
    /// Its source, for man(7).
    pub text: String,
}

impl Manual {
    /// Returns all pages, the program's first.
    pub fn pages(&self, command: Command) -> Vec<Page> {
        let mut command = command.disable_help_subcommand(true);
        command.set_bin_name(self.program);
        command.build();
        let mut pages = Vec::new();
        self.add(&command, &[self.program.to_owned()], &mut pages);
        pages
    }

    fn add(&self, command: &Command, words: &[String], pages: &mut Vec<Page>) {
        pages.push(Page {
            words: words.to_owned(),
            file_name: format!("{}.{}", words.join("-"), self.section),
            text: self.page(command, words),
        });
        for inner in subcommands(command) {
            let words = [words, &[inner.get_name().to_owned()]].concat();
            self.add(inner, &words, pages);
        }
    }

    fn page(&self, command: &Command, words: &[String]) -> String {
        let page = Man::new(command.clone());
        let (mut name, mut description, mut options) = (Vec::new(), Vec::new(), Vec::new());
        // Writing into memory does not fail.
        let _ = page.render_name_section(&mut name);
        let _ = page.render_description_section(&mut description);
        let _ = page.render_options_section(&mut options);
        let mut commands = Vec::new();
        if subcommands(command).next().is_some() {
            let _ = page.section(self.section).render_subcommands_section(&mut commands);
        }
        let help = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let text = [
            self.title(words).render(),
            String::from_utf8_lossy(&name).into_owned(),
            synopsis(command).render(),
            String::from_utf8_lossy(&description).into_owned(),
            in_paragraphs(&String::from_utf8_lossy(&options)),
            String::from_utf8_lossy(&commands).into_owned(),
            self.exit_status().render(),
            examples_section(&examples(&help)).render(),
            self.links(command, words).render(),
        ];
        // Each section defines the apostrophe; one definition is enough.
        let definition = Roff::new().render();
        definition.clone() + &text.concat().replace(&definition, "")
    }

    fn title(&self, words: &[String]) -> Roff {
        let (name, version) = (words.join("-"), concat!("unsnap ", env!("CARGO_PKG_VERSION")));
        let mut roff = Roff::new();
        // The version stands in place of a date.
        roff.control("TH", [&*name, self.section, "\"\"", version, "unsnap"]);
        roff
    }

    fn exit_status(&self) -> Roff {
        let mut roff = Roff::new();
        roff.control("SH", ["EXIT STATUS"]);
        for (code, meaning) in self.exit_status {
            roff.control("TP", ["8"]);
            roff.text([bold(*code)]);
            roff.text([roman(*meaning)]);
        }
        roff
    }

    /// Returns the section that names the page above, the pages below and those of other programs.
    fn links(&self, command: &Command, words: &[String]) -> Roff {
        let page = |words: &[String]| format!("{}({})", words.join("-"), self.section);
        let mut pages: Vec<String> = (1..words.len()).map(|end| page(&words[..end])).collect();
        pages.extend(
            subcommands(command)
                .map(|inner| page(&[words, &[inner.get_name().to_owned()]].concat())),
        );
        pages.extend(self.see_also.iter().map(|page| (*page).to_owned()));
        let mut roff = Roff::new();
        roff.control("SH", ["SEE ALSO"]);
        let mut line = Vec::new();
        for (index, page) in pages.iter().enumerate() {
            let (name, section) = page.split_at(page.find('(').unwrap_or(page.len()));
            let comma = if index + 1 < pages.len() { ", " } else { "" };
            line.extend([bold(name), roman(format!("{section}{comma}"))]);
        }
        roff.text(line);
        roff
    }
}

fn subcommands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|inner| !inner.is_hide_set())
}

/// Returns the synopsis as `--help` shows it; clap_mangen would list every option.
fn synopsis(command: &Command) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]);
    let usage = command.clone().render_usage().to_string();
    let name = command.get_bin_name().unwrap_or_default();
    for (index, form) in usage.trim_start_matches("Usage:").lines().map(str::trim).enumerate() {
        if index > 0 {
            roff.control("br", []);
        }
        match form.strip_prefix(name) {
            Some(rest) => roff.text([bold(name), roman(rest)]),
            None => roff.text([roman(form)]),
        };
    }
    roff
}

/// Replaces empty lines, which man(7) advises against, by `.sp`.
fn in_paragraphs(text: &str) -> String {
    text.replace(".br\n\n.br\n", ".sp\n").replace("\n\n", "\n.sp\n")
}

fn examples_section(examples: &[Example]) -> Roff {
    let mut roff = Roff::new();
    if examples.is_empty() {
        return roff;
    }
    roff.control("SH", ["EXAMPLES"]);
    for (index, Example { what, lines }) in examples.iter().enumerate() {
        if index > 0 {
            roff.control("PP", []);
        }
        roff.text([roman(what)]);
        roff.control("PP", []);
        roff.control("RS", ["4"]);
        roff.control("nf", []);
        for line in lines {
            roff.text([roman(line)]);
        }
        roff.control("fi", []);
        roff.control("RE", []);
    }
    roff
}
