//! What a comparison looks like.

pub mod chart;
pub mod json;
pub mod markdown;
pub mod table;

mod figures;
