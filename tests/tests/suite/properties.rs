//! Properties of every plan, on the programs of the book and on random ones.

mod memory_limits;
mod one_switch;
mod plans;
mod random_programs;
mod reshards;
