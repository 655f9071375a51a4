//! The rules of the language, one test each: the meaning of programs, the validity of plans, the
//! printing of both.

mod common;
mod print;
mod resolve;
mod verify;
