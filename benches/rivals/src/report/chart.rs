//! Two pictures: processor time for each message, and the rate, both against the epoll loop.

use std::path::{Path, PathBuf};

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

use crate::Failure;
use crate::compare::Measured;
use crate::plan::{Figure, Kind, Outcome};
use crate::tally::Column;

const WIDTH: u32 = 960;
const LABELS: i32 = 200;
const BAR: i32 = 13;
const GAP: i32 = 14;
/// Where the axis ends; longer bars are cut and say how long they are.
const MOST: f64 = 3.0;

/// Draws beside `page`; returns each picture's name and title.
pub fn draw(page: &Path, rows: &[Measured]) -> Result<Vec<(String, &'static str)>, Failure> {
    let stem = page.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let charts: [(&str, &str, Figure); 2] = [
        (
            "cpu",
            "Processor time for each message, epoll loop = 1 (less is better)",
            Outcome::cpu_each,
        ),
        (
            "rate",
            "Messages a second where as many are sent as come back, epoll loop = 1 (more is better)",
            Outcome::rate,
        ),
    ];
    let mut drawn = Vec::new();
    for (what, title, of) in charts {
        let name = format!("{stem}-{what}.svg");
        // Where the clients set the pace, the rate says nothing.
        let rows: Vec<_> =
            rows.iter().filter(|measured| what == "cpu" || !is_paced(measured)).collect();
        if !rows.is_empty() {
            bars(&page.with_file_name(&name), title, &rows, of)?;
            drawn.push((name, title));
        }
    }
    Ok(drawn)
}

fn is_paced(measured: &Measured) -> bool {
    use crate::plan::Drive::{Crowd, Paced};
    matches!(measured.row.load.drive, Paced { .. } | Crowd { .. })
}

fn bars(path: &PathBuf, title: &str, rows: &[&Measured], of: Figure) -> Result<(), Failure> {
    let bars: i32 = rows.iter().map(|measured| others(measured).count() as i32).sum();
    let height = 92 + bars * BAR + rows.len() as i32 * GAP;
    let area = SVGBackend::new(path, (WIDTH, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let text = |size: i32, x: HPos| {
        ("sans-serif", size)
            .into_text_style(&area)
            .pos(Pos::new(x, VPos::Center))
            .color(&RGBColor(40, 40, 40))
    };
    area.draw_text(title, &text(17, HPos::Left), (16, 22))?;
    legend(&area, rows)?;
    let span = WIDTH as i32 - LABELS - 60;
    let at = |value: f64| LABELS + (value.min(MOST) / MOST * f64::from(span)) as i32;
    for tenths in [0, 5, 10, 15, 20, 25, 30] {
        let value = f64::from(tenths) / 10.0;
        let colour = if tenths == 10 { RGBColor(40, 40, 40) } else { RGBColor(225, 225, 225) };
        area.draw(&PathElement::new([(at(value), 72), (at(value), height - 8)], colour))?;
        area.draw_text(&format!("{value}"), &text(12, HPos::Center), (at(value), 63))?;
    }
    let mut y = 76 + GAP / 2;
    for measured in rows {
        area.draw_text(
            &measured.row.name,
            &text(13, HPos::Right),
            (LABELS - 8, y + others(measured).count() as i32 * BAR / 2),
        )?;
        for column in others(measured) {
            let ratio = measured.reference().and_then(|reference| column.ratio(reference, of));
            let value = ratio.map_or(0.0, |spread| spread.median);
            area.draw(&Rectangle::new(
                [(LABELS, y + 1), (at(value), y + BAR - 1)],
                colour(column).filled(),
            ))?;
            area.draw_text(
                &format!("{value:.2}"),
                &text(11, HPos::Left),
                (at(value) + 5, y + BAR / 2),
            )?;
            y += BAR;
        }
        y += GAP;
    }
    Ok(area.present()?)
}

fn legend(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    rows: &[&Measured],
) -> Result<(), Failure> {
    let style = ("sans-serif", 13).into_text_style(area).pos(Pos::new(HPos::Left, VPos::Center));
    let mut named: Vec<(String, RGBColor)> = Vec::new();
    for column in rows.iter().flat_map(|measured| others(measured)) {
        let name = column.serve.name().to_string();
        if !named.iter().any(|(known, _)| *known == name) {
            named.push((name, colour(column)));
        }
    }
    let mut x = 16;
    for (name, colour) in named {
        area.draw(&Rectangle::new([(x, 39), (x + 11, 50)], colour.filled()))?;
        area.draw_text(&name, &style, (x + 16, 45))?;
        x += 30 + name.chars().count() as i32 * 7;
    }
    Ok(())
}

/// All but the one that the others are measured against.
fn others(measured: &Measured) -> impl Iterator<Item = &Column> {
    measured.columns.iter().filter(|column| column.serve != measured.row.reference)
}

fn colour(column: &Column) -> RGBColor {
    match (column.serve.kind, column.serve.hz) {
        (Kind::Tickwire, 0) => RGBColor(0, 114, 178),
        (Kind::Tickwire, _) => RGBColor(86, 180, 233),
        (Kind::Epoll, _) => RGBColor(120, 120, 120),
        (Kind::Tokio, _) => RGBColor(213, 94, 0),
        (Kind::TokioBest, _) => RGBColor(240, 170, 60),
        (Kind::MessageIo, _) => RGBColor(204, 121, 167),
        (Kind::Threads, _) => RGBColor(0, 158, 115),
        (Kind::Netty, _) => RGBColor(150, 110, 60),
    }
}
