//! Lints: their pages, random programs, and the formats that other tools read.

mod output_formats;
mod pages;
mod random_programs;
mod reviewed_specs;
mod savings;
