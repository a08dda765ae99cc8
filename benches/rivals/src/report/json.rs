//! Every single measurement, for other programs.

use std::fs::File;
use std::path::Path;

use serde_json::{Value, json};

use crate::Failure;
use crate::compare::Measured;
use crate::machine;

pub fn write(path: &Path, rows: &[Measured]) -> Result<(), Failure> {
    let rows: Vec<Value> = rows.iter().map(row).collect();
    let machine: Value = machine::describe()
        .into_iter()
        .map(|(what, value)| (what.to_owned(), json!(value)))
        .collect();
    let all = json!({ "date": machine::today(), "machine": machine, "rows": rows });
    Ok(serde_json::to_writer_pretty(File::create(path)?, &all)?)
}

fn row(measured: &Measured) -> Value {
    let servers: Vec<Value> = measured
        .columns
        .iter()
        .map(|column| json!({ "server": column.serve.name().to_string(), "runs": column.outcomes }))
        .collect();
    json!({ "row": measured.row.name, "load": measured.row.load, "servers": servers })
}
