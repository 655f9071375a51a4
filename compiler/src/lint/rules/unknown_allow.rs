//! `unknown-allow`: found by whoever applies the `allow`s (see `lint::allow`).

use crate::lint::{Group, Level, Lint};

pub(crate) const LINT: Lint = Lint {
    code: "SW901",
    name: "unknown-allow",
    group: Group::Tool,
    level: Level::Warn,
    what: "An `allow` names what is no lint: a code that does not exist, or that of an error.",
    why: "It silences nothing. Errors cannot be allowed, since a program with an error has no \
        plan.",
    trigger: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
allow SW398
Out = gelu(In)
output Out[B_X, D]
",
    cure: "hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
Out = gelu(In)
output Out[B_X, D]
",
    parameters: &[],
    check: |_| Vec::new(),
};
