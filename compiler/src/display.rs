//! How quantities and tables are written for people.

pub mod units;
