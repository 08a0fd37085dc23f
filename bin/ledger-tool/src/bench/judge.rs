//! Conclusions from the measurements: the bottleneck and the best flags.

use std::collections::BTreeMap;

use super::{
    result::{Alone, Measured},
    spread::Spread,
};

/// Minimum gain of a variant that is recommended: the default's median time divided by the variant's.
/// The variant must also be faster in every round. A guess at what is worth a flag.
const GAIN_MIN: f64 = 1.05;

/// Minimum number of rounds for a recommendation. By chance, a variant is faster than the default in
/// all of three rounds one time in eight, and rarely by as much as [`GAIN_MIN`].
const ROUNDS_MIN: u32 = 3;

/// Maximum time of a run, relative to its bottleneck alone, that counts as close to it.
const CLOSE: f64 = 1.15;

/// Computes medians, and ratios of times of the same round.
pub fn compare(alone: &mut [Alone], variants: &mut [Measured]) {
    let default = variants.first().map(|first| first.elapsed_ms.clone()).unwrap_or_default();
    for stage in alone {
        stage.seconds = Spread::of_seconds(&stage.elapsed_ms);
        stage.run_ratio = Spread::of_ratios(&default, &stage.elapsed_ms);
    }
    for variant in variants {
        variant.seconds = Spread::of_seconds(&variant.elapsed_ms);
        variant.ratio = Spread::of_ratios(&variant.elapsed_ms, &default);
    }
}

/// Returns the stage that limited most rounds of the default.
pub fn limited_by(variants: &[Measured]) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for stage in variants.first().iter().flat_map(|default| &default.limited_by) {
        *counts.entry(stage).or_default() += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map_or("nothing", |(stage, _)| stage).to_owned()
}

/// Describes the bottleneck, how a run compares with that stage alone, and remedies.
pub fn limit(limited_by: &str, alone: &[Alone]) -> String {
    let (stage, name, remedy) = match limited_by {
        "source" => (
            "read",
            "Reading the archive",
            "A faster disk for the archive helps, or a different disk than the destination's; more \
             processors do not.",
        ),
        "decode" | "walk" => (
            "decode",
            "Decoding",
            "Faster processors help, and so do more of them if the archive has many frames, as \
             archives of Agave 4.3 and later have; a faster disk does not.",
        ),
        _ => (
            "write",
            "Writing files",
            "A faster disk helps, or several disks for the accounts (--accounts); more processors \
             do not.",
        ),
    };
    let found = alone.iter().find(|alone| alone.stage == stage);
    let mut sentences = vec![format!("{name} limits the run: the other stages wait for it.")];
    if let Some(found) = found {
        let ratio = found.run_ratio;
        let distance = match ratio.median {
            ratio if ratio < 1.0 => "the pipeline is faster than the stage alone",
            ratio if ratio <= CLOSE => "close to its limit",
            _ => "the stages slow each other down",
        };
        let ratio = ratio.text();
        sentences.push(format!(
            "A whole run takes {ratio} times as long as this stage alone: {distance}."
        ));
    }
    let slowest = alone.iter().max_by(|a, b| a.seconds.median.total_cmp(&b.seconds.median));
    if let Some(slowest) = slowest.filter(|slowest| slowest.stage != stage) {
        let (action, time) = (action(slowest.stage), slowest.seconds.text());
        sentences.push(format!("Measured alone, {action} takes longest: {time} s."));
    }
    sentences.push(remedy.to_owned());
    sentences.join(" ")
}

/// Returns the recommended flags, and the reason.
pub fn advice(variants: &[Measured], rounds: u32) -> (String, String) {
    let tried = variants.iter().skip(1).filter(|variant| variant.skipped.is_none());
    let better = tried
        .filter(|variant| variant.ratio.max < 1.0 && variant.ratio.median * GAIN_MIN <= 1.0)
        .min_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median));
    if rounds < ROUNDS_MIN {
        let text = format!("No recommendation: it needs --rounds {ROUNDS_MIN} or more.");
        return (String::new(), text);
    }
    let Some(best) = better else {
        let text = "Use no flags: no variant was faster than the default in every round and by at \
                    least 5 %.";
        return (String::new(), text.to_owned());
    };
    let (flags, ratio) = (&best.flags, best.ratio.text());
    let text = format!("Use {flags}: {ratio} of the default's time, and less in every round.");
    (flags.clone(), text)
}

/// Returns the verb for a stage.
pub fn action(stage: &str) -> &'static str {
    match stage {
        "read" => "reading",
        "decode" => "decoding",
        _ => "writing",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(flags: &str, elapsed_ms: &[u64]) -> Measured {
        let elapsed_ms = elapsed_ms.to_vec();
        let limited_by = vec!["create".to_owned(), "decode".to_owned(), "create".to_owned()];
        Measured { flags: flags.to_owned(), elapsed_ms, limited_by, ..Measured::default() }
    }

    fn alone(stage: &'static str, elapsed_ms: &[u64]) -> Alone {
        Alone { stage, elapsed_ms: elapsed_ms.to_vec(), ..Alone::default() }
    }

    #[test]
    fn a_flag_is_recommended_only_if_it_wins_every_round() {
        let mut variants = vec![
            measured("", &[1000, 1000, 1000]),
            measured("--lucky", &[500, 500, 1001]),
            measured("--good", &[900, 910, 920]),
            measured("--better", &[850, 860, 870]),
            measured("--hardly", &[990, 990, 990]),
        ];
        compare(&mut [], &mut variants);
        let (flags, text) = advice(&variants, 3);
        assert_eq!(flags, "--better");
        assert!(text.contains("0.86 [0.85–0.87]"), "{text}");
        variants.truncate(2);
        assert_eq!(advice(&variants, 3).0, "");
        variants
            .push(Measured { skipped: Some("refused".to_owned()), ..measured("--refused", &[]) });
        assert_eq!(advice(&variants, 3).0, "");
        variants.push(measured("--better", &[850, 860, 870]));
        compare(&mut [], &mut variants);
        let (flags, text) = advice(&variants, 2);
        assert!(flags.is_empty() && text.contains("--rounds 3"), "{text}");
    }

    #[test]
    fn the_bottleneck_is_named_with_its_distance() {
        let mut variants = vec![measured("", &[1100, 1100, 1100])];
        let mut stages =
            vec![alone("read", &[400; 3]), alone("decode", &[1500; 3]), alone("write", &[1000; 3])];
        compare(&mut stages, &mut variants);
        assert_eq!(limited_by(&variants), "create");
        let text = limit("create", &stages);
        assert!(text.starts_with("Writing files"), "{text}");
        let expected = "1.10 [1.10–1.10] times as long as this stage alone: close to its limit.";
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("Measured alone, decoding takes longest: 1.50"), "{text}");
        let text = limit("decode", &stages);
        assert!(text.contains("faster than the stage alone"), "{text}");
        assert!(!text.contains("takes longest"), "{text}");
        assert_eq!(limited_by(&[]), "nothing");
    }
}
