//! A bar chart as SVG, readable on light and on dark backgrounds.

use crate::statistics::Spread;
use std::fmt::Write;

/// Bars that are compared with each other.
pub struct Group {
    /// What they have in common.
    pub title: String,
    /// The bars.
    pub bars: Vec<Bar>,
}

/// One bar with its spread.
pub struct Bar {
    /// What it stands for.
    pub label: String,
    /// Its length, and the ends of its whisker.
    pub spread: Spread,
}

const WIDTH: f64 = 800.0;
const LABELS_WIDTH: f64 = 170.0;
const FIGURES_WIDTH: f64 = 60.0;
const BAR_HEIGHT: f64 = 14.0;
const BAR_STEP: f64 = 18.0;
const TITLE_HEIGHT: f64 = 34.0;
const MARGIN: f64 = 12.0;

/// Colours by the system's preference; the background stays that of the page.
const STYLE: &str = "\
text { font: 12px sans-serif; fill: #24292f; }
.title { font-weight: bold; }
.bar { fill: #8c959f; }
.subject { fill: #2da44e; }
.floor { fill: #d0d7de; }
.whisker { stroke: #24292f; stroke-width: 1.5; fill: none; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.bar { fill: #6e7681; }
.subject { fill: #3fb950; }
.floor { fill: #30363d; }
.whisker { stroke: #e6edf3; }
}";

/// Draws groups of bars below each other. Every group has a scale of its own, from 0 to its
/// longest whisker.
pub fn plot(title: &str, groups: &[Group]) -> String {
    let group_height = |group: &Group| TITLE_HEIGHT + BAR_STEP * group.bars.len() as f64;
    let height = TITLE_HEIGHT + groups.iter().map(group_height).sum::<f64>() + MARGIN;
    let mut body = String::new();
    let mut top = TITLE_HEIGHT;
    for group in groups {
        draw_group(&mut body, group, top);
        top += group_height(group);
    }
    let (title, description) = (escape(title), escape(&describe(groups)));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" aria-labelledby=\"title desc\">\n\
         <title id=\"title\">{title}</title>\n<desc id=\"desc\">{description}</desc>\n\
         <style>\n{STYLE}\n</style>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"22\">{title}</text>\n{body}</svg>\n"
    )
}

fn draw_group(body: &mut String, group: &Group, top: f64) {
    let longest = group.bars.iter().map(|bar| bar.spread.max).fold(0.0, f64::max);
    let room = WIDTH - LABELS_WIDTH - FIGURES_WIDTH - MARGIN;
    let scale = |value: f64| if longest > 0.0 { value / longest * room } else { 0.0 };
    element(
        body,
        format_args!(
            "<text class=\"title\" x=\"{MARGIN}\" y=\"{:.0}\">{}</text>",
            top + 22.0,
            escape(&group.title)
        ),
    );
    let mut y = top + TITLE_HEIGHT - 4.0;
    for bar in &group.bars {
        let (label, middle, baseline) = (escape(&bar.label), y + BAR_HEIGHT / 2.0, y + 11.0);
        let [median, min, max] = [bar.spread.median, bar.spread.min, bar.spread.max].map(scale);
        let (left, right) = (LABELS_WIDTH + min, LABELS_WIDTH + max);
        element(
            body,
            format_args!(
                "<text x=\"{:.0}\" y=\"{baseline:.0}\" text-anchor=\"end\">{label}</text>",
                LABELS_WIDTH - 8.0
            ),
        );
        element(
            body,
            format_args!(
                "<rect class=\"{}\" x=\"{LABELS_WIDTH}\" y=\"{y:.0}\" width=\"{median:.1}\" \
                 height=\"{BAR_HEIGHT}\"/>",
                class(&bar.label)
            ),
        );
        element(
            body,
            format_args!(
                "<path class=\"whisker\" d=\"M{left:.1} {:.0}v8m0 -4H{right:.1}m0 -4v8\"/>",
                middle - 4.0
            ),
        );
        element(
            body,
            format_args!(
                "<text x=\"{:.1}\" y=\"{baseline:.0}\">{:.2} s</text>",
                right + 6.0,
                bar.spread.median
            ),
        );
        y += BAR_STEP;
    }
}

fn element(body: &mut String, element: std::fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = writeln!(body, "{element}");
}

fn class(label: &str) -> &'static str {
    if label.starts_with("floor") {
        "floor"
    } else if label.starts_with("unsnap") {
        "subject"
    } else {
        "bar"
    }
}

/// The figures in words, for who cannot see them.
fn describe(groups: &[Group]) -> String {
    let bar = |bar: &Bar| format!("{} {} s", bar.label, bar.spread);
    let group = |group: &Group| {
        let bars: Vec<_> = group.bars.iter().map(bar).collect();
        format!("{}: {}.", group.title, bars.join(", "))
    };
    groups.iter().map(group).collect::<Vec<_>>().join(" ")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plots_are_drawn_to_scale() {
        let bar = |label: &str, median| Bar {
            label: label.into(),
            spread: Spread { median, min: median, max: median },
        };
        let groups =
            [Group { title: "a < b".into(), bars: vec![bar("unsnap", 1.0), bar("agave", 2.0)] }];
        let svg = plot("Seconds", &groups);
        let room = WIDTH - LABELS_WIDTH - FIGURES_WIDTH - MARGIN;
        assert!(svg.contains(&format!(
            "class=\"subject\" x=\"170\" y=\"64\" width=\"{:.1}\"",
            room / 2.0
        )));
        assert!(svg.contains(&format!("class=\"bar\" x=\"170\" y=\"82\" width=\"{room:.1}\"")));
        assert!(svg.contains("a &lt; b: unsnap 1.00 [1.00–1.00] s, agave 2.00 [2.00–2.00] s."));
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
    }
}
