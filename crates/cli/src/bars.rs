//! Bars, on a terminal and as a drawing.

use unicode_width::UnicodeWidthStr as _;

/// Length of the longest bar on a terminal, in columns.
const LONGEST: usize = 40;

/// One line per value: its name, a bar, the value.
pub(crate) fn lines(values: &[(String, f64)], say: impl Fn(f64) -> String) -> Vec<String> {
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let widest = values.iter().map(|(name, _)| name.width()).max().unwrap_or_default();
    let line = |(name, value): &(String, f64)| {
        let space = " ".repeat(widest - name.width());
        let bar = "█".repeat(scaled(*value, most, LONGEST));
        format!("{name}{space}  {bar}{}{}", if bar.is_empty() { "" } else { " " }, say(*value))
    };
    values.iter().map(line).collect()
}

/// The length of a bar. A value above zero is always visible.
fn scaled(value: f64, most: f64, longest: usize) -> usize {
    if value <= 0.0 || most <= 0.0 {
        return 0;
    }
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "between 0 and the longest bar"
    )]
    let length = (value / most * longest as f64).round() as usize;
    length.max(1)
}

/// The same bars as SVG. The names are our own (weeks), never text that others wrote.
pub(crate) fn svg(title: &str, values: &[(String, f64)]) -> String {
    const ROW: usize = 22;
    const LEFT: usize = 90;
    const WIDE: usize = 480;
    let most = values.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    let height = ROW * (values.len() + 2);
    let mut drawing = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{height}\" viewBox=\"0 0 {0} {height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n<title>{1}</title>\n\
         <text x=\"8\" y=\"18\" font-weight=\"bold\">{1}</text>\n",
        LEFT + WIDE + 60,
        escaped(title)
    );
    for (at, (name, value)) in values.iter().enumerate() {
        let (y, length) = (ROW * (at + 1) + 8, scaled(*value, most, WIDE));
        drawing.push_str(&format!(
            "<text x=\"8\" y=\"{}\">{}</text><rect x=\"{LEFT}\" y=\"{y}\" width=\"{length}\" height=\"14\" \
             fill=\"#4a7ebb\"/><text x=\"{}\" y=\"{}\">{value:.0}</text>\n",
            y + 12,
            escaped(name),
            LEFT + length + 6,
            y + 12
        ));
    }
    drawing.push_str("</svg>\n");
    drawing
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion_and_small_values_stay_visible() {
        let values = [("2026-W40", 40.0), ("2026-W41", 20.0), ("2026-W42", 0.1), ("2026-W43", 0.0)];
        let values = values.map(|(name, value)| (name.to_owned(), value));
        let drawn = lines(&values, |value| format!("{value:.0}"));
        let lengths: Vec<usize> = drawn.iter().map(|line| line.matches('█').count()).collect();
        assert_eq!(lengths, [40, 20, 1, 0]);
        assert_eq!(drawn[3], "2026-W43  0");
        let svg = svg("a <b> & c", &values);
        assert!(
            svg.contains("<title>a &lt;b&gt; &amp; c</title>") && svg.matches("<rect").count() == 4,
            "{svg}"
        );
    }
}
