//! The rules of the language, one test each: what programs mean, what plans may be, how both are
//! printed.

mod common;
mod print;
mod resolve;
mod verify;
