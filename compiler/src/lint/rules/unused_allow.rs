//! `unused-allow`: found by whoever applies the `allow`s, after all other lints ran (see
//! `lint::allow`).

use crate::lint::{Group, Level, Lint};

pub(crate) const LINT: Lint = Lint {
    code: "SW900",
    name: "unused-allow",
    group: Group::Tool,
    level: Level::Warn,
    what: "An `allow` silences a lint that finds nothing there.",
    why: "The fault that was accepted is gone, or the statement moved; left in place, the `allow` \
        would hide the next one.",
    trigger: "allow SW353
hardware tpu-v5p
mesh X=4
dim B=8192, D=8192
input In[B_X, D]
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
