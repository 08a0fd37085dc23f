//! Bar charts with ranges, as SVG.

use std::fmt::Write;

use super::spread::Spread;

/// A bar of a chart.
pub struct Bar {
    pub label: String,
    /// Length of the bar and range of its whisker; `None` if it was not measured.
    pub value: Option<Spread>,
    /// Each measurement, drawn as a dot.
    pub dots: Vec<f64>,
}

/// Sizes in units of the drawing, which is scaled to the page.
const WIDTH: f64 = 800.0;
const LABELS: f64 = 190.0;
const NUMBERS: f64 = 130.0;
const LINE: f64 = 34.0;
const BAR: f64 = 16.0;

/// Returns horizontal bars from zero, with their values. `label` describes the chart for screen
/// readers, `unit` follows each value.
pub fn bars(label: &str, unit: &str, bars: &[Bar]) -> String {
    let most = bars.iter().filter_map(|bar| bar.value).map(|value| value.max).fold(0.0, f64::max);
    let scale = (WIDTH - LABELS - NUMBERS) / most.max(1e-9);
    let height = LINE * count(bars.len());
    let mut svg = format!(
        "<svg role=\"img\" aria-label=\"{}\" viewBox=\"0 0 {WIDTH} {height}\" \
         xmlns=\"http://www.w3.org/2000/svg\">\n",
        escaped(label)
    );
    for (index, bar) in bars.iter().enumerate() {
        let middle = LINE * (count(index) + 0.5);
        let _ = writeln!(
            svg,
            "<text class=\"label\" x=\"{}\" y=\"{}\">{}</text>",
            LABELS - 10.0,
            middle + 5.0,
            escaped(&bar.label)
        );
        let Some(value) = bar.value else {
            let _ =
                writeln!(svg, "<text x=\"{LABELS}\" y=\"{}\">not supported</text>", middle + 5.0);
            continue;
        };
        let at = |value: f64| LABELS + value * scale;
        let _ = writeln!(
            svg,
            "<rect x=\"{LABELS}\" y=\"{:.1}\" width=\"{:.1}\" height=\"{BAR}\"/>",
            middle - BAR / 2.0,
            value.median * scale
        );
        let _ = writeln!(
            svg,
            "<path d=\"M{:.1} {middle}H{:.1}M{:.1} {:.1}v10M{:.1} {:.1}v10\"/>",
            at(value.min),
            at(value.max),
            at(value.min),
            middle - 5.0,
            at(value.max),
            middle - 5.0
        );
        for dot in &bar.dots {
            let _ = writeln!(svg, "<circle cx=\"{:.1}\" cy=\"{middle}\" r=\"3\"/>", at(*dot));
        }
        let _ = writeln!(
            svg,
            "<text x=\"{:.1}\" y=\"{}\">{:.2} {}</text>",
            at(value.max) + 8.0,
            middle + 5.0,
            value.median,
            escaped(unit)
        );
    }
    svg + "</svg>\n"
}

/// Escapes text for HTML and XML.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML allows no control characters.
            character if character.is_control() => escaped.push('\u{FFFD}'),
            character => escaped.push(character),
        }
    }
    escaped
}

#[allow(clippy::cast_precision_loss)] // a handful of lines
fn count(lines: usize) -> f64 {
    lines as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_length_of_bars_follows_their_values() {
        let spread = |median, min, max| Some(Spread { median, min, max });
        let bar = |value| Bar { label: "x".to_owned(), value, dots: vec![1.0] };
        let svg = bars("times", "s", &[bar(spread(1.0, 0.5, 2.0)), bar(None)]);
        // 480 units are the longest value, 2.
        assert!(svg.contains("width=\"240.0\""), "{svg}");
        assert!(svg.contains("M310.0 17H670.0"), "{svg}");
        assert!(svg.contains("cx=\"430.0\""), "{svg}");
        assert!(svg.contains("not supported"), "{svg}");
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escaped("<a href='\"&\n"), "&lt;a href=&#39;&quot;&amp;\u{FFFD}");
        let bar = Bar { label: "</text><script>".to_owned(), value: None, dots: Vec::new() };
        let svg = bars("\"><script>", "", &[bar]);
        assert!(!svg.contains("<script"), "{svg}");
    }
}
