//! For a person at a terminal.

use super::figures;
use crate::compare::Measured;

pub fn print(rows: &[Measured]) {
    for measured in rows {
        let cells: Vec<_> =
            measured.columns.iter().map(|column| figures::cells(measured, column)).collect();
        let lines: Vec<Vec<String>> = [figures::heads(measured).map(str::to_owned)]
            .into_iter()
            .chain(cells)
            .map(Vec::from)
            .collect();
        let width =
            |at: usize| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0);
        println!("\n{}", measured.row.name);
        for line in &lines {
            print!("  {:<1$}", line[0], width(0));
            for (at, cell) in line.iter().enumerate().skip(1) {
                print!("  {cell:>0$}", width(at));
            }
            println!();
        }
    }
}

/// Returns whether every server gave every reply, and each of them right.
pub fn print_verdict(rows: &[Measured]) -> bool {
    let all = rows.iter().flat_map(|row| row.columns.iter().map(move |column| (row, column)));
    let wrong: Vec<_> = all.filter(|(_, column)| column.errors() > 0).collect();
    println!();
    if wrong.is_empty() {
        println!("Every byte of every reply was right.");
    }
    for (measured, column) in &wrong {
        let outcomes = column.outcomes.iter().flatten();
        let (wrong, missing, dead) = outcomes.fold((0, 0, 0), |sum, outcome| {
            (sum.0 + outcome.wrong, sum.1 + outcome.missing, sum.2 + outcome.dead)
        });
        println!(
            "{}, {}: {wrong} receives wrong, {missing} messages missing, {dead} connections lost",
            measured.row.name,
            column.serve.name()
        );
    }
    wrong.is_empty()
}
