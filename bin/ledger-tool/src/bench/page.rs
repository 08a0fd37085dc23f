//! The result as an HTML page: one file, without scripts, that loads nothing else.

use std::fmt::Write;

use super::{
    judge::action,
    plot::{Bar, bars, escaped},
    result::BenchResult,
    spread::Spread,
    text::headline,
};

const STYLE: &str = "\
:root { color-scheme: light dark; --bar: #4477aa; --mark: #222; }
@media (prefers-color-scheme: dark) { :root { --bar: #66a0d0; --mark: #eee; } }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
svg { width: 100%; font-size: 14px; } svg text { fill: currentColor; }
svg .label { text-anchor: end; } svg rect { fill: var(--bar); }
svg path, svg circle { stroke: var(--mark); fill: none; stroke-width: 1.5; }
table { border-collapse: collapse; } th, td { text-align: left; padding: 0.2rem 1rem 0.2rem 0; }
td { font-variant-numeric: tabular-nums; }";

/// Returns the page, which is also well-formed XML.
pub fn page(result: &BenchResult) -> String {
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n\
         <meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <title>unsnap: bottleneck of unpacking</title>\n<style>{STYLE}</style>\n</head>\n\
         <body>\n<h1>Bottleneck of unpacking</h1>\n<p>{}</p>\n",
        escaped(&headline(result))
    );
    let paragraph = |words: &str| format!("<p>{}</p>\n", escaped(words));
    page += &paragraph(&result.limit);
    page += &paragraph(&result.advice);
    page.extend(result.notes.iter().map(|note| paragraph(&format!("Note: {note}"))));

    page += "<h2>Time of each variant</h2>\n";
    let label = "Seconds of each variant: medians, ranges and every round";
    page += &bars(label, "s", &times_of_variants(result));
    page += "<h2>Time of each stage alone</h2>\n";
    let label = "Seconds of each stage alone, beside a whole run of the default";
    page += &bars(label, "s", &times_of_stages(result));
    page += "<h2>Rate of each stage alone</h2>\n";
    page += &bars("Gigabytes per second of each stage alone", "GB/s", &rates_of_stages(result));
    page += &table(result);
    page + "</body>\n</html>\n"
}

fn times_of_variants(result: &BenchResult) -> Vec<Bar> {
    let variants = result.variants.iter().map(|variant| Bar {
        label: variant.name.clone(),
        value: variant.skipped.is_none().then_some(variant.seconds),
        dots: seconds(&variant.elapsed_ms),
    });
    variants.collect()
}

fn times_of_stages(result: &BenchResult) -> Vec<Bar> {
    let alone = result.alone.iter().map(|alone| Bar {
        label: format!("{} alone", action(alone.stage)),
        value: Some(alone.seconds),
        dots: seconds(&alone.elapsed_ms),
    });
    let whole = result.variants.first().map(|default| Bar {
        label: "whole run".to_owned(),
        value: Some(default.seconds),
        dots: seconds(&default.elapsed_ms),
    });
    alone.chain(whole).collect()
}

#[allow(clippy::cast_precision_loss)] // for people
fn rates_of_stages(result: &BenchResult) -> Vec<Bar> {
    let bars = result.alone.iter().map(|alone| {
        let rates = seconds(&alone.elapsed_ms).into_iter();
        let rates: Vec<f64> = rates.map(|time| alone.bytes as f64 / 1e9 / time.max(1e-3)).collect();
        let value = Some(Spread::of(rates.iter().copied()));
        Bar { label: action(alone.stage).to_owned(), value, dots: rates }
    });
    bars.collect()
}

fn table(result: &BenchResult) -> String {
    let mut table = "<h2>All variants</h2>\n<table>\n<tr><th>variant</th><th>flags</th>\
                     <th>seconds</th><th>× default</th><th>limited by</th><th>engine</th></tr>\n"
        .to_owned();
    for variant in &result.variants {
        let rest = match &variant.skipped {
            Some(reason) => format!("<td colspan=\"4\">not supported: {}</td>", escaped(reason)),
            None => format!(
                "<td>{}</td><td>{}</td><td>{}</td><td>{}</td>",
                variant.seconds.text(),
                variant.ratio.text(),
                escaped(&variant.limited_by.join(", ")),
                escaped(&variant.io_engine)
            ),
        };
        let (name, flags) = (escaped(&variant.name), escaped(&variant.flags));
        let _ = writeln!(table, "<tr><td>{name}</td><td><code>{flags}</code></td>{rest}</tr>");
    }
    table + "</table>\n"
}

#[allow(clippy::cast_precision_loss)] // a span of time, for people
fn seconds(milliseconds: &[u64]) -> Vec<f64> {
    milliseconds.iter().map(|ms| *ms as f64 / 1e3).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::result::{Alone, ArchiveFacts, Measured};

    #[test]
    fn hostile_text_stays_text() {
        let attack = "</p><script>alert(1)</script>".to_owned();
        let result = BenchResult {
            archive: ArchiveFacts { path: attack.clone(), ..ArchiveFacts::default() },
            output: attack.clone(),
            file_system: attack.clone(),
            alone: vec![Alone { stage: "read", elapsed_ms: vec![1], ..Alone::default() }],
            variants: vec![
                Measured { name: attack.clone(), elapsed_ms: vec![2], ..Measured::default() },
                Measured { skipped: Some(attack.clone()), ..Measured::default() },
            ],
            limit: attack.clone(),
            advice: attack.clone(),
            notes: vec![attack],
            ..BenchResult::default()
        };
        let page = page(&result);
        assert!(!page.contains("<script"), "{page}");
        assert_eq!(page.matches("&lt;script&gt;").count(), 9, "{page}");
        assert_eq!(page.matches("<svg").count(), 3);
        // Nothing is loaded: the only addresses are names of namespaces.
        assert_eq!(page.matches("http").count(), page.matches("http://www.w3.org/").count());
    }
}
