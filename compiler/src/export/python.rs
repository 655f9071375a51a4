//! Plans as Python modules: what is the same for every framework that arrays can be written in.
//!
//! A module is written from the plan's JSON form, and from that of the same plan at small sizes, at
//! which its `main` runs. Which steps there are, in which order and in which loops is decided by
//! the [walk](super::walk), of which Python is a target; under which names and with which
//! dimensions is decided here; how a framework says it is its [`Dialect`](dialect::Dialect).
//!
//! | file | writes |
//! | --- | --- |
//! | `dialect` | nothing: what each framework says in its own words |
//! | `names` | identifiers |
//! | `expression` | local operations |
//! | `conversions` | types around them |
//! | `rearrange` | rearrangements of elements |
//! | `convolution` | windows of convolutions, and their transpose |
//! | `padding` | what padded blocks are cut to |
//! | `opaque` | functions that their author has to write |
//! | `collectives` | mesh axes as arguments |
//! | `body` | functions: steps, as a target of the walk |
//! | `loops` | loops |
//! | `stages` | loops over the layers of pipelines |
//! | `sizes` | sizes and trip counts |
//! | `module` | the functions together, and tables |
//! | `layout` | lines as `black` breaks them |

pub(super) mod body;
pub(super) mod collectives;
mod conversions;
mod convolution;
pub(super) mod dialect;
pub(super) mod expression;
pub(super) mod layout;
pub(super) mod loops;
pub(super) mod module;
pub(super) mod names;
mod opaque;
pub(super) mod padding;
mod rearrange;
pub(super) mod sizes;
mod stages;
