//! SVG plot of the error of each policy: one dot per grid cell, to the right over-admission and to the left
//! under-admission.

use std::fmt::Write;

/// One policy, with over-admission and under-admission per cell, in percent.
///
/// ```
/// use hivemind_mesh_sim::plot::PlotRow;
///
/// let row = PlotRow { name: "even shares".into(), cells: vec![(0.0, 40.0), (0.0, 12.5)] };
/// assert!(row.cells.iter().all(|(over, _)| *over == 0.0)); // No over-admission, and much under-admission.
/// ```
pub struct PlotRow {
    /// Its name.
    pub name: String,
    /// (over, under) for each cell.
    pub cells: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const LEFT: f64 = 150.0;
const ROW: f64 = 60.0;

/// Renders the rows.
///
/// ```
/// use hivemind_mesh_sim::plot::svg;
///
/// assert!(svg(&[]).ends_with("</svg>\n"));
/// ```
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "coordinates")]
pub fn svg(rows: &[PlotRow]) -> String {
    let height = ROW * rows.len() as f64 + 70.0;
    let center = LEFT + (WIDTH - LEFT) / 2.0;
    let scale = (WIDTH - LEFT - 20.0) / 2.0 / 150.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
    );
    for percent in [-100.0, -50.0, 0.0, 50.0, 100.0, 150.0] {
        let x = center + percent * scale;
        let _ = writeln!(
            text,
            "<line x1=\"{x:.1}\" y1=\"20\" x2=\"{x:.1}\" y2=\"{:.1}\" stroke=\"#ddd\"/>",
            height - 45.0
        );
        let _ = writeln!(
            text,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{:.0} %</text>",
            height - 28.0,
            f64::abs(percent)
        );
    }
    for (index, row) in rows.iter().enumerate() {
        let y = 20.0 + ROW * (index as f64 + 0.5);
        let _ = writeln!(
            text,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            LEFT - 10.0,
            y + 4.0,
            row.name
        );
        for (number, (over, under)) in row.cells.iter().enumerate() {
            let spread = y - 20.0 + (number * 13 % 40) as f64;
            for (percent, color) in [(over.min(150.0), "#c0392b"), (-under, "#2c6fbb")] {
                if percent != 0.0 || (*over == 0.0 && *under == 0.0 && color == "#2c6fbb") {
                    let x = center + percent * scale;
                    let color = if percent == 0.0 { "#333" } else { color };
                    let _ = writeln!(
                        text,
                        "<circle cx=\"{x:.1}\" cy=\"{spread:.1}\" r=\"2.2\" fill=\"{color}\" fill-opacity=\"0.5\"/>"
                    );
                }
            }
        }
    }
    let _ = writeln!(
        text,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">missed &#8592; each dot one cell of the grid, worst window &#8594; admitted too much</text>\n</svg>",
        center,
        height - 8.0
    );
    text
}
